"""Files that survive a power cut and appear atomically.

A file is prepared under a dotted name in its target directory, flushed, and only then renamed. The directory is flushed
too: otherwise a crash may lose the name of a file whose bytes are safe.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from airflow_provider_ha.clock import new_id


PREPARED = ".prepared-"
REMOVED = ".removed"
REMAINS = re.compile(rf"\.(?P<name>.+)\.[0-9a-f]+(\.tmp|{re.escape(REMOVED)})")
"""Names of unfinished work: of :func:`remove_tree`, and of directories that are built under a hidden name."""
PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700
_PERMISSIONS = 0o777
COPY_BUFFER = 1024 * 1024
_FICLONE = 0x40049409  # of linux/fs.h; the same on every architecture that Spark supports


@contextmanager
def prepared(target: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """Yield the path and the open file of an object in preparation; flushed at the end, and always removed.

    Only its owner can read it: an artifact may contain an undeclared secret.
    """
    temporary = target.parent / f"{PREPARED}{new_id()}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield temporary, stream
    finally:
        temporary.unlink(missing_ok=True)


def create_file(target: Path, data: bytes) -> None:
    """Write a file that must not exist yet.

    A hard link is the only file system operation (NFS included) that fails if its target exists and publishes a whole
    file: ``O_EXCL`` would show an empty file first.

    :raises FileExistsError: The file exists.
    """
    with prepared(target) as (temporary, stream):
        stream.write(data)
        flush(stream)
        os.link(temporary, target)
    flush_directory(target.parent)


def replace_file(target: Path, content: bytes | Path) -> None:
    """Write a file from bytes or from another file, replacing an existing one."""
    with prepared(target) as (temporary, stream):
        if isinstance(content, Path):
            with content.open("rb") as source:
                shutil.copyfileobj(source, stream, COPY_BUFFER)
        else:
            stream.write(content)
        flush(stream)
        temporary.replace(target)
    flush_directory(target.parent)


def reflink(source: IO[bytes], target: IO[bytes]) -> bool:
    """Let an empty file share the blocks of another until either is written; return whether the file system could.

    A refusal is not an error: a full or broken disk reports it again when the bytes are copied.
    """
    try:
        fcntl.ioctl(target.fileno(), _FICLONE, source.fileno())
    except OSError:
        return False
    return True


def make_directories(path: Path, *, below: Path | None = None) -> None:
    """Create a directory and its parents durably; existing ones are fine.

    :param below: Directory that is never created.
    :raises FileNotFoundError: *below* does not exist.
    """
    missing = []
    while not path.is_dir():
        if path == below:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(below))
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        try:
            directory.mkdir(PRIVATE_DIRECTORY)
        except FileExistsError:
            # Another process may create it at the same time; an existing file with its name is an error.
            if not directory.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, "a file is in the way", str(directory)) from None
        flush_directory(directory.parent)


def private_directories(path: Path) -> None:
    """Create a directory and its parents for their owner only, without a flush; existing ones are fine.

    ``Path.mkdir(parents=True, mode=...)`` applies the mode only to the last one.

    :raises NotADirectoryError: A file is in the way.
    """
    try:
        path.mkdir(PRIVATE_DIRECTORY)
    except FileNotFoundError:
        private_directories(path.parent)
        path.mkdir(PRIVATE_DIRECTORY, exist_ok=True)
    except FileExistsError:
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "a file is in the way", str(path)) from None


def directories_as_above(path: Path) -> None:
    """Create a directory and its parents, each with the mode of its parent: never wider than the existing one.

    :raises NotADirectoryError: A file is in the way.
    """
    try:
        path.mkdir(stat.S_IMODE(path.parent.stat().st_mode) & _PERMISSIONS)
    except FileNotFoundError:
        directories_as_above(path.parent)
        directories_as_above(path)
    except FileExistsError:
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "a file is in the way", str(path)) from None


def flush(stream: IO[bytes]) -> None:
    """Force the bytes of an open file to the disk."""
    stream.flush()
    os.fsync(stream.fileno())


def flush_directory(path: str | os.PathLike[str]) -> None:
    """Force the names in a directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Lock an open file or directory until it is closed or the process dies.

    :returns: ``False`` when a living process has the lock, or this file system cannot lock.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def remove_tree(path: Path) -> None:
    """Remove a directory: rename it to a hidden name first, so that readers never see it half-removed.

    Repeatable: hidden remains of an interrupted removal are removed too.
    """
    hidden = path.parent / f".{path.name}.{new_id()}{REMOVED}"
    with contextlib.suppress(FileNotFoundError):
        path.rename(hidden)
        flush_directory(path.parent)
    for remains in path.parent.glob(f".{glob.escape(path.name)}.*{REMOVED}"):
        shutil.rmtree(remains)
