"""Interfaces to storage by key: whole objects with a conditional create, and directories.

Invariant: a key never leaves its area. Every method refuses such a key before it reads or changes anything;
``Directories.admit`` also reports the source record and restricts the key to the directories of a job.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol


class Directories(Protocol):
    """Directories below one root, each with a key: ``jobs/flights/live/e1-x``. Safe in any thread and process."""

    def admit(self, key: str, *, inside: tuple[str, ...], source: str) -> str:
        """Return a key from a record if it is a directory of the record's job.

        :param inside: Prefixes with a final slash; the key is a prefix and exactly one name.
        :param source: Location of the record, for the error: ``"znode /spark-ha/default/flights/generation"``.
        :raises RecordCorruptError: The key leads anywhere else.
        :raises StorageUnavailableError: The path to it could not be checked.
        """

    def touches(self, path: str) -> bool:
        """Return whether a location is in the area, or contains it: its files belong to this package.

        :param path: Absolute path of a host, or URI.
        """

    def uri(self, key: str) -> str:
        """Return the URI of a directory in the form that Spark takes."""

    def require(self) -> None:
        """Check that the area exists, because unmounted storage is not an empty cluster.

        :raises StorageUnavailableError: The area does not exist.
        """

    def read(self, key: str, name: str) -> bytes | None:
        """Return the bytes of a file of a directory; ``None`` when it is missing.

        :raises StorageUnavailableError: It could not be read.
        """

    def contains(self, key: str) -> bool:
        """Return whether the directory exists.

        :raises StorageUnavailableError: This could not be determined.
        """

    def list(self, prefix: str) -> Sequence[str]:
        """Return the names directly below *prefix*, sorted; empty if it does not exist.

        Includes names with only remains of an interrupted creation or removal: ``contains`` distinguishes them.

        :param prefix: With a final slash: ``jobs/flights/live/``.
        :raises StorageUnavailableError: They could not be listed.
        """

    def remove(self, key: str) -> None:
        """Remove a directory and its remains. Repeatable; readers never see it half-removed.

        :raises StorageUnavailableError: It could not be removed: the next call continues.
        """


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """Object in a listing.

    :param key: Relative to the root of the store, with ``/`` between segments.
    :param size: Bytes.
    :param modified: Time of the last write or renewal.
    """

    key: str
    size: int
    modified: datetime


class ObjectStore(Protocol):
    """Whole objects under keys, which appear atomically.

    A key must not be another key's directory (``a`` and ``a/b``): a file system cannot have both, nor can every server.
    """

    @property
    def uri(self) -> str:
        """URI of the root, for messages and records."""

    def read(self, key: str) -> bytes:
        """Return the bytes of an object.

        :raises ObjectMissingError: The object does not exist.
        :raises StorageUnavailableError: The storage did not answer.
        """

    def create(self, key: str, data: bytes) -> None:
        """Write an object that must not exist yet.

        :raises ObjectExistsError: It exists, written by this caller or another one.
        """

    def write(self, key: str, data: bytes) -> None:
        """Write an object, replacing an existing one."""

    def upload(self, key: str, source: Path) -> None:
        """Write an object from a local file, in parts when it is large; replaces an existing one."""

    def download(self, key: str, target: Path) -> None:
        """Copy an object to a local file that appears complete or not at all.

        :raises ObjectMissingError: The object does not exist.
        """

    def copy(self, source: str, target: str, *, if_absent: bool = False) -> ObjectInfo:
        """Copy an object to another key inside the store, server-side where possible.

        :param if_absent: The target must not exist yet; otherwise it is replaced.
        :returns: Metadata of the copy, which has the size of its source.
        :raises ObjectMissingError: The source is missing.
        :raises ObjectExistsError: The target exists, and *if_absent* is set.
        """

    def info(self, key: str) -> ObjectInfo | None:
        """Return the metadata of an object; ``None`` when it is missing."""

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Yield every object whose key begins with *prefix*, in the order of their keys."""

    def delete(self, key: str) -> None:
        """Remove an object; a missing one is not an error."""

    def touch(self, key: str) -> None:
        """Renew the modification time of an object, so that a collector leaves it alone."""

    def check_writable(self) -> None:
        """Write, read and remove a probe.

        :raises StorageError: With the reason and the next step.
        """
