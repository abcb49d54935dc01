"""A savepoint directory as its finder sees it: read, and judged.

Invariant: it is valid when it is exactly what its manifest says and each query can be restored from it. A file that
could not be read leaves the question open (contract 6).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from airflow_provider_ha.checkpoints.model import Savepoint
from airflow_provider_ha.checkpoints.savepoints.manifest_names import check_manifest
from airflow_provider_ha.checkpoints.savepoints.savepoint_files import (
    MANIFEST,
    check_files,
    manifest_bytes,
    parse_manifest,
)
from airflow_provider_ha.checkpoints.trees.attempts import storage_errors
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.report import Report
from airflow_provider_ha.checkpoints.verify.restorable import damage
from airflow_provider_ha.checkpoints.verify.verify import Depth, verify
from airflow_provider_ha.errors import CheckpointCorruptError, StorageUnavailableError


@dataclass(frozen=True, slots=True)
class QueryReport:
    """The judgement of one query's checkpoint in a savepoint.

    :param batch: N of the cut.
    :param restorable: Whether it can be restored to that batch; ``None`` when it could not be found out.
    :param report: What the verification of its directory said.
    """

    batch: int
    restorable: bool | None
    report: Report

    def to_json(self) -> dict[str, Any]:
        """The report as a part of the savepoint's."""
        return {"batch": self.batch, "restorable": self.restorable, "report": self.report.to_json()}


@dataclass(frozen=True, slots=True)
class SavepointReport:
    """The result of reading every byte of a savepoint.

    :param files: What is not as the manifest says; empty when all is.
    :param queries: Query -> the judgement of its checkpoint.
    """

    savepoint: Savepoint
    files: tuple[CheckpointCorruptError, ...]
    queries: Mapping[str, QueryReport]

    @property
    def restorable(self) -> bool | None:
        """Whether it can be restored; ``None`` when something that matters could not be read."""
        answers = [query.restorable for query in self.queries.values()]
        if self.files or False in answers:
            return False
        return None if None in answers else True

    @property
    def not_digested(self) -> int:
        """How many of its files were compared by their size only: the manifest has no digest of them."""
        return sum(file.digested_by is None for file in self.savepoint.files.values())

    def to_json(self) -> dict[str, Any]:
        """The report as ``spark-ha savepoint verify --json`` prints it."""
        return {
            "savepoint_id": self.savepoint.savepoint_id,
            "restorable": self.restorable,
            "shares_inodes": self.savepoint.shares_inodes,
            "digested": self.savepoint.digested,
            "not_digested": self.not_digested,
            "files": [{"path": problem.path, "message": problem.reason} for problem in self.files],
            "queries": {query: report.to_json() for query, report in self.queries.items()},
        }


def read_savepoint(directory: Path) -> Savepoint:
    """Return the manifest of a savepoint directory of any author.

    :raises CheckpointMissingError: It is not a savepoint.
    :raises CheckpointCorruptError: Its manifest is damaged, or names what no savepoint has.
    :raises StorageUnavailableError: It could not be read, or the directory is not there.
    """
    with storage_errors(f"cannot read {directory}"):
        if not directory.is_dir():
            raise StorageUnavailableError(
                f"{directory} is not a directory of this host",
                next_step="Check its path, and that its file system is mounted",
            )
    return check_manifest(parse_manifest(directory, manifest_bytes(directory)))


def judge(
    directory: Path,
    savepoint: Savepoint,
    *,
    depth: Depth = "quick",
    spark_version: str | None = None,
    processes: int = 1,
) -> SavepointReport:
    """Read every byte of a savepoint again, and judge the checkpoint of each query.

    A file without a digest is compared by its size; what is wrong with its bytes is found as far as its format shows.

    :param depth: How closely to judge the checkpoints; the bytes are all read either way.
    :param spark_version: The release that is to start from it; the one in the manifest by default.
    :param processes: How many judge large state, as ``verify`` takes it.
    :raises ConfigurationError: *spark_version* is not a version.
    :raises StorageUnavailableError: A file could not be read.
    """
    found = check_files(directory, savepoint, digests=True)
    with storage_errors(f"cannot read {directory}"):
        found += [
            CheckpointCorruptError(name, "it is not in the manifest")
            for name in sorted(set(_names(directory)) - set(savepoint.files) - {MANIFEST})
        ]
    judged_as = spark_version or savepoint.spark_version
    look = partial(verify, depth=depth, spark_version=judged_as, processes=processes)
    queries = {
        query: _judge_query(directory, query, part.batch, look(LocalTree(directory / query)))
        for query, part in savepoint.queries.items()
    }
    return SavepointReport(savepoint, tuple(found), queries)


def _judge_query(root: Path, query: str, batch: int, report: Report) -> QueryReport:
    try:
        restorable = damage(root, {query: batch}, lambda _: report) is None
    except StorageUnavailableError:
        return QueryReport(batch, None, report)
    return QueryReport(batch, restorable, report)


def _names(directory: Path) -> Iterator[str]:
    """Yield the path of everything below *directory* that is not a directory."""
    for place, directories, names in os.walk(directory, onerror=_raise):
        links = [name for name in directories if Path(place, name).is_symlink()]
        yield from (str(Path(place, name).relative_to(directory)) for name in [*names, *links])


def _raise(error: OSError) -> None:
    raise error
