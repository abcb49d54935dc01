"""The actions of a cluster leader on its jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from airflow_provider_ha.views.view import View


if TYPE_CHECKING:
    from airflow_provider_ha.control.reconcile.reconciler import Reconciled


class ReconciledView(View):
    """One job that a leader looked at.

    :param job_id: The job.
    :param outcome: The outcome: ``recovered``, ``left alone``, ``given up`` and so on.
    :param detail: For people.
    :param again: Seconds until it is worth another look; ``null`` when it is not waiting for anything.
    """

    job_id: str
    outcome: str
    detail: str
    again: float | None


class RecoveryView(View):
    """All jobs of a cluster.

    :param cluster: Namespace of the jobs.
    :param epoch: Epoch of the leadership of the cluster; 0 for one job that was named.
    :param jobs: One entry for each.
    """

    cluster: str
    epoch: int
    jobs: tuple[ReconciledView, ...]


class LeadingLineView(View):
    """First line of ``--watch``: the process leads the cluster.

    :param outcome: Always ``leading``.
    :param epoch: Epoch of the leadership of the cluster.
    """

    outcome: Literal["leading"] = "leading"
    epoch: int


class ReconciledLineView(View):
    """Each other line of ``--watch``: a change of a job.

    :param job_id: The job.
    :param outcome: The outcome.
    :param detail: For people.
    """

    job_id: str
    outcome: str
    detail: str


def recovery_view(cluster_id: str, epoch: int, jobs: Sequence[Reconciled]) -> RecoveryView:
    """Return the outcome for every job."""
    return RecoveryView(
        cluster=cluster_id,
        epoch=epoch,
        jobs=tuple(
            ReconciledView(job_id=each.job_id, outcome=each.outcome.value, detail=each.detail, again=each.again)
            for each in jobs
        ),
    )


def reconciled_line(job: Reconciled) -> ReconciledLineView:
    """Return a change of a job."""
    return ReconciledLineView(job_id=job.job_id, outcome=job.outcome.value, detail=job.detail)
