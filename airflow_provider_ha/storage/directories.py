"""Interface to directories by key: validation of keys from records, listing and removal.

Invariant: a key never leaves the area. Every method refuses a key that does, before it reads or changes anything;
``admit`` also reports the source record and restricts the key to the directories of a job.
"""

from __future__ import annotations

from collections.abc import Sequence
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
        """Assert that the area exists: storage that is not mounted is not an empty cluster.

        :raises StorageUnavailableError: It does not.
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
