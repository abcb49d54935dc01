"""Whether the directory of a checkpoint or savepoint can be restored, and the first thing that is wrong if not.

Invariant: known bad and unknown are different answers. Damage is returned, with its file; what could not be read is
raised (design, contract 6).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.findings import Code, Finding
from airflow_provider_ha.checkpoints.verify.report import BatchVerdict
from airflow_provider_ha.checkpoints.verify.verify import Depth, verify
from airflow_provider_ha.errors import CheckpointCorruptError, StorageUnavailableError


class VerifiedReport(Protocol):
    """What a decision needs of a verification."""

    @property
    def restorable(self) -> Sequence[int]:
        """Batches that the directory can be restored to."""

    @property
    def batches(self) -> Sequence[BatchVerdict]:
        """Every batch in its logs, and what it lacks."""

    @property
    def findings(self) -> Sequence[Finding]:
        """What was found."""


Verify = Callable[[Path], VerifiedReport]


def verifier(depth: Depth, spark_version: str | None) -> Verify:
    """Return ``verify.verify`` at one depth, for one release of Spark."""
    return lambda directory: verify(LocalTree(directory), depth=depth, spark_version=spark_version)


def damage(root: Path, cut: Mapping[str, int], check: Verify) -> CheckpointCorruptError | None:
    """Return the first thing that keeps *root* from being restored at *cut*; ``None`` when it can be.

    :param root: One directory per query.
    :param cut: Query -> N.
    :raises StorageUnavailableError: It could not be found out.
    """
    if not root.is_dir():
        if not root.parent.is_dir():
            raise StorageUnavailableError(
                f"{root.parent} is not there", next_step="Mount the file system that holds the checkpoints"
            )
        return CheckpointCorruptError(".", f"its directory {root} is gone")
    for query, batch in cut.items():
        problem = query_damage(root / query, query, batch, check) if batch >= 0 else None
        if problem is not None:
            return problem
    return None


def query_damage(directory: Path, query: str, batch: int, check: Verify) -> CheckpointCorruptError | None:
    """Return the first thing that keeps one query from being restored at *batch*; ``None`` when it can be.

    :param query: Its name, for the path in the answer.
    :raises StorageUnavailableError: It could not be found out.
    """
    if not directory.is_dir():
        return CheckpointCorruptError(query, "the directory of the query is gone")
    report = check(directory)
    if batch in report.restorable:
        return None
    for finding in report.findings:
        if finding.code is Code.UNREADABLE:
            raise StorageUnavailableError(f"{directory / finding.path} could not be read: {finding.message}")
    # What the batch itself lacks comes first: the first finding may be about another batch, not the requested one.
    reasons = next((verdict.reasons for verdict in report.batches if verdict.batch == batch), ())
    wrong = [(reason.path, reason.found) for reason in reasons] + [
        (item.path, item.message) for item in report.findings
    ]
    path, reason = wrong[0] if wrong else (".", f"batch {batch} cannot be restored")
    return CheckpointCorruptError(query if path == "." else f"{query}/{path}", reason)
