"""The judgement of a savepoint, wherever it lies: its files, and for each query whether it can be restored.

Invariant: a savepoint is valid when it is exactly what its manifest says and each query can be restored from it. A file
that could not be read leaves the question open (contract 6).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from airflow_provider_ha.checkpoints.model import Savepoint
from airflow_provider_ha.checkpoints.savepoints.layout import StoredSavepoint
from airflow_provider_ha.checkpoints.savepoints.savepoint_files import check_files
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.verify.report import Report
from airflow_provider_ha.checkpoints.verify.restorable import (
    RestorableAt,
    all_of,
    query_damage,
    restorable_at,
    verifier,
)
from airflow_provider_ha.checkpoints.verify.verify import Depth, verify
from airflow_provider_ha.errors import CheckpointCorruptError


class ReadableSavepoint(Protocol):
    """What is needed of a savepoint to see that it is whole."""

    @property
    def savepoint(self) -> Savepoint:
        """Its manifest."""

    def tree(self, query: str) -> Tree:
        """Return the part of one query."""

    def wrong_files(self, *, only: Container[str] | None = None) -> list[CheckpointCorruptError]:
        """Compare every file with the manifest, as every stored savepoint does."""


@dataclass(frozen=True, slots=True)
class SavepointTree:
    """A savepoint of a work area, wherever that lies (:class:`ReadableSavepoint`).

    :param place: One directory per query.
    :param savepoint: Its manifest.
    """

    place: Tree
    savepoint: Savepoint

    def tree(self, query: str) -> Tree:
        """Return the directory of one query."""
        return self.place / query

    def wrong_files(self, *, only: Container[str] | None = None) -> list[CheckpointCorruptError]:
        """Compare every file with the manifest; return what is wrong, in its order."""
        return check_files(self.place, self.savepoint, digests=True, only=only)


@dataclass(frozen=True, slots=True)
class QueryReport:
    """The judgement of one query's checkpoint in a savepoint.

    :param judgement: Of the batch of the cut.
    :param report: What the verification of its directory said.
    """

    judgement: RestorableAt
    report: Report


@dataclass(frozen=True, slots=True)
class SavepointReport:
    """The result of reading a savepoint: every byte in a directory, what the store says of its objects in a pool.

    :param files: What is not as the manifest says; empty when all is.
    :param queries: Query -> the judgement of its checkpoint.
    """

    stored: StoredSavepoint
    files: tuple[CheckpointCorruptError, ...]
    queries: Mapping[str, QueryReport]

    @property
    def restorable(self) -> bool | None:
        """Whether it can be restored; ``None`` when something that matters could not be read."""
        return False if self.files else all_of(query.judgement.answer for query in self.queries.values())

    @property
    def not_digested(self) -> int:
        """How many of its files were compared by their size only: the manifest has no digest of them."""
        return sum(file.digested_by is None for file in self.stored.savepoint.files.values())


def judge(
    stored: StoredSavepoint, *, depth: Depth = "quick", spark_version: str | None = None, processes: int = 1
) -> SavepointReport:
    """Compare a savepoint with its manifest, and judge the checkpoint of each query.

    A file without a digest is compared by its size; what is wrong with its bytes is found as far as its format shows.

    :param depth: How closely to judge the checkpoints; the files are all compared either way.
    :param spark_version: The release that is to start from it; the one in the manifest by default.
    :param processes: How many judge large state, as ``verify`` takes it.
    :raises ConfigurationError: *spark_version* is not a version.
    :raises StorageUnavailableError: A file could not be read.
    """
    found = (*stored.wrong_files(), *stored.strangers())
    judged_as = spark_version or stored.savepoint.spark_version
    look = partial(verify, depth=depth, spark_version=judged_as, processes=processes)
    queries = {}
    for query, batch in stored.savepoint.cut.items():
        report = look(stored.tree(query))
        queries[query] = QueryReport(restorable_at(report, batch), report)
    return SavepointReport(stored, found, queries)


def problems(
    stored: ReadableSavepoint, *, spark_version: str | None = None, only: Container[str] | None = None
) -> list[CheckpointCorruptError]:
    """Compare a savepoint with its manifest, then look for the first query that cannot be restored from it.

    :param spark_version: The release that is to start from it; the one in the manifest by default.
    :param only: Files whose bytes are to be read; all by default.
    :raises StorageUnavailableError: Something could not be read.
    """
    found = stored.wrong_files(only=only)
    if found:
        return found
    look = verifier("quick", spark_version or stored.savepoint.spark_version)
    structural = (query_damage(stored.tree(query), query, batch, look) for query, batch in stored.savepoint.cut.items())
    first = next((problem for problem in structural if problem is not None), None)
    return [] if first is None else [first]


def check(stored: ReadableSavepoint, *, spark_version: str | None = None, only: Container[str] | None = None) -> None:
    """See that a savepoint is what its manifest says, and that each query can be restored from it.

    :raises CheckpointCorruptError: The first thing that is wrong.
    :raises StorageUnavailableError: It could not be found out.
    """
    for problem in problems(stored, spark_version=spark_version, only=only):
        raise problem
