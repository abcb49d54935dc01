"""Keeps the log of a driver from growing without an end.

spark-submit, the JVM, its Python and their children write to one descriptor that they have inherited, opened for
appending. It cannot be exchanged under them, and nothing may stand between them and the file: a process that passes
their output on would block the driver when it is stopped, and break its output when it dies. So the log is copied and
then cut, and its writers go on at the new end (what logrotate calls ``copytruncate``).

Invariants:

- Nothing here holds, delays or ends a driver. One thread of the supervisor works on files alone, and when the
  supervisor dies the driver dies with it.
- The log is cut also when it cannot be kept, because the disk is full: only its end stays then. A log that fills the
  disk would end the driver.
- ``driver.log.1`` is the newest of the kept files. A kept file never changes, but for its number; it gets its name
  after the log is cut, so a reader never finds the same lines in both (``jobs.host.driver_log``).
- Lost is what is written between the last read and the cut: microseconds, more when the machine is overloaded.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import threading
import time
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import BinaryIO

from airflow_provider_ha.jobs.host.driver_spec import OWNER_ONLY
from airflow_provider_ha.jobs.options.ha_options import HaOptions


log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
_MOST_KEPT = 1024 * 1024  # bytes of a log that cannot be kept as a whole
_ROUNDS = 100  # of catching up with a writer; then the log is cut anyway
_COPY = ".driver.log.copy"


def rotate_log(path: Path, options: HaOptions) -> None:
    """Keep the log of a driver within the limits of its job, for as long as this process lives."""
    LogRotation(path, size=options.driver_log_mb * 1_000_000, files=options.driver_log_files).start()


class LogRotation:
    """Rotates one log.

    :param path: The log; its writers append.
    :param size: Bytes from which on it is rotated.
    :param files: How many files there are at most, the log itself included.
    """

    def __init__(self, path: Path, *, size: int, files: int) -> None:
        self._path = path
        self._size = size
        self._files = files
        self._complained = False
        # Its naming is the standard library's; it never opens the log itself.
        self._names = RotatingFileHandler(path, backupCount=files - 1, delay=True)

    def start(self) -> None:
        """Begin to look at the log from time to time, for as long as this process lives."""
        threading.Thread(target=self._look_for_ever, name="log-rotation", daemon=True).start()

    def look(self) -> None:
        """Rotate the log when it is large enough.

        :raises OSError: It could not be looked at or cut.
        """
        if self._path.stat().st_size < self._size:
            return
        with self._path.open("r+b") as source:
            try:
                kept = self._files > 1 and self._keep(source)
            except OSError as error:
                log.warning("%s cannot be kept as a whole, its end stays: %s", self._path, error)
                kept = False
            if not kept:
                self._cut_to_its_end(source)

    def _look_for_ever(self) -> None:
        while True:
            try:
                self.look()
            except Exception as error:  # noqa: BLE001  # a log that cannot be rotated is no reason to end a supervisor
                if not self._complained:
                    log.warning("%s is not rotated: %s", self._path, error)
                self._complained = True
            time.sleep(LOOK_SECONDS)

    def _keep(self, source: BinaryIO) -> bool:
        """Move what the log holds into the first kept file.

        :raises OSError: It could not be copied; the log is as it was.
        """
        aside = self._path.with_name(_COPY)
        try:
            with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, OWNER_ONLY), "wb") as copy:
                _catch_up(source, copy)  # first what takes long, and may not fit
                self._names.rotator = lambda _, kept: self._cut_and_name(source, copy, aside, kept)
                self._names.doRollover()
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
        return True

    @staticmethod
    def _cut_and_name(source: BinaryIO, copy: BinaryIO, aside: Path, kept: str) -> None:
        for _ in range(_ROUNDS):
            _catch_up(source, copy)
            if os.fstat(source.fileno()).st_size == source.tell():
                break
        os.ftruncate(source.fileno(), 0)
        aside.replace(kept)

    def _cut_to_its_end(self, source: BinaryIO) -> None:
        descriptor = source.fileno()
        size, most = os.fstat(descriptor).st_size, min(_MOST_KEPT, self._size // 4)
        end = os.pread(descriptor, most, size - most).partition(b"\n")[2]
        os.ftruncate(descriptor, 0)
        note = f"spark-ha: {size - len(end)} bytes of this log were removed: they could not be kept\n"
        with contextlib.suppress(OSError), self._path.open("ab") as sink:  # there is no room for the end either
            sink.write(note.encode() + end)


def _catch_up(source: BinaryIO, copy: BinaryIO) -> None:
    shutil.copyfileobj(source, copy, 1024 * 1024)
    copy.flush()
