"""Protocols of storage: a store of objects by key, and directories by key.

The back ends are ``LocalStore``, ``S3Store`` and ``HdfsStore``. Other programs write to some stores too, so the names
in a key may begin with a dot, and an object may be replaced by another with the same key.

Invariant: a key never leaves its area. Every method refuses such a key before it reads or changes anything;
``Directories.admit`` also reports the source record and restricts the key to the directories of a job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
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

    def list(self, prefix: str, *, only: Callable[[str], bool] | None = None) -> Sequence[str]:
        """Return the names directly below *prefix*, sorted; empty if it does not exist.

        Includes names with only remains of an interrupted creation or removal: ``contains`` distinguishes them.

        :param prefix: With a final slash: ``jobs/flights/live/``.
        :param only: Selects names; the others cost no request.
        :raises StorageUnavailableError: They could not be listed.
        """

    def remove(self, key: str) -> None:
        """Remove a directory and its remains. Repeatable; readers never see it half-removed.

        :raises StorageUnavailableError: It could not be removed: the next call continues.
        """


EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """Object in a listing.

    :param key: Relative to the root of the store, with ``/`` between segments.
    :param size: Bytes.
    :param modified: Time of the last write or renewal.
    :param etag: The store's tag of this content, without quotes; empty if the store has no tags.
    """

    key: str
    size: int
    modified: datetime = EPOCH
    etag: str = ""

    @property
    def mtime(self) -> int:
        """*modified* in milliseconds since 1970, as Spark has it."""
        return (self.modified - EPOCH) // _MILLISECOND


class ObjectReader(Protocol):
    """Reader of the objects below a root. Thread-safe."""

    @property
    def uri(self) -> str:
        """URI of the root, for messages and records."""

    def list(self, prefix: str, *, markers: bool = False) -> Iterator[ObjectInfo]:
        """Yield every object whose key begins with *prefix*, in the order of their keys, except those in preparation.

        Objects that appear or vanish during the listing may or may not be among them.

        :param markers: Also yield the empty objects that represent directories: their keys end with a slash.
        :raises StorageUnavailableError: The listing could not be completed: a part is never passed off as the whole.
        """

    def read(self, key: str) -> bytes:
        """Return the bytes of an object as it is now.

        :raises ObjectMissingError: The object does not exist.
        :raises StorageUnavailableError: It could not be read.
        """

    def read_range(self, item: ObjectInfo, offset: int, length: int) -> bytes:
        """Return *length* bytes from *offset* of an object as it was when it was listed; fewer at its end.

        :raises ObjectMissingError: The object does not exist.
        :raises StorageUnavailableError: It could not be read, or was replaced since.
        """


class ObjectStore(ObjectReader, Protocol):
    """Whole objects under keys. An object appears complete or not at all, and survives a crash of its writer's host.

    A key must not be another key's directory (``a`` and ``a/b``): a file system cannot have both, nor can every server.
    A write with an unknown outcome raises ``StorageUnavailableError``.
    """

    def prepared(self, prefix: str) -> Iterator[ObjectInfo]:
        """Yield the objects that :meth:`list` omits: a writer is preparing them, or died.

        :raises StorageUnavailableError: The listing could not be completed.
        """

    def names(self, prefix: str) -> Sequence[str]:
        """Return the names of objects and directories directly below *prefix*, sorted; empty if it does not exist.

        :param prefix: Empty, or with a final slash.
        :raises StorageUnavailableError: They could not be listed.
        """

    def info(self, key: str) -> ObjectInfo | None:
        """Return the metadata of an object; ``None`` when it is missing.

        :raises StorageUnavailableError: It could not be read.
        """

    def create(self, key: str, data: bytes, *, writer: str = "") -> None:
        """Write an object that must not exist yet.

        :param writer: Unique for an attempt that the caller may repeat, and stored with the object if possible: it
            identifies the object of an attempt with a lost response. Equal bytes prove nothing, because two leaders
            write the same.
        :raises ObjectExistsError: The object exists, written by another attempt.
        """

    def write(self, key: str, data: bytes) -> None:
        """Write an object, replacing an existing one."""

    def upload(self, key: str, source: Path) -> None:
        """Write an object of any size from a local file, replacing an existing one."""

    def download(self, key: str, target: Path) -> None:
        """Copy an object to a local file that appears complete or not at all.

        :raises ObjectMissingError: The object does not exist.
        """

    def touch(self, key: str) -> None:
        """Renew the modification time of an object, so that a collector leaves it alone.

        :raises ObjectMissingError: The object does not exist.
        """

    def delete(self, key: str) -> None:
        """Remove an object; a missing one is not an error."""

    def check_writable(self) -> None:
        """Check that the storage keeps every promise of this protocol, with a probe that is removed.

        :raises ConfigurationError: A rule of the storage removes objects.
        :raises StorageUnavailableError: With the reason and the next step.
        """
