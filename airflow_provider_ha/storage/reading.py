"""Interface to objects of other programs, under any key: listed and read, never written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Listed:
    """An object in a listing.

    :param key: Relative to the root of the reader; with a final slash, it is a directory.
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

    def list(self, prefix: str) -> Iterator[Listed]:
        """Yield every object whose key begins with *prefix*, in the order of their keys.

        :raises StorageUnavailableError: The listing could not be completed.
        """

    def read(self, key: str) -> bytes:
        """Return the bytes of an object as it is now.

        :raises ObjectMissingError: It is not there.
        :raises StorageUnavailableError: It could not be read.
        """

    def read_range(self, item: Listed, offset: int, length: int) -> bytes:
        """Return *length* bytes from *offset* of an object as it was when it was listed; fewer at its end.

        :raises ObjectMissingError: It is not there.
        :raises StorageUnavailableError: It could not be read, or was replaced since.
        """
