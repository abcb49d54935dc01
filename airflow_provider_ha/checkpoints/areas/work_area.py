"""Interface to the storage of working directories: the checkpoint locations of jobs, and retained cuts.

A key names a directory; a cut names the batches. Each area makes a directory from a cut in its own way: with hard
links, or with a list of names. Callers therefore know no path.

Invariant: a directory made from another one appears complete or not at all, and never changes its source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from airflow_provider_ha.checkpoints.spark.tree import Tree, WritableTree
from airflow_provider_ha.storage.object_store import Directories
from airflow_provider_ha.storage.roots import Roots


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Measured capabilities of a storage.

    :param links: Whether a file can have a second name; without it, retained and forked files are copied.
    :param names_suffice: Whether a directory can name files of another one, without links or copies.
    :param refusal: The storage's error for a hard link; empty if it succeeded.
    """

    links: bool
    refusal: str = ""
    names_suffice: bool = False


@dataclass(frozen=True, slots=True)
class Successor:
    """The process that fences a working directory, for the record that a fence may leave."""

    epoch: int = 0
    submission: str = ""


@dataclass(frozen=True, slots=True)
class RetainedCut:
    """A cut out of reach of Spark's purge.

    :param key: Its directory: a separate one, or the directory that it was cut from.
    :param files: Query -> relative path -> bytes for all files of the closure; empty when no file was read, because the
        directory itself is kept.
    """

    key: str
    files: Mapping[str, Mapping[str, int]]


class WorkArea(Directories, Protocol):
    """Spark's working directories. The key of a query is its directory's key and its name.

    :ivar roots: The roots of the cluster, for a writer.
    """

    roots: Roots | None

    @property
    def place(self) -> str:
        """URI of the root, for people."""

    @property
    def cheap_listing(self) -> bool:
        """Whether frequent listings are cheap; otherwise each costs money or a network request."""

    def capabilities(self) -> Capabilities:
        """Return the capabilities of the storage. Writes and removes probes.

        :raises StorageUnavailableError: It cannot be written, with the reason.
        """

    def tree(self, key: str) -> WritableTree:
        """Return a directory; it need not exist."""

    def create(self, key: str) -> WritableTree:
        """Create an empty directory, for the queries of one epoch.

        :raises ObjectExistsError: It exists.
        :raises StorageUnavailableError: It could not be created.
        """

    def queries(self, key: str) -> Sequence[str]:
        """Return the names of all queries that Spark began in a working directory, sorted.

        :raises StorageUnavailableError: They could not be listed.
        """

    def log_entries(self, query: str) -> Mapping[str, frozenset[str]]:
        """Return ``"offsets"`` and ``"commits"`` -> the names in this log of a query directory.

        Entries of batches whose state may have been removed are omitted.

        :param query: Key of a query directory.
        :raises CheckpointCorruptError: Its list of inherited files cannot be read.
        :raises StorageUnavailableError: They could not be listed.
        """

    def fork(self, source: str, target: str, *, batch: int | None = None, keep_planned: bool) -> int:
        """Create the checkpoint of a query with last committed batch *batch*; return its number of files.

        :param source: Key of a query's checkpoint; fenced or retained: no process writes to it.
        :param target: Key of the new one, which does not exist.
        :param batch: N; by default the last committed one.
        :param keep_planned: Whether to include batch N + 1 when it is planned: Spark then executes exactly it.
        :raises CheckpointCorruptError: A file of the closure is damaged or missing.
        :raises CheckpointMissingError: Batch N does not exist.
        :raises ObjectExistsError: The target exists.
        """

    def bring_in(self, source: Tree, target: str, *, batch: int | None = None) -> int:
        """Create the checkpoint of a query from another owner's, without shared files.

        :param source: Of this area or elsewhere; raises as :meth:`fork` does.
        :raises ConfigurationError: The area cannot read it.
        """

    def retain(self, source: str, target: str, cut: Mapping[str, int], *, sinks: Mapping[str, Tree]) -> RetainedCut:
        """Keep a cut of a live directory.

        :param source: Key of the working directory; Spark may purge it at any time.
        :param target: Key of the cut, if it gets a separate directory.
        :param cut: Query -> N.
        :param sinks: Query -> log of its file sink, for queries that have one.
        :raises CheckpointMissingError: Spark purged a batch of the cut during the copy: take a newer cut.
        :raises CheckpointCorruptError: A file of the closure is damaged.
        :raises ObjectExistsError: The target exists.
        """

    def fence(self, key: str, *, by: Successor | None = None) -> str:
        """Make all later commits of a zombie in a working directory fail; return the key of its content.

        :param key: Working directory of an ended epoch, under its first name. Repeatable.
        :raises CheckpointMissingError: It does not exist.
        :raises StorageUnavailableError: The outcome is unknown.
        """

    def listed_once(self, key: str) -> AbstractContextManager[None]:
        """Read a fenced directory with as few requests as its storage allows, until the block ends.

        :param key: As :meth:`fence` returned it.
        """

    def fenced(self, key: str) -> str:
        """Return the key that :meth:`fence` returns for a working directory, fenced or not."""

    def current(self, key: str) -> str:
        """Return the current key of a working directory's content: another one after a fence."""


def costs(area: WorkArea) -> tuple[str, ...]:
    """Return the slow operations of an area, as measured now: one sentence each.

    :raises StorageUnavailableError: It cannot be written, with the reason.
    """
    found = area.capabilities()
    if found.links or found.names_suffice:
        return ()
    cost = (
        f"the work root {area.place} has no hard links ({found.refusal}), so files are copied: every checkpoint, every "
        "start after a loss and every restore writes the log entries and the whole state of each query once more, and "
        "every retained checkpoint takes this space; put the work root on a file system with hard links to avoid it"
    )
    return (cost,)
