"""Interfaces to files shared with other programs: files replaced in place, and a reader of objects.

An :class:`~airflow_provider_ha.storage.object_store.ObjectStore` holds whole objects of this package. Below a working
directory Spark writes too, so names may begin with a dot, and a file may be replaced by another with the same name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from airflow_provider_ha.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class ListedObject:
    """Object in a listing.

    :param key: Relative to the root of the reader; a key with a final slash is a directory.
    :param size: Bytes.
    :param etag: Changes whenever the object is replaced by other bytes.
    :param mtime: Time of the last write, in milliseconds since 1970, by the storage's clock; 0 if unknown.
    """

    key: str
    size: int
    etag: str
    mtime: int = 0


class ObjectReader(Protocol):
    """Reader of the objects below a root. Thread-safe."""

    @property
    def uri(self) -> str:
        """URI of the root, for messages."""

    def list(self, prefix: str) -> Iterator[ListedObject]:
        """Yield every object whose key begins with *prefix*, in the order of their keys.

        :raises StorageUnavailableError: The listing could not be completed.
        """

    def read(self, key: str) -> bytes:
        """Return the bytes of an object as it is now.

        :raises ObjectMissingError: The object does not exist.
        :raises StorageUnavailableError: It could not be read.
        """

    def read_range(self, item: ListedObject, offset: int, length: int) -> bytes:
        """Return *length* bytes from *offset* of an object as it was when it was listed; fewer at its end.

        :raises ObjectMissingError: The object does not exist.
        :raises StorageUnavailableError: It could not be read, or was replaced since.
        """


@dataclass(frozen=True, slots=True)
class StoredFile:
    """File in a listing.

    :param key: Relative to the root, with ``/`` between segments.
    :param size: Bytes.
    :param mtime: Milliseconds since 1970, by the storage's clock.
    :param etag: The store's tag of this content, without quotes; empty where the store has no tags.
    """

    key: str
    size: int
    mtime: int
    etag: str = ""


class FileStore(Protocol):
    """Files below a root. Thread-safe. A file appears complete or not at all."""

    @property
    def uri(self) -> str:
        """URI of the root, with the scheme of this package."""

    def list(self, prefix: str) -> Iterator[StoredFile]:
        """Yield every file whose key begins with *prefix*, except files in preparation.

        :param prefix: Empty, or with a final slash.
        :raises StorageUnavailableError: The listing could not be completed: a part is never passed off as the whole.
        """

    def prepared(self, prefix: str) -> Iterator[StoredFile]:
        """Yield the files that :meth:`list` omits: a writer is preparing them, or died.

        :raises StorageUnavailableError: The listing could not be completed.
        """

    def names(self, prefix: str) -> Sequence[str]:
        """Return the names of files and directories directly below *prefix*, sorted; empty if it does not exist.

        :raises StorageUnavailableError: They could not be listed.
        """

    def info(self, key: str) -> StoredFile | None:
        """Return the metadata of a file; ``None`` when it is missing.

        :raises StorageUnavailableError: It could not be read.
        """

    def read(self, key: str) -> bytes:
        """Return the bytes of a file as it is now.

        :raises ObjectMissingError: The object does not exist.
        :raises StorageUnavailableError: It could not be read.
        """

    def read_range(self, file: StoredFile, offset: int, length: int) -> bytes:
        """Return *length* bytes from *offset* of a file; fewer at its end.

        :raises ObjectMissingError: The object does not exist.
        :raises StorageUnavailableError: It could not be read, or was replaced since it was listed.
        """

    def create(self, key: str, data: bytes, *, writer: str = "") -> None:
        """Write a file that must not exist yet.

        :param writer: Unique for this attempt, and stored with the file if possible, to recognize an attempt with a
            lost response. Equal bytes prove nothing, because two leaders write the same.
        :raises ObjectExistsError: The file exists, written by another attempt.
        :raises StorageUnavailableError: The outcome is unknown.
        """

    def write(self, key: str, data: bytes) -> None:
        """Write a file, replacing an existing one.

        :raises StorageUnavailableError: The outcome is unknown.
        """

    def upload(self, key: str, source: Path) -> None:
        """Write a file of any size from a local one, replacing an existing one.

        :raises StorageUnavailableError: The outcome is unknown.
        """

    def delete(self, key: str) -> None:
        """Remove a file; a missing one is not an error.

        :raises StorageUnavailableError: The outcome is unknown.
        """

    def check_lasting(self) -> None:
        """Check that the storage itself removes no files.

        :raises ConfigurationError: A rule removes files.
        :raises StorageUnavailableError: The storage does not answer.
        """


def check_file_key(key: str) -> str:
    """Return *key* if it names a file below the root; its names may begin with a dot.

    :raises ConfigurationError: *key* is invalid.
    """
    segments = key.split("/")
    if not {"", ".", ".."}.isdisjoint(segments) or not key.isprintable():
        raise ConfigurationError(
            f"key {key!r} names no file below the root of a storage", next_step="Use names with single slashes between"
        )
    return key


def check_file_prefix(prefix: str) -> str:
    """Return *prefix* if it is empty, or names a directory below the root with a final slash.

    :raises ConfigurationError: *prefix* is invalid.
    """
    if prefix and not prefix.endswith("/"):
        raise ConfigurationError(f"prefix {prefix!r} has no final slash", next_step="Add it")
    if prefix:
        check_file_key(prefix.removesuffix("/"))
    return prefix


class FileStoreReader:
    """:class:`~airflow_provider_ha.storage.file_store.ObjectReader` of the files of a store. Thread-safe.

    :param files: Store of the files.
    """

    def __init__(self, files: FileStore) -> None:
        self._files = files
        self._listed: dict[str, StoredFile] = {}

    @property
    def uri(self) -> str:
        """URI of the root."""
        return self._files.uri

    def list(self, prefix: str) -> Iterator[ListedObject]:
        """Yield every file whose key begins with *prefix*.

        :raises StorageUnavailableError: The listing could not be completed.
        """
        for file in self._files.list(prefix):
            self._listed[file.key] = file
            yield ListedObject(file.key, file.size, file.etag or str(file.mtime))

    def read(self, key: str) -> bytes:
        """Return the bytes of a file as it is now.

        :raises ObjectMissingError: The object does not exist.
        :raises StorageUnavailableError: It could not be read.
        """
        return self._files.read(key)

    def read_range(self, item: ListedObject, offset: int, length: int) -> bytes:
        """Return *length* bytes from *offset* of a file as it was when it was listed.

        :raises ObjectMissingError: The object does not exist.
        :raises StorageUnavailableError: It could not be read, or was replaced since.
        """
        return self._files.read_range(self._listed[item.key], offset, length)
