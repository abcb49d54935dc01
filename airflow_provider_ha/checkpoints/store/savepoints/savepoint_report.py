"""Verification of a savepoint in any place: its files, and whether each query can be restored.

Invariant: a savepoint is valid when it matches its manifest exactly and each query can be restored from it. A file that
could not be read leaves the question open (contract 6).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import partial

from airflow_provider_ha.checkpoints.model import Savepoint
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.checkpoints.store.savepoints.manifest import check_files
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import ReadableSavepoint, StoredSavepoint
from airflow_provider_ha.checkpoints.verify.restorable import (
    RestorableAt,
    all_of,
    query_damage,
    restorable_at,
    verifier,
)
from airflow_provider_ha.checkpoints.verify.verification import Depth, verify
from airflow_provider_ha.checkpoints.verify.verification_report import VerificationReport
from airflow_provider_ha.errors import CheckpointCorruptError


@dataclass(frozen=True, slots=True)
class SavepointTree:
    """A savepoint of a work area on any storage (:class:`ReadableSavepoint`)."""

    place: Tree
    savepoint: Savepoint

    def tree(self, query: str) -> Tree:
        """Return the directory of a query."""
        return self.place / query

    def wrong_files(self, *, only: Container[str] | None = None) -> list[CheckpointCorruptError]:
        """Compare every file with the manifest; return the mismatches in manifest order."""
        return check_files(self.place, self.savepoint, digests=True, only=only)


@dataclass(frozen=True, slots=True)
class QueryReport:
    """Judgement of a query's checkpoint in a savepoint."""

    judgement: RestorableAt
    report: VerificationReport


@dataclass(frozen=True, slots=True)
class SavepointReport:
    """Result of the judgement: from every byte, or on S3 from the etags of the objects.

    :param files: Mismatches with the manifest; empty when all files match.
    """

    stored: StoredSavepoint
    files: tuple[CheckpointCorruptError, ...]
    queries: Mapping[str, QueryReport]

    @property
    def restorable(self) -> bool | None:
        """Whether it can be restored; ``None`` when a file that matters could not be read."""
        return False if self.files else all_of(query.judgement.answer for query in self.queries.values())

    @property
    def not_digested(self) -> int:
        """Number of files compared by size only, because the manifest has neither digest nor etag for them."""
        return sum(not (file.digested_by or file.etag) for file in self.stored.savepoint.files.values())


def judge(
    stored: StoredSavepoint, *, depth: Depth = "quick", spark_version: str | None = None, processes: int = 1
) -> SavepointReport:
    """Compare a savepoint with its manifest, and judge the checkpoint of each query.

    A file without a digest is compared by its size; damage to its bytes is found as far as its format allows.

    :param depth: Depth of the judgement of the checkpoints; the files are compared at every depth.
    :param spark_version: The release that will start from it; the one in the manifest by default.
    :param processes: Number of processes for large state, as for ``verify``.
    :raises ConfigurationError: *spark_version* is not a version.
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
    """Yield mismatches with the manifest, then the first query that cannot be restored.

    :param spark_version: The release that will start from it; the one in the manifest by default.
    :param only: Files whose bytes are read; all by default.
    """
    found = stored.wrong_files(only=only)
    if found:
        return found
    look = verifier("quick", spark_version or stored.savepoint.spark_version)
    structural = (query_damage(stored.tree(query), query, batch, look) for query, batch in stored.savepoint.cut.items())
    first = next((problem for problem in structural if problem is not None), None)
    return [] if first is None else [first]


def check(stored: ReadableSavepoint, *, spark_version: str | None = None, only: Container[str] | None = None) -> None:
    """Check that a savepoint matches its manifest and that each query can be restored from it.

    :raises CheckpointCorruptError: The first problem.
    """
    for problem in problems(stored, spark_version=spark_version, only=only):
        raise problem
