"""Files below a directory of this host, as a :class:`~airflow_provider_ha.storage.file_store.FileStore`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from airflow_provider_ha.errors import ObjectExistsError, ObjectMissingError, StorageUnavailableError
from airflow_provider_ha.storage.durable import PREPARED, create_file, flush_directory, make_directories, replace_file
from airflow_provider_ha.storage.file_store import StoredFile, check_file_key, check_file_prefix
from airflow_provider_ha.storage.outage import unavailable
from airflow_provider_ha.uris import file_uri


class LocalFileStore:
    """:class:`~airflow_provider_ha.storage.file_store.FileStore` on a file system. Safe in any thread and process.

    :param root: Absolute directory; created by the first write, never by a read.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def uri(self) -> str:
        """``file:`` URI of the root."""
        return file_uri(self._root)

    def list(self, prefix: str) -> Iterator[StoredFile]:
        """Yield every file below *prefix*, in the order of their keys.

        :raises StorageUnavailableError: A directory could not be read.
        """
        with self._translated(prefix or ".", "listed"):
            yield from self._walk(check_file_prefix(prefix), prepared=False)

    def prepared(self, prefix: str) -> Iterator[StoredFile]:
        """Yield files in preparation below *prefix*, also of dead writers.

        :raises StorageUnavailableError: A directory could not be read.
        """
        with self._translated(prefix or ".", "listed"):
            yield from self._walk(check_file_prefix(prefix), prepared=True)

    def names(self, prefix: str) -> Sequence[str]:
        """Return the names directly below *prefix*, sorted.

        :raises StorageUnavailableError: They could not be read.
        """
        with self._translated(prefix or ".", "listed"):
            return [name for name, _ in self._entries(check_file_prefix(prefix), prepared=False)]

    def info(self, key: str) -> StoredFile | None:
        """Return the metadata of a file; ``None`` when it is missing or a directory.

        :raises StorageUnavailableError: It could not be read.
        """
        path = self._path(key)
        with self._translated(key, "looked up"):
            try:
                status = path.stat()
            except (FileNotFoundError, NotADirectoryError):
                return None
            return _stored(key, status) if path.is_file() else None

    def read(self, key: str) -> bytes:
        """Return the bytes of a file.

        :raises ObjectMissingError: The object does not exist.
        :raises StorageUnavailableError: It could not be read.
        """
        with self._finding(key):
            return self._path(key).read_bytes()

    def read_range(self, file: StoredFile, offset: int, length: int) -> bytes:
        """Return *length* bytes from *offset*; fewer at the end of the file.

        :raises ObjectMissingError: The object does not exist.
        :raises StorageUnavailableError: It could not be read, or was replaced since it was listed.
        """
        with self._finding(file.key), self._path(file.key).open("rb") as reader:
            if _stored(file.key, os.fstat(reader.fileno())) != file:
                raise StorageUnavailableError(
                    f"file {file.key!r} in {self.uri} was replaced while it was read", next_step="Try again"
                )
            return os.pread(reader.fileno(), length, offset)

    def create(self, key: str, data: bytes, *, writer: str = "") -> None:  # noqa: ARG002  # a link shows its own outcome
        """Write a file that must not exist yet.

        :raises ObjectExistsError: It exists.
        :raises StorageUnavailableError: It could not be written.
        """
        with self._translated(key, "created"):
            try:
                create_file(self._target(key), data)
            except FileExistsError:
                raise ObjectExistsError(f"file {key!r} exists already in {self.uri}") from None

    def write(self, key: str, data: bytes) -> None:
        """Write a file, replacing an existing one.

        :raises StorageUnavailableError: It could not be written.
        """
        with self._translated(key, "written"):
            replace_file(self._target(key), data)

    def upload(self, key: str, source: Path) -> None:
        """Write a file from another one, replacing an existing one.

        :raises StorageUnavailableError: It could not be written.
        """
        with self._translated(key, f"written from {source}"):
            replace_file(self._target(key), source)

    def delete(self, key: str) -> None:
        """Remove a file, and the directories that it leaves empty; a missing one is not an error.

        :raises StorageUnavailableError: It could not be removed.
        """
        path = self._path(key)
        with self._translated(key, "removed"):
            try:
                path.unlink()
            except (FileNotFoundError, NotADirectoryError):
                return
            flush_directory(path.parent)
            self._remove_empty(path.parent)

    def check_lasting(self) -> None:
        """Do nothing: a file system removes no files by rules."""

    def _remove_empty(self, path: Path) -> None:
        while path != self._root:
            try:
                path.rmdir()
            except OSError:
                return  # it is not empty, or another process has removed it
            path = path.parent

    def _path(self, key: str) -> Path:
        return self._root / check_file_key(key)

    def _target(self, key: str) -> Path:
        path = self._path(key)
        make_directories(path.parent)
        return path

    def _walk(self, prefix: str, *, prepared: bool) -> Iterator[StoredFile]:
        for name, is_directory in self._entries(prefix, prepared=prepared):
            if is_directory:
                yield from self._walk(f"{prefix}{name}/", prepared=prepared)
            elif (found := self.info(f"{prefix}{name}")) is not None:
                yield found

    def _entries(self, prefix: str, *, prepared: bool) -> Sequence[tuple[str, bool]]:
        """Return the directories and the files of a kind."""
        try:
            with os.scandir(self._root / prefix) as scan:
                found = [(item.name, item.is_dir(follow_symlinks=False)) for item in scan]
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted((name, below) for name, below in found if below or name.startswith(PREPARED) == prepared)

    @contextmanager
    def _finding(self, key: str) -> Iterator[None]:
        with self._translated(key, "read"):
            try:
                yield
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                raise ObjectMissingError(f"file {key!r} is not in {self.uri}") from None

    @contextmanager
    def _translated(self, key: str, verb: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise unavailable(f"file {key!r} in {self.uri} could not be {verb}", error) from error


def _stored(key: str, status: os.stat_result) -> StoredFile:
    return StoredFile(key, status.st_size, status.st_mtime_ns // 1_000_000)
