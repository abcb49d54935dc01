"""The interface to the place where jobs work: their checkpoint locations, and what is retained of them.

A key names a directory; a cut names the batches. How an area makes a directory from a cut is its own affair: one that
has hard links links, another may keep a list of names. So nothing above it knows a path.

Invariant: a directory that is made from another one appears complete or not at all, and never changes its source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from airflow_provider_ha.checkpoints.trees.tree import Tree, WritableTree
from airflow_provider_ha.storage.directories import Directories
from airflow_provider_ha.storage.marker import Roots


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a storage can do, as measured.

    :param links: Whether a file can have a second name; without it, what is retained or forked is copied.
    :param names_suffice: Whether a directory can name files of another one: nothing is linked or copied.
    :param refusal: What the storage answered when it was asked for a second name; empty when it gave one.
    :param atomic_rename: Whether a directory gets its name in one step.
    """

    links: bool
    atomic_rename: bool
    refusal: str = ""
    names_suffice: bool = False


@dataclass(frozen=True, slots=True)
class Successor:
    """Who fences a working directory, for the record that a fence may leave.

    :param epoch: Of the new leader.
    :param submission: Of the new leader, for people.
    """

    epoch: int = 0
    submission: str = ""


@dataclass(frozen=True, slots=True)
class Retained:
    """A cut that Spark's purge cannot take away.

    :param key: Directory in which it lies: its own, or the one that it was cut from.
    :param files: Query -> relative path -> bytes of every file of the closure; empty where no file was looked up,
        because the directory itself is kept.
    """

    key: str
    files: Mapping[str, Mapping[str, int]]


class WorkArea(Directories, Protocol):
    """Directories that Spark works in. Keys of queries are those of their directory and their name.

    :ivar roots: The roots of the cluster, for a writer.
    """

    roots: Roots | None

    @property
    def place(self) -> str:
        """URI of the root, for people."""

    @property
    def cheap_listing(self) -> bool:
        """Whether the names of a directory can be asked for all the time; else each time costs money or a network."""

    def capabilities(self) -> Capabilities:
        """Return what the storage can do. Writes, and removes what it wrote.

        :raises StorageUnavailableError: It cannot be written, with the reason.
        """

    def tree(self, key: str) -> WritableTree:
        """Return a directory, whether it is there or not."""

    def create(self, key: str) -> WritableTree:
        """Make an empty directory, for the queries of one epoch.

        :raises ObjectExistsError: It is there.
        :raises StorageUnavailableError: It could not be made.
        """

    def queries(self, key: str) -> Sequence[str]:
        """Return the names of the queries in a working directory, sorted: every one that Spark began to fill.

        :raises StorageUnavailableError: They could not be listed.
        """

    def log_entries(self, query: str) -> Mapping[str, frozenset[str]]:
        """Return ``"offsets"`` and ``"commits"`` -> the names in this log of a query directory.

        Those of batches whose state may have been removed are left out.

        :param query: Key of a query directory.
        :raises CheckpointCorruptError: Which files it inherits cannot be read.
        :raises StorageUnavailableError: They could not be listed.
        """

    def fork(self, source: str, target: str, *, batch: int | None = None, keep_planned: bool) -> int:
        """Make the checkpoint of a query whose last committed batch is *batch*; return the number of its files.

        :param source: Key of a checkpoint of one query; fenced or retained: no process writes to it.
        :param target: Key of the new one, which does not exist.
        :param batch: N; by default the last committed one.
        :param keep_planned: Whether the batch after N comes along when it is planned: Spark then executes exactly it.
        :raises CheckpointCorruptError: A file of the closure is damaged or gone.
        :raises CheckpointMissingError: Batch N is not there.
        :raises ObjectExistsError: The target exists.
        """

    def bring_in(self, source: Tree, target: str, *, batch: int | None = None) -> int:
        """Make the checkpoint of a query from one that has another owner: nothing is shared with it.

        :param source: Of this area or elsewhere; raises as :meth:`fork` does.
        :raises ConfigurationError: The area cannot read it.
        """

    def retain(self, source: str, target: str, cut: Mapping[str, int], *, sinks: Mapping[str, Tree]) -> Retained:
        """Keep a cut of a directory that Spark works in.

        :param source: Key of the working directory; Spark may purge it at any time.
        :param target: Key that the cut has where it gets its own directory.
        :param cut: Query -> N.
        :param sinks: Query -> log of its file sink, of the queries that have one.
        :raises CheckpointMissingError: Spark purged a batch of the cut during the copy: take a newer cut.
        :raises CheckpointCorruptError: A file of the closure is damaged.
        :raises ObjectExistsError: The target exists.
        """

    def fence(self, key: str, *, by: Successor | None = None) -> str:
        """Make every later commit of a zombie in a working directory fail; return the key of what it had until then.

        :param key: Working directory of an epoch that is over, under its first name. Repeatable.
        :param by: Who does it.
        :raises CheckpointMissingError: It is not there.
        :raises StorageUnavailableError: Whether it is fenced is not known.
        """

    def fenced(self, key: str) -> str:
        """Return the key that :meth:`fence` returns for a working directory, whether it is fenced or not."""

    def current(self, key: str) -> str:
        """Return the key under which the content of a working directory lies now: another one when it is fenced."""


def costs(area: WorkArea) -> tuple[str, ...]:
    """Return what an area does slowly, as measured now: one sentence each.

    :raises StorageUnavailableError: It cannot be written, with the reason.
    """
    found = area.capabilities()
    if found.links or found.names_suffice:
        return ()
    cost = (
        f"the work root {area.place} has no hard links ({found.refusal}), so files are copied: every checkpoint, every "
        "start after a loss and every restore writes the log entries and the whole state of each query once more, and "
        "every retained checkpoint takes that space; put the work root on a file system with hard links to avoid it"
    )
    return (cost,)
