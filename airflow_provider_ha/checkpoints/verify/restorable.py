"""Whether a checkpoint can be restored at one batch: the one judgement of everything that restores or saves one.

Invariant: known bad and unknown are different answers. Damage is returned, with its file; what could not be read is
raised (design, contract 6). A judgement names what its own batch lacks, never what another batch of the report lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.verify.findings import Code, Finding
from airflow_provider_ha.checkpoints.verify.report import BatchVerdict, Reason, Report
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


Verify = Callable[[Tree], VerifiedReport]


@dataclass(frozen=True, slots=True)
class RestorableAt:
    """The judgement of one batch of one query's checkpoint.

    :param batch: N; -1 for a query that has committed nothing, which every directory can be restored to.
    :param answer: Whether the checkpoint can be restored at it; ``None`` when something could not be read.
    :param findings: What this batch lacks, or what could not be read; empty when it can be restored.
    """

    batch: int
    answer: bool | None
    findings: tuple[Reason, ...] = ()

    def problem(self, query: str, place: object) -> CheckpointCorruptError | None:
        """Return the first thing that keeps the query from being restored; ``None`` when it can be.

        :param query: Its name, for the path in the answer.
        :param place: Where its checkpoint lies, for an error.
        :raises StorageUnavailableError: It could not be found out.
        """
        if self.answer:
            return None
        first = self.findings[0]
        if self.answer is None:
            # guard: unreadable-file-counts-as-damage
            raise StorageUnavailableError(f"{place}/{first.path} could not be read: {first.found}")
        return CheckpointCorruptError(query if first.path == "." else f"{query}/{first.path}", first.found)


def restorable_at(report: VerifiedReport, batch: int) -> RestorableAt:
    """Return the judgement of *batch* by a verification of its directory. Pure."""
    if batch < 0 or batch in report.restorable:
        return RestorableAt(batch, answer=True)
    # Also beside damage: the damage may be an answer of the same failing disk.
    unread = tuple(_reason(finding) for finding in report.findings if finding.code is Code.UNREADABLE)
    if unread:
        return RestorableAt(batch, answer=None, findings=unread)
    verdict = verdict_on(report, batch)
    if verdict is not None and verdict.reasons:
        return RestorableAt(batch, answer=False, findings=verdict.reasons)
    # Neither log has the batch. What is wrong with the directory as a whole says why, where anything is.
    of_all = tuple(_reason(finding) for finding in report.findings if finding.batch in {None, batch})
    absent = Reason(Code.OFFSETS_MISSING, ".", f"neither log has batch {batch}")
    return RestorableAt(batch, answer=False, findings=of_all or (absent,))


def verdict_on(report: VerifiedReport, batch: int | None) -> BatchVerdict | None:
    """Return what a verification says of one batch; ``None`` when neither log has it."""
    return next((verdict for verdict in report.batches if verdict.batch == batch), None)


def all_of(answers: Iterable[bool | None]) -> bool | None:
    """Return the answer of several: one no is a no; without one, an open question leaves it open."""
    given = set(answers)
    return False if False in given else None if None in given else True


def verifier(depth: Depth, spark_version: str | None) -> Callable[[Tree], Report]:
    """Return ``verify.verify`` at one depth, for one release of Spark."""
    return lambda directory: verify(directory, depth=depth, spark_version=spark_version)


def damage(root: Tree, cut: Mapping[str, int], check: Verify) -> CheckpointCorruptError | None:
    """Return the first thing that keeps *root* from being restored at *cut*; ``None`` when it can be.

    :param root: One directory per query.
    :param cut: Query -> N.
    :raises StorageUnavailableError: It could not be found out.
    """
    if not root.is_directory():
        root.require()
        return CheckpointCorruptError(".", f"its directory {root} is gone")
    problems = (query_damage(root / query, query, batch, check) for query, batch in cut.items())
    return next((problem for problem in problems if problem is not None), None)


def query_damage(directory: Tree, query: str, batch: int, check: Verify) -> CheckpointCorruptError | None:
    """Return the first thing that keeps one query from being restored at *batch*; ``None`` when it can be.

    :param query: Its name, for the path in the answer.
    :raises StorageUnavailableError: It could not be found out.
    """
    if batch < 0:
        return None
    if not directory.is_directory():
        return CheckpointCorruptError(query, "the directory of the query is gone")
    return restorable_at(check(directory), batch).problem(query, directory)


def _reason(finding: Finding) -> Reason:
    return Reason(finding.code, finding.path, finding.message)
