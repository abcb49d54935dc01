"""Interfaces to savepoints in local directories and below a prefix of a bucket, for taking and reading.

Invariant: a draft is not a savepoint. It becomes one when :meth:`SavepointDraft.seal` has verified the copies; an
attempt that ends earlier leaves nothing that a reader could mistake for a savepoint.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from airflow_provider_ha.checkpoints.model import ManifestFile, Savepoint
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.errors import CheckpointCorruptError


At = TypeVar("At")
"""How a layout names a place: a path, or a prefix of a bucket."""
Dir = TypeVar("Dir", bound=Tree)
"""The tree type that reads such a place."""
_Dir_contra = TypeVar("_Dir_contra", bound=Tree, contravariant=True)


class TornError(CheckpointCorruptError):
    """The copied files do not fit together: a file was replaced between two copies. The caller takes a newer cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointSource(Generic[At]):
    """One query to save.

    :param batch: N; ``None`` for the newest committed batch.
    :param sink: Output of its file sink, whose log belongs to the cut; ``None`` for any other sink.
    """

    query: str
    directory: At
    batch: int | None = None
    sink: At | None = None


class SavepointCopies(Protocol[_Dir_contra]):
    """Target of the copied files of a savepoint."""

    def bring(self, files: Iterable[tuple[str, _Dir_contra, str]]) -> dict[str, ManifestFile]:
        """Copy files; return their manifest entries.

        :param files: Path relative to the savepoint, source directory, and path relative to that directory. They are
            copied
            in this order, or concurrently after the last one is known.
        :raises CheckpointMissingError: A file was purged during the copy: take a newer cut.
        """

    def copied(self, files: Mapping[str, ManifestFile], query: str) -> Tree:
        """Return the copied part of a query."""


class SavepointDraft(SavepointCopies[_Dir_contra], Protocol[_Dir_contra]):
    """One attempt at a savepoint."""

    def seal(self, savepoint: Savepoint) -> Savepoint:
        """Write the manifest and verify the copies; return the written manifest.

        :raises TornError: The copies differ from the manifest, or a query cannot be restored from them.
        """


class SavepointLayout(Protocol[At, Dir]):
    """A new savepoint, and access to the checkpoints it is made of."""

    def check(self, sources: Sequence[SavepointSource[At]]) -> None:
        """Check that the savepoint can be made of *sources*, before the first write.

        :raises ConfigurationError: It cannot.
        """

    def tree(self, place: At) -> Dir:
        """Return the current content of a directory."""

    def sink_log(self, output: At) -> Dir:
        """Return the current log of a file sink, from the sink's output directory."""

    def uri(self, place: At) -> str:
        """Return the URI of a place for the manifest."""

    def draft(self) -> AbstractContextManager[SavepointDraft[Dir]]:
        """Return a new attempt; the savepoint appears at the end of the block, or with the seal."""


Bring = Callable[[str, Path], ManifestFile]
"""Copies a file of a savepoint, by its name, to a local path; returns the manifest entry of the copy."""


class ReadableSavepoint(Protocol):
    """The view of a savepoint that its judgement needs."""

    @property
    def savepoint(self) -> Savepoint:
        """Its manifest."""

    def tree(self, query: str) -> Tree:
        """Return the part of a query."""

    def wrong_files(self, *, only: Container[str] | None = None) -> list[CheckpointCorruptError]:
        """Compare every file with the manifest; return the mismatches in manifest order.

        :param only: Files whose bytes are read; all by default. On S3 the etags are compared, and no byte is read.
        :raises StorageUnavailableError: A file could not be read: its state is unknown.
        """


class StoredSavepoint(ReadableSavepoint, Protocol):
    """A finished savepoint."""

    @property
    def location(self) -> str:
        """Its path or URI."""

    def strangers(self) -> list[CheckpointCorruptError]:
        """Return the files that are not in the manifest."""

    def at_hand(self, target: Path) -> AbstractContextManager[tuple[Path, Savepoint]]:
        """Return it as a local directory with its manifest, while the block runs.

        :param target: The path that the caller will create: a copy is made next to it.
        """

    def reader(self) -> AbstractContextManager[Bring]:
        """Return a function that copies files to this host while the block runs.

        :raises CheckpointCorruptError: A file differs from the manifest.
        """

    def copies_to(self, uri: str) -> Callable[[str], object] | None:
        """Return a function that copies a file, by its name, to a remote prefix without a transfer through this host.

        :returns: ``None`` where the storage cannot.
        """
