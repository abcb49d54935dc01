"""The interface to the place of a checkpoint: a directory of this host, or objects below a prefix. Read only.

Invariant: every reader of a checkpoint goes through ``files``, which takes either; no reader of a format knows which.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, TypeAlias


class OpenFile(Protocol):
    """A file that is read in pieces. What stands under its name meanwhile does not matter."""

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
    """A directory that is not one of this host. Its methods answer and raise as those of ``files`` do."""

    def __truediv__(self, place: str) -> Tree:
        """Return a directory below this one."""

    @property
    def at_once(self) -> int:
        """How many files are to be read at a time: more would gain nothing."""

    def expect(self, names: Iterable[str]) -> None:
        """Announce the files that are read next: they may be fetched together. A failed fetch is met again later."""

    def fresh(self) -> Tree:
        """Return the same directory as it is now: nothing that was listed before is believed."""

    def names(self) -> list[str]:
        """Return all names in it, sorted; none when it is not there."""

    def is_directory(self) -> bool:
        """Whether it is there."""

    def has(self, name: str) -> bool:
        """Whether *name* is a file below it."""

    def file_size(self, name: str) -> int:
        """Return the size of a file in bytes."""

    def read(self, name: str) -> bytes:
        """Return the bytes of a file."""

    def below(self, uri: str) -> str | None:
        """Return the path of what a URI names relative to this directory; ``None`` when it lies elsewhere."""

    def opened(self, name: str) -> AbstractContextManager[OpenFile]:
        """Open a file for as long as the block runs."""


Directory: TypeAlias = Path | Tree
"""Where a checkpoint, or a part of one, lies."""
