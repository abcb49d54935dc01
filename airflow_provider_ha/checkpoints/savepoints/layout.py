"""The two layouts of a savepoint, a directory and a pool: what taking one and reading one need of either.

Invariant: a draft is no savepoint. It becomes one when :meth:`Draft.seal` has verified the copies themselves, and what
ends before that leaves nothing that a reader would take for one.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from airflow_provider_ha.checkpoints.model import ManifestFile, Savepoint
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.errors import CheckpointCorruptError


At = TypeVar("At")
"""How a layout names a place: a path, or a prefix of a bucket."""
Dir = TypeVar("Dir", bound=Tree)
"""What such a place is read as."""
_Dir_contra = TypeVar("_Dir_contra", bound=Tree, contravariant=True)


class TornError(CheckpointCorruptError):
    """What was copied does not fit together: a file was replaced between two copies. A newer cut is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointSource(Generic[At]):
    """One query.

    :param query: Its name in the savepoint.
    :param directory: Its checkpoint.
    :param batch: N; ``None`` for the newest committed one.
    :param sink: Output of its file sink, whose log belongs to the cut; ``None`` for any other sink.
    """

    query: str
    directory: At
    batch: int | None = None
    sink: At | None = None


class Copies(Protocol[_Dir_contra]):
    """Where the files of a savepoint are copied to."""

    def bring(self, files: Iterable[tuple[str, _Dir_contra, str]]) -> dict[str, ManifestFile]:
        """Copy files; return what the manifest says of each.

        :param files: Path relative to the savepoint, the directory of its source, and its path relative to that. They
            are copied in this order, or all at once after the last one is known.
        :raises CheckpointMissingError: One was purged during the copy: take a newer cut.
        """

    def copied(self, files: Mapping[str, ManifestFile], query: str) -> Tree:
        """Return the copied part of one query."""


class Draft(Copies[_Dir_contra], Protocol[_Dir_contra]):
    """One attempt at a savepoint."""

    def seal(self, savepoint: Savepoint) -> Savepoint:
        """Write the manifest, and verify what was copied; return what was written.

        :raises TornError: The copies are not what the manifest says, or a query cannot be restored from them.
        """


class Layout(Protocol[At, Dir]):
    """A new savepoint, and how checkpoints are read that it can be made of."""

    def check(self, sources: Sequence[SavepointSource[At]]) -> None:
        """See that the savepoint can be made of *sources*, before anything is written.

        :raises ConfigurationError: It cannot.
        """

    def named(self, created_at: datetime) -> str:
        """Return the id of the savepoint."""

    def tree(self, place: At) -> Dir:
        """Return a directory as it is now."""

    def sink_log(self, output: At) -> Dir:
        """Return the log of a file sink as it is now, by the sink's output directory."""

    def uri(self, place: At) -> str:
        """Return the name of a place for the manifest."""

    def drafts(self) -> AbstractContextManager[Callable[[], AbstractContextManager[Draft[Dir]]]]:
        """Return what begins an attempt, as long as the block runs: nothing else removes what it has copied."""


Bring = Callable[[str, Path], ManifestFile]
"""Copies a file of a savepoint, by its name, to a path of this host; returns what arrived."""


class StoredSavepoint(Protocol):
    """A savepoint that is there."""

    @property
    def savepoint(self) -> Savepoint:
        """Its manifest."""

    @property
    def layout(self) -> str:
        """``"directory"`` or ``"pool"``."""

    @property
    def location(self) -> str:
        """Its path, or its URI."""

    def tree(self, query: str) -> Tree:
        """Return the part of one query."""

    def wrong_files(self, *, only: Container[str] | None = None) -> list[CheckpointCorruptError]:
        """Compare every file with the manifest; return what is wrong, in its order.

        :param only: Files whose bytes are to be read, where a layout reads bytes; all by default.
        :raises StorageUnavailableError: A file could not be read: nothing is known about it.
        """

    def strangers(self) -> list[CheckpointCorruptError]:
        """Return what lies in it and is not in the manifest."""

    def at_hand(self, target: Path) -> AbstractContextManager[tuple[Path, Savepoint]]:
        """Return it as a directory of this host, with a manifest of that, while the block runs.

        :param target: What is to be made of it: a copy lies beside this one.
        """

    def reader(self) -> AbstractContextManager[Bring]:
        """Return what copies its files to this host while the block runs.

        :raises CheckpointCorruptError: A file is not what the manifest says.
        """
