"""The interface to the place of a checkpoint: a directory of this host, or objects below a prefix. Read only.

Invariant: every reader of a checkpoint goes through ``files`` or this interface; no reader of a format knows which of
the two it is. What differs between them is a property here, never a question about the type.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol


class OpenFile(Protocol):
    """File that is read in pieces. A later file under the same name does not change its content."""

    @property
    def name(self) -> str:
        """Relative to the checkpoint."""

    @property
    def size(self) -> int:
        """Bytes when it was opened."""

    def read_at(self, offset: int, length: int) -> bytes:
        """Return *length* bytes from *offset*; fewer at the end.

        :raises UnreadableError: They could not be read.
        """


class Tree(Protocol):
    """Directory of a checkpoint, for reads. ``files`` documents the errors of its methods."""

    def __truediv__(self, place: str) -> Tree:
        """Return a directory below this one."""

    @property
    def name(self) -> str:
        """The last part of its place."""

    @property
    def at_once(self) -> int:
        """Useful number of concurrent reads."""

    @property
    def keeps_times(self) -> bool:
        """Return whether directories have times that say when a name in them was last made or removed."""

    @property
    def has_hidden_checksums(self) -> bool:
        """Return whether Hadoop's local file system wrote it, with a hidden checksum next to every file."""

    @property
    def may_be_fenced(self) -> bool:
        """Return whether a log in it may end with the record of a takeover, and not with an entry of Spark."""

    @property
    def local_path(self) -> Path | None:
        """Path on this host, for operations on local files; ``None`` elsewhere."""

    def absolute(self) -> Tree:
        """Return the same directory by a place that does not depend on the process."""

    def absence(self) -> tuple[str, str]:
        """Return the reason why it is not a directory, as the end of a sentence, and the next step."""

    def require(self) -> None:
        """Assert that its storage is available: an unmounted storage is not a missing directory.

        :raises StorageUnavailableError: It is not.
        """

    def expect(self, names: Iterable[str]) -> None:
        """Announce the files that are read next: they may be fetched together. A failed fetch is met again later."""

    def fresh(self, *places: str) -> Tree:
        """Return the same directory as it is now: nothing that was listed before is believed.

        :param places: The directories below it that are read; everything when empty. A store lists only these, each at
            its first read: the state of a query can have a hundred thousand files.
        """

    def names(self, place: str = "") -> list[str]:
        """Return all names in it, or in the directory *place* below it, sorted; none when it is not there."""

    def is_directory(self) -> bool:
        """Return whether it is there, and a directory."""

    def has(self, name: str) -> bool:
        """Return whether *name* is a file below it."""

    def file_size(self, name: str) -> int:
        """Return the size of a file in bytes."""

    def changed(self, place: str = "") -> int | None:
        """Return the time of the last change of it or *place* below it, in nanoseconds; ``None`` if unknown."""

    def identity(self, name: str) -> Hashable | None:
        """Return an identity that is equal for two names of a file, in any tree; ``None`` if files have none."""

    def read(self, name: str) -> bytes:
        """Return the bytes of a file.

        :raises CheckpointCorruptError: It is larger than any file that is held as a whole.
        """

    def below(self, uri: str) -> str | None:
        """Return the relative path in this directory for a URI; ``None``: open the URI."""

    def opened(self, name: str) -> AbstractContextManager[OpenFile]:
        """Open a file for as long as the block runs."""


class WritableTree(Tree, Protocol):
    """Tree that its owner writes to. Spark's files are never edited, only replaced as a whole."""

    def __truediv__(self, place: str) -> WritableTree:
        """Return a directory below this one."""

    def fresh(self, *places: str) -> WritableTree:
        """Return the same directory as it is now."""

    def write(self, name: str, data: bytes) -> None:
        """Write a file durably, replacing an existing one; it appears complete or not at all.

        :raises StorageUnavailableError: It could not be written.
        """

    def create(self, name: str, data: bytes) -> None:
        """Write a file that must not exist yet; otherwise as :meth:`write`.

        :raises ObjectExistsError: It exists.
        """

    def upload(self, name: str, source: Path) -> None:
        """Write a file of any size from a local file; otherwise as :meth:`write`."""

    def remove(self, name: str) -> None:
        """Remove a file that this tree itself has; of no effect when it is not there.

        :raises StorageUnavailableError: Whether it was removed is not known.
        """
