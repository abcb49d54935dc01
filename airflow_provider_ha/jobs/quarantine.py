"""Jobs that no process recovers until a person has looked: their graph or their records are broken, and why.

One broken job must not stop the others (FLINK-5193, FLINK-40554), and it must not be forgotten either. So its reason
lies beside the jobs, is written once by the cluster's leader, and stays until an operator takes it away. One that was
made while storage had no file of any job ends by itself: an outage that is over leaves nothing behind.
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Delete
from airflow_provider_ha.coordination.node import Node
from airflow_provider_ha.coordination.node_names import is_plain, ours
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.errors import JobStateError, NodeExistsError, NodeMissingError, RecordCorruptError
from airflow_provider_ha.records import Record


class Quarantine(Record):
    """``quarantine/<job_id>``: why a job is not recovered.

    :param reason: What is broken, for people.
    :param by: The process that put it there.
    :param cluster_epoch: Leadership of the cluster that did.
    :param outage: Whether the files of every job were missing, as when a part of storage is not mounted.
    """

    kind: ClassVar[str] = "quarantine"

    job_id: str
    reason: str
    by: str
    cluster_epoch: int
    at: datetime
    outage: bool = False


def quarantine_op(paths: ClusterPaths, record: Quarantine) -> Create:
    """Return the creation of a quarantine; it fails when the job is in quarantine already."""
    return Create(paths.quarantined(record.job_id), record.to_bytes())


def quarantine_reason(coordinator: Coordinator, paths: ClusterPaths, job_id: str) -> str | None:
    """Return why a job is in quarantine; ``None`` when it is not."""
    node = coordinator.find(paths.quarantined(job_id))
    return None if node is None else reason_of(node)


def reason_of(node: Node) -> str:
    """Return why a job is in quarantine, from its node there. One that cannot be read is a reason as well."""
    try:
        return Quarantine.from_bytes(node.data, source=node.path).reason
    except RecordCorruptError as error:
        return f"why it is in quarantine cannot be read: {error.message}"


def may_end(node: Node) -> bool:
    """Whether a quarantine ends by itself once what is missing is there again."""
    try:
        return Quarantine.from_bytes(node.data, source=node.path).outage
    except RecordCorruptError:
        return False


def list_quarantined(coordinator: Coordinator, paths: ClusterPaths) -> dict[str, str]:
    """Return the jobs in quarantine with their reasons."""
    names = ours(coordinator.children(paths.quarantine), is_plain, parent=paths.quarantine)
    found = {name: quarantine_reason(coordinator, paths, name) for name in names}
    return {name: reason for name, reason in found.items() if reason is not None}


def release(coordinator: Coordinator, paths: ClusterPaths, job_id: str) -> str:
    """Let a job be recovered again; returns why it was not.

    The one removal by a process that does not lead: a person decides it, for exactly the node that was read. The
    cluster's leader only creates such nodes, so this undoes none of its work.

    :raises JobStateError: The job is not in quarantine.
    """
    reason = quarantine_reason(coordinator, paths, job_id)
    node = coordinator.find(paths.quarantined(job_id))
    if node is None or reason is None:
        raise _not_there(job_id)
    try:
        coordinator.commit(Delete(node.path, node.version))
    except NodeMissingError:
        raise _not_there(job_id) from None
    return reason


def release_shown(coordinator: Coordinator, paths: ClusterPaths, job_id: str, *, shown: int, last_run: int) -> bool:
    """Release a job as a person has seen it: from this quarantine, and of the owner whom its newest run names.

    A transaction can compare no transaction: a quarantine that is removed and made again in the moment between the read
    and the removal goes, too.

    :param shown: Transaction that made the node that was shown: one that is made again has the same version.
    :param last_run: Number of the job's newest run; 0 for a job without one.
    :returns: Whether it was in quarantine: a request that is repeated finds that it is not any more.
    :raises JobStateError: It is in another quarantine, or has a newer run; nothing was changed.
    """
    node = coordinator.find(paths.quarantined(job_id))
    if node is None:
        return False
    if node.modified_zxid != shown:
        raise JobStateError(
            f"job {job_id!r} was put into quarantine again, because {reason_of(node).rstrip('.')}",
            next_step="Load the page again, and look at the reason",
        )
    following = paths.job(job_id).run(last_run + 1)
    # Each owner comes with a run. What can be made and removed at once is not there.
    owned = (Create(following), Delete(following))
    try:
        coordinator.commit(Delete(node.path, node.version), *owned)
    except NodeExistsError:
        raise JobStateError(
            f"job {job_id!r} has a newer run, whose owner may be another one; nothing was released",
            next_step="Load the page again",
        ) from None
    except NodeMissingError as error:
        if error.path != node.path:
            raise
        return False
    return True


def _not_there(job_id: str) -> JobStateError:
    return JobStateError(f"job {job_id!r} is not in quarantine", next_step="Nothing needs to be done")
