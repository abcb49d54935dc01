"""The answer of ``spark-ha savepoint verify``: the same keys for a directory, a pool and a managed job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ha.views.verification import ReasonView, VerificationView, verification_view
from airflow_provider_ha.views.view import View


if TYPE_CHECKING:
    from airflow_provider_ha.checkpoints.savepoints.judge import SavepointReport


class WrongFileView(View):
    """One file that is not as the manifest says.

    :param path: Relative to the savepoint.
    :param message: The difference from the manifest.
    """

    path: str
    message: str


class SavedQueryView(View):
    """One query of a savepoint.

    :param batch: Its batch; -1 when it had committed none.
    :param restorable: Whether it can be restored to that batch; ``null`` when something could not be read.
    :param findings: The problems of this batch alone, also files that could not be read. Empty when it can be restored.
    :param report: The verification of its whole directory, as ``checkpoint verify --json`` prints it: its findings may
        be about other batches.
    """

    batch: int
    restorable: bool | None
    findings: tuple[ReasonView, ...]
    report: VerificationView


class SavepointVerificationView(View):
    """A savepoint that was verified.

    :param savepoint_id: Its id.
    :param job_id: The managed job that it was taken of; empty when it was taken of any other checkpoint.
    :param layout: ``directory``, or ``pool`` on S3.
    :param location: Its path, or its URI.
    :param restorable: Whether it can be restored completely; ``null`` if parts could not be read.
    :param shares_inodes: Whether its files are hard links of live ones.
    :param digested: Whether every file has a digest.
    :param not_digested: Number of files without a digest, compared by size only.
    :param files: Files that differ from the manifest. In a directory every byte is compared; in a pool, the size and
        ETag of the objects.
    :param queries: Query -> its judgement.
    """

    savepoint_id: str
    job_id: str
    layout: str
    location: str
    restorable: bool | None
    shares_inodes: bool
    digested: bool
    not_digested: int
    files: tuple[WrongFileView, ...]
    queries: dict[str, SavedQueryView]


def savepoint_verification(report: SavepointReport) -> SavepointVerificationView:
    """Return what a verification of a savepoint found."""
    stored, savepoint = report.stored, report.stored.savepoint
    return SavepointVerificationView(
        savepoint_id=savepoint.savepoint_id,
        job_id=savepoint.job_id,
        layout=stored.layout,
        location=stored.location,
        restorable=report.restorable,
        shares_inodes=savepoint.shares_inodes,
        digested=savepoint.digested,
        not_digested=report.not_digested,
        files=tuple(WrongFileView(path=problem.path, message=problem.reason) for problem in report.files),
        queries={
            query: SavedQueryView(
                batch=found.judgement.batch,
                restorable=found.judgement.answer,
                findings=tuple(ReasonView.of(lack) for lack in found.judgement.findings),
                report=verification_view(found.report),
            )
            for query, found in report.queries.items()
        },
    )
