"""The interface to directories by key: what a key from a record may name, which there are, and how one goes.

Invariant: a key never leads out of the area. Every method refuses one that does, before anything is read or changed;
``admit`` also says which record it was found in, and holds it to the directories of one job.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Directories(Protocol):
    """Directories below one root, each with a key: ``jobs/flights/live/e1-x``. Safe in any thread and process."""

    def admit(self, key: str, *, inside: tuple[str, ...], source: str) -> str:
        """Return a key that was read from a record when it names a directory of the job that the record belongs to.

        :param inside: Prefixes with a final slash; the key is one of them and exactly one name more.
        :param source: Where the record was found, for the error: ``"znode /spark-ha/default/flights/generation"``.
        :raises RecordCorruptError: The key leads anywhere else.
        :raises StorageUnavailableError: The way to it could not be looked at.
        """

    def touches(self, path: str) -> bool:
        """Whether a place lies in the area, or the area in it: what is there is no one else's.

        :param path: Absolute path of a host, or URI.
        """

    def uri(self, key: str) -> str:
        """Return the place of a directory, as Spark is given it."""

    def require(self) -> None:
        """Assert that the area is there: storage that is not mounted is not a cluster without directories.

        :raises StorageUnavailableError: It is not.
        """

    def read(self, key: str, name: str) -> bytes | None:
        """Return the bytes of a file of a directory; ``None`` when it is not there.

        :raises StorageUnavailableError: It could not be read.
        """

    def contains(self, key: str) -> bool:
        """Whether the directory is there.

        :raises StorageUnavailableError: It could not be found out.
        """

    def list(self, prefix: str) -> Sequence[str]:
        """Return the names directly below *prefix*, sorted; none when it is not there.

        Also those of which only remains are left, of a maker or remover that died: ``contains`` tells.

        :param prefix: With a final slash: ``jobs/flights/live/``.
        :raises StorageUnavailableError: They could not be listed.
        """

    def remove(self, key: str) -> None:
        """Remove a directory and its remains. Repeatable; no reader meets a half-removed one.

        :raises StorageUnavailableError: It could not be removed: the next call goes on.
        """
