"""Leaders of a job and of a cluster, and the actions of a cluster leader on its jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from airflow_provider_ha.api.documents.view import View, shows
from airflow_provider_ha.jobs.model import LeaderInfo


if TYPE_CHECKING:
    from airflow_provider_ha.fleet.reconciler import ReconcileResult
    from airflow_provider_ha.jobs.runs.watchers import ClusterLeaderInfo


class ReconciledView(View):
    """One job that a leader looked at.

    :param outcome: The outcome: ``recovered``, ``left alone``, ``given up`` and so on.
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

    :param epoch: Epoch of the leadership of the cluster.
    """

    outcome: Literal["leading"] = "leading"
    epoch: int


class ReconciledLineView(View):
    """Each other line of ``--watch``: a change of a job.

    :param outcome: The outcome.
    """

    job_id: str
    outcome: str
    detail: str


def recovery_view(cluster_id: str, epoch: int, jobs: Sequence[ReconcileResult]) -> RecoveryView:
    """Return the outcome for every job."""
    shown = [ReconciledView.of(each, outcome=each.outcome.value) for each in jobs]
    return RecoveryView(cluster=cluster_id, epoch=epoch, jobs=tuple(shown))


@shows(LeaderInfo, "epoch run attempt host pid since")
class LeaderView(View):
    """A leader, as its node in ZooKeeper says."""


class JobLeaderView(View):
    """Whether a job has a leader.

    :param epoch: Epoch of the latest leadership, past or present; 0 when the job was never led.
    :param leader: The leader; ``null`` without a leader.
    """

    job_id: str
    epoch: int
    leader: LeaderView | None


class ClusterShowView(View):
    """The leader of a cluster, which recovers its jobs.

    :param cluster_id: The cluster.
    :param address: Address of the leader; empty without a leader.
    :param host: Host of its process.
    :param pid: Process id of the leader; ``null`` without a leader.
    :param epoch: Epoch of this leadership; 0 without a leader.
    :param since: When it was granted.
    :param inspected_at: When it had last inspected a job, to the nearest quarter of a minute.
    :param inspected_seconds_ago: Seconds since then; ``null`` when it has inspected none.
    """

    cluster_id: str
    address: str = ""
    host: str = ""
    pid: int | None = None
    epoch: int = 0
    since: datetime | None = None
    inspected_at: datetime | None = None
    inspected_seconds_ago: float | None = None


def cluster_show_view(cluster_id: str, leader: ClusterLeaderInfo | None, *, now: datetime) -> ClusterShowView:
    """Return the leader of a cluster, and how long ago it has inspected a job."""
    if leader is None:
        return ClusterShowView(cluster_id=cluster_id)
    at = leader.inspected_at
    return ClusterShowView(
        cluster_id=cluster_id,
        **leader.model_dump(),
        inspected_seconds_ago=None if at is None else max(0.0, (now - at).total_seconds()),
    )
