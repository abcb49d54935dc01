"""Run a command whose temporary files are in memory: ``python -m tests.support.in_memory COMMAND ...``.

Each record of ZooKeeper and each file of a checkpoint is flushed: a test that writes many spends a third of its time
waiting for the disk. What tests do to processes loses no page of memory, so nothing is tested less; the same flushes
go to a disk in `make test-long`. Without room in memory, the command runs with its files where they are otherwise.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zlib
from contextlib import suppress
from pathlib import Path

import psutil


_MEMORY = Path("/dev/shm")  # noqa: S108  # one directory below it is used
_ROOM = 4 << 30  # bytes: a run needs one gigabyte, and its processes four beside that
_CHECKOUT = Path(__file__).parents[2]


def scratch() -> Path | None:
    """Return an empty directory in memory, or ``None`` where there is no room; an earlier run's files are removed."""
    directory = _MEMORY / f"spark-ha-tests-{os.getuid()}-{zlib.crc32(os.fsencode(_CHECKOUT)):08x}"
    shutil.rmtree(directory, ignore_errors=True)
    if not os.access(_MEMORY, os.W_OK) or shutil.disk_usage(_MEMORY).free < _ROOM:
        return None
    if psutil.virtual_memory().available < 2 * _ROOM:
        return None
    directory.mkdir(mode=0o755)  # some tests look at it as another user
    return directory


def main(command: list[str]) -> int:
    """Run *command*; return its exit code. The files of a run that failed stay until the next one."""
    directory = scratch()
    environment = os.environ if directory is None else {**os.environ, "TMPDIR": str(directory)}
    process = subprocess.Popen(command, env=environment)
    while process.poll() is None:
        with suppress(KeyboardInterrupt):  # the command gets it from the terminal as well, and ends what it has started
            process.wait()
    if directory is not None:
        if process.returncode:
            print(f"temporary files of the tests, in memory until the next run: {directory}", file=sys.stderr)
        else:
            shutil.rmtree(directory, ignore_errors=True)
    return process.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
