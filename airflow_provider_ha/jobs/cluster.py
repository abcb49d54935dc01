"""The leader of the cluster: the process that recovers its jobs and takes submissions for it."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.coordination.records import read_record
from airflow_provider_ha.errors import LeadershipUnavailableError
from airflow_provider_ha.records import Record


class ClusterLeaderInfo(Record):
    """Data of the leader node of ``resource_manager_lock``. Holds no secret.

    :param epoch: Epoch of this leadership of the cluster.
    :param address: Address shown to people and to refused contenders: a URL, a unit name, a DAG run.
    :param inspected_at: When it had last inspected jobs, to the nearest quarter of a minute; ``None`` when it had not.
    """

    kind: ClassVar[str] = "cluster-leader"

    epoch: int
    host: str
    pid: int
    address: str
    since: datetime
    inspected_at: datetime | None = None

    def uninspected(self, now: datetime) -> float:
        """Return the seconds for which it has inspected no job, since its grant when it never has."""
        return max(0.0, round((now - (self.inspected_at or self.since)).total_seconds(), 3))


def read_cluster_leader(coordinator: Coordinator, paths: ClusterPaths) -> ClusterLeaderInfo | None:
    """Return the leader of the cluster; ``None`` when there is none.

    :raises RecordCorruptError: There is one, and its record cannot be read.
    """
    found = read_record(coordinator, paths.lock.leader, ClusterLeaderInfo)
    return None if found is None else found[0]


def not_leading(coordinator: Coordinator, paths: ClusterPaths) -> LeadershipUnavailableError:
    """Return the error for a process that would have to lead the cluster and does not: it names the one that does."""
    leader = read_cluster_leader(coordinator, paths)
    if leader is None:
        return LeadershipUnavailableError(
            f"{paths.lock.label} has no leader now, and this process does not lead it", next_step="Try again shortly"
        )
    return LeadershipUnavailableError(
        f"{paths.lock.label} is led by {leader.address} on {leader.host} (pid {leader.pid}), epoch {leader.epoch}",
        next_step=f"Ask {leader.address}",
    )
