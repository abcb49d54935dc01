"""Rotation of a driver's log, which limits its size.

spark-submit, the JVM, its Python and their children write to one inherited descriptor, opened for appending. It cannot
be replaced under them. A process between them and the file is no alternative: it would block the driver when it is
stopped, and break the driver's output when it dies. So the log is copied and then truncated, and its writers continue
at the new end (logrotate's ``copytruncate``).

Invariants:

- Rotation never holds, delays or ends a driver. One thread of the supervisor works on files alone, and when the
  supervisor dies the driver dies with it.
- The log is truncated even if a full disk prevents keeping it: then only its end is kept. A log that fills the disk
  would end the driver.
- ``driver.log.1`` is the newest kept file. A kept file never changes, except for its number; it gets its name after the
  log is truncated, so a reader never finds the same lines in both (``jobs.drivers.driver_log``).
- Output written between the last read and the truncation is lost: microseconds, more on an overloaded machine.
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

from airflow_provider_ha.jobs.drivers.driver_spec import OWNER_ONLY
from airflow_provider_ha.jobs.options.job_options import HaOptions


log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
_MOST_KEPT = 1024 * 1024  # bytes kept of a log that cannot be kept as a whole
_ROUNDS = 100  # seconds of catching up with a writer before the log is cut anyway
_COPY = ".driver.log.copy"


def rotate_log(path: Path, options: HaOptions) -> None:
    """Keep the log of a driver within the limits of its job, for the lifetime of this process."""
    LogRotation(path, size=options.driver_log_mb * 1_000_000, files=options.driver_log_files).start()


class LogRotation:
    """Rotation of a log.

    :param path: Path of the log; its writers append.
    :param size: Bytes; a larger log is rotated.
    :param files: Maximum number of files, the log itself included.
    """

    def __init__(self, path: Path, *, size: int, files: int) -> None:
        self._path = path
        self._size = size
        self._files = files
        self._complained = False
        # Only for the standard library's naming; it never opens the log itself.
        self._names = RotatingFileHandler(path, backupCount=files - 1, delay=True)

    def start(self) -> None:
        """Check the log from time to time, for the lifetime of this process."""
        threading.Thread(target=self._look_for_ever, name="log-rotation", daemon=True).start()

    def look(self) -> None:
        """Rotate the log if it is large enough.

        :raises OSError: The log could not be read or truncated.
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
        """Move the content of the log into the first kept file.

        :raises OSError: The content could not be copied; the log is unchanged.
        """
        aside = self._path.with_name(_COPY)
        try:
            with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, OWNER_ONLY), "wb") as copy:
                _catch_up(source, copy)  # first the slow part, which may not fit on the disk
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
        with contextlib.suppress(OSError), self._path.open("ab") as sink:  # the disk has no room for the end either
            sink.write(note.encode() + end)


def _catch_up(source: BinaryIO, copy: BinaryIO) -> None:
    shutil.copyfileobj(source, copy, 1024 * 1024)
    copy.flush()
