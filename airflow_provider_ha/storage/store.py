"""The seam to storage: whole objects under relative keys, with a conditional create."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What a listing says about an object.

    :param key: Relative to the root of the store, with ``/`` between segments.
    :param size: Bytes.
    :param modified: When it was last written.
    """

    key: str
    size: int
    modified: datetime


class ObjectStore(Protocol):
    """Whole objects under keys. An object appears complete or not at all."""

    @property
    def uri(self) -> str:
        """URI of the root, for messages and records."""

    def read(self, key: str) -> bytes:
        """Return the bytes of an object.

        :raises ObjectMissingError: It is not there.
        :raises StorageUnavailableError: It could not be found out.
        """

    def create(self, key: str, data: bytes) -> None:
        """Write an object that must not exist yet.

        :raises ObjectExistsError: It exists (whoever wrote it).
        """

    def write(self, key: str, data: bytes) -> None:
        """Write an object, replacing one that exists."""

    def upload(self, key: str, source: Path) -> None:
        """Write an object from a local file, in parts when it is large; replaces one that exists."""

    def download(self, key: str, target: Path) -> None:
        """Copy an object to a local file that appears complete or not at all.

        :raises ObjectMissingError: It is not there.
        """

    def info(self, key: str) -> ObjectInfo | None:
        """Return what is known about an object, or ``None`` when it is not there."""

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Yield every object whose key begins with *prefix*, in the order of their keys."""

    def delete(self, key: str) -> None:
        """Remove an object; one that is not there is no error."""

    def touch(self, key: str) -> None:
        """Renew the modification time of an object, so that a collector leaves it alone."""

    def check_writable(self) -> None:
        """Write, read and remove a probe.

        :raises StorageError: With the reason and what to do.
        """
