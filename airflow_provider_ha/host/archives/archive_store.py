"""Class archives of a host: files below the drivers' home, each with a note that is written after it.

Hosts may share the home. Each has its own training, and of two archives with one key the first one stays.

The writer of an archive runs code in each driver. So the directory has mode 0700, other users can change no directory
above it, and links and files of other users are not opened. A damaged archive kills the JVM that maps it: length and
digest are compared before each use, and a file is never changed in place.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import ClassVar

from airflow_provider_ha.clock import Clock, SystemClock, new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import ConfigurationError, HaError
from airflow_provider_ha.jobs.drivers.driver_spec import ARCHIVES
from airflow_provider_ha.records import Record
from airflow_provider_ha.storage.durable import private_directories, replace_file


UNUSED = timedelta(days=30)  # before an archive is removed
AGAIN = timedelta(days=1)  # after a training that failed
_CHUNK = 1 << 20
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class ArchiveNote(Record):
    """``<key>.json``: an archive is complete once its note exists.

    :param length: Bytes of the archive.
    :param sha256: Its digest.
    :param resources: First parts of the names in its jars that are no classes (``jvm_command.resources_of``).
    :param seconds: Time that the training took.
    """

    kind: ClassVar[str] = "class-archive"

    key: str
    length: int
    sha256: str
    java: str
    spark: str
    seconds: float
    made_at: datetime
    resources: tuple[str, ...] = ()


class FailedTraining(Record):
    """``<key>.failed``: why there is no archive."""

    kind: ClassVar[str] = "class-archive-failure"

    key: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class StoredArchive:
    """An archive with its note.

    :param used_at: Last use.
    """

    path: Path
    note: ArchiveNote
    used_at: datetime


class ArchiveStore:
    """The archives of this user on this host. Every result is of the moment.

    :param directory: Created with mode 0700 by the first writer.
    """

    def __init__(self, directory: Path, *, clock: Clock | None = None) -> None:
        self.directory = directory
        self._clock = clock or SystemClock()

    @classmethod
    def of(cls, config: HaConfig) -> ArchiveStore:
        """Return the store below the drivers' home."""
        return cls(config.home_path / f"{ARCHIVES}{os.geteuid()}")

    def path(self, key: str) -> Path:
        """Return the path of an archive."""
        return self.directory / f"{key}.jsa"

    def find(self, key: str) -> StoredArchive | None:
        """Return an archive with its note, not verified; ``None`` if it does not exist.

        :raises ConfigurationError: Others could have written it.
        """
        try:
            self._require_own()
            note = ArchiveNote.from_bytes(self._read(self._note(key)), source=str(self._note(key)))
            used = self._note(key).lstat().st_mtime
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigurationError(f"the class archives of {self.directory} cannot be read: {error}") from error
        return StoredArchive(self.path(key), note, datetime.fromtimestamp(used, tz=self._clock.now().tzinfo))

    def verify(self, archive: StoredArchive) -> None:
        """Compare an archive with its note, and note its use.

        :raises ConfigurationError: It differs, or belongs to another user.
        """
        try:
            measured = self.measure(archive.path)
        except OSError as error:
            raise ConfigurationError(f"the class archive {archive.path} cannot be read: {error}") from error
        if measured != (archive.note.length, archive.note.sha256):
            raise ConfigurationError(f"the class archive {archive.path} is damaged")
        with suppress(OSError):  # a read-only image
            os.utime(self._note(archive.note.key))

    def measure(self, path: Path) -> tuple[int, str]:
        """Return length and SHA-256 of a file.

        :raises ConfigurationError: Another user may have written it.
        """
        digest, length = hashlib.sha256(), 0
        with self._opened(path) as descriptor:
            while chunk := os.read(descriptor, _CHUNK):
                digest.update(chunk)
                length += len(chunk)
        return length, digest.hexdigest()

    def failure(self, key: str) -> FailedTraining | None:
        """Return a training's failure of the last day; ``None`` without one."""
        path = self._failed(key)
        try:
            found = FailedTraining.from_bytes(self._read(path), source=str(path))
        except (FileNotFoundError, HaError):
            return None
        return found if self._clock.now() - found.at < AGAIN else None

    def publish(self, made: Path, note: ArchiveNote) -> ArchiveNote:
        """Take over a new archive and forget an earlier failure, unless another host has just published one.

        :param made: The file, in this directory.
        :returns: The note of the archive that is used.
        """
        made.chmod(0o400)
        with self._changing():
            if (other := self.find(note.key)) is not None:
                return other.note
            made.replace(self.path(note.key))
            replace_file(self._note(note.key), note.to_bytes())
            self._failed(note.key).unlink(missing_ok=True)
        return note

    def set_aside(self, key: str, reason: str) -> None:
        """Remove an archive, and make none for a day."""
        self.remove(key)
        failed = FailedTraining(key=key, reason=reason, at=self._clock.now())
        replace_file(self._failed(key), failed.to_bytes())

    def remove(self, key: str) -> None:
        """Remove an archive and the note about its failure. Idempotent.

        :raises ConfigurationError: The directory is not this user's.
        """
        if not self.directory.exists():
            return
        self._require_own()
        with self._changing():
            for path in (self._note(key), self.path(key), self._failed(key)):
                path.unlink(missing_ok=True)

    def archives(self) -> list[StoredArchive]:
        """Return all archives, sorted by their keys.

        :raises ConfigurationError: Others could have written them.
        """
        return [found for key in self.keys() if (found := self.find(key)) is not None]

    def keys(self) -> list[str]:
        """Return the keys of all archives and of all failed trainings, sorted."""
        found = self.directory.iterdir() if self.directory.is_dir() else ()
        return sorted({path.stem for path in found if path.suffix in (".jsa", ".failed")})

    def expire(self) -> list[str]:
        """Remove archives that no driver has used for :data:`UNUSED`; return their keys."""
        now = self._clock.now()
        old = [found.note.key for found in self.archives() if now - found.used_at > UNUSED]
        for key in old:
            self.remove(key)
        return old

    @contextmanager
    def training(self) -> Iterator[Path | None]:
        """Hold the lock of this host's training; yield a name for its file, or ``None`` if another process trains.

        What an earlier training of this host has left is removed.
        """
        private_directories(self.directory)
        self._require_own()
        host = socket.gethostname()
        with self._locked(f"{host}.lock", fcntl.LOCK_NB) as locked:
            if not locked:
                yield None
                return
            for left in self.directory.glob("*.tmp"):
                if left.stem.rpartition(".")[0] == host:
                    left.unlink(missing_ok=True)
            made = self.directory / f"{host}.{new_id()}.tmp"
            try:
                yield made
            finally:
                made.unlink(missing_ok=True)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Exclude other changes of archive and note, also by other hosts."""
        with self._locked("changes.lock") as locked:
            if not locked:
                raise ConfigurationError(f"the file system of {self.directory} has no locks")
            yield

    @contextmanager
    def _locked(self, name: str, how: int = 0) -> Iterator[bool]:
        """Lock a file of the directory; yield whether that was possible."""
        path = self.directory / name
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | how)
                locked = True
            except OSError:
                locked = False
            yield locked
        finally:
            os.close(descriptor)

    def _note(self, key: str) -> Path:
        return self.directory / f"{key}.json"

    def _failed(self, key: str) -> Path:
        return self.directory / f"{key}.failed"

    def _read(self, path: Path) -> bytes:
        with self._opened(path) as descriptor, os.fdopen(os.dup(descriptor), "rb") as file:
            return file.read()

    @contextmanager
    def _opened(self, path: Path) -> Iterator[int]:
        descriptor = os.open(path, _READ)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & _OTHERS_WRITE:
                raise ConfigurationError(f"{path} is not a file that only this user can write")
            yield descriptor
        finally:
            os.close(descriptor)

    def _require_own(self) -> None:
        """Refuse a directory that is not this user's alone, or that another user could exchange.

        :raises FileNotFoundError: It does not exist.
        """
        own = os.lstat(self.directory)
        if not stat.S_ISDIR(own.st_mode) or own.st_uid != os.geteuid() or stat.S_IMODE(own.st_mode) & 0o077:
            raise ConfigurationError(
                f"{self.directory} is not a directory of this user with mode 0700", next_step="Remove it"
            )
        for above in self.directory.resolve().parents:
            status = above.stat()
            exchangeable = status.st_mode & _OTHERS_WRITE and not status.st_mode & stat.S_ISVTX
            if exchangeable or status.st_uid not in (0, os.geteuid()):
                raise ConfigurationError(
                    f"others can change {above}, and with it the class archives",
                    next_step="Set home_root of the connection to a directory of the drivers' user",
                )
