"""Judgement whether a checkpoint can be restored at one batch, shared by all restores and savepoints.

Invariant: bad and unknown are different answers. Damage is returned, with its file; a failed read is raised (design,
contract 6). A judgement lists only the requirements of the judged batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.verification import Depth, verify
from airflow_provider_ha.checkpoints.verify.verification_report import BatchVerdict, Finding, Reason, VerificationReport
from airflow_provider_ha.errors import CheckpointCorruptError, StorageUnavailableError


Verify = Callable[[Tree], VerificationReport]


@dataclass(frozen=True, slots=True)
class RestorableAt:
    """Judgement of one batch of a query's checkpoint.

    :param batch: N; -1 for a query without commits, to which every directory can be restored.
    :param answer: Whether the checkpoint can be restored at it; ``None`` when a file could not be read.
    :param findings: Missing requirements or unreadable files; empty when it can be restored.
    """

    batch: int
    answer: bool | None
    findings: tuple[Reason, ...] = ()

    def problem(self, query: str, place: object) -> CheckpointCorruptError | None:
        """Return the first problem that prevents a restore of the query; ``None`` without one.

        :param query: Its name, for the path in the answer.
        :param place: Directory of its checkpoint, for an error.
        """
        if self.answer:
            return None
        first = self.findings[0]
        if self.answer is None:
            # guard: unreadable-file-counts-as-damage
            raise StorageUnavailableError(f"{place}/{first.path} could not be read: {first.found}")
        return CheckpointCorruptError(query if first.path == "." else f"{query}/{first.path}", first.found)


def restorable_at(report: VerificationReport, batch: int) -> RestorableAt:
    """Return the judgement of *batch* from a verification of its directory. Pure."""
    if batch < 0 or batch in report.restorable:
        return RestorableAt(batch, answer=True)
    # Also in addition to damage: the apparent damage may come from the same failing disk.
    unread = tuple(_reason(finding) for finding in report.findings if finding.code is Code.UNREADABLE)
    if unread:
        return RestorableAt(batch, answer=None, findings=unread)
    verdict = verdict_on(report, batch)
    if verdict is not None and verdict.reasons:
        return RestorableAt(batch, answer=False, findings=verdict.reasons)
    # Neither log has the batch. Problems of the directory as a whole, if any, explain it.
    of_all = tuple(_reason(finding) for finding in report.findings if finding.batch in {None, batch})
    absent = Reason(Code.OFFSETS_MISSING, ".", f"neither log has batch {batch}")
    return RestorableAt(batch, answer=False, findings=of_all or (absent,))


def verdict_on(report: VerificationReport, batch: int | None) -> BatchVerdict | None:
    """Return the verdict on a batch; ``None`` when neither log has it."""
    return next((verdict for verdict in report.batches if verdict.batch == batch), None)


def all_of(answers: Iterable[bool | None]) -> bool | None:
    """Return the combined answer: any no is a no; without one, any unknown is unknown."""
    given = set(answers)
    return False if False in given else None if None in given else True


def verifier(depth: Depth, spark_version: str | None) -> Verify:
    """Return ``verify.verify`` with a fixed depth and Spark release."""
    return lambda directory: verify(directory, depth=depth, spark_version=spark_version)


def damage(root: Tree, cut: Mapping[str, int], check: Verify) -> CheckpointCorruptError | None:
    """Return the first problem that prevents a restore of *root* at *cut*; ``None`` without one.

    :param root: One directory per query.
    :param cut: Query -> N.
    """
    if not root.is_directory():
        root.require()
        return CheckpointCorruptError(".", f"its directory {root} is gone")
    problems = (query_damage(root / query, query, batch, check) for query, batch in cut.items())
    return next((problem for problem in problems if problem is not None), None)


def query_damage(directory: Tree, query: str, batch: int, check: Verify) -> CheckpointCorruptError | None:
    """Return the first problem that prevents a restore of a query at *batch*; ``None`` without one.

    :param query: Its name, for the path in the answer.
    """
    if batch < 0:
        return None
    if not directory.is_directory():
        return CheckpointCorruptError(query, "the directory of the query is gone")
    return restorable_at(check(directory), batch).problem(query, directory)


def _reason(finding: Finding) -> Reason:
    return Reason(finding.code, finding.path, finding.message)
