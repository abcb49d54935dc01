"""Whether a job is over: what is removed of it must be needed by no driver, no recovery and no reader."""

from __future__ import annotations

from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.coordination.leases import active
from airflow_provider_ha.coordination.node_names import is_plain, ours
from airflow_provider_ha.errors import JobStateError, UnknownJobError


def require_over(job: JobContext) -> None:
    """Refuse to remove a job that lives.

    :raises JobStateError: It is led, has a live run or a reader.
    :raises UnknownJobError: There is no such job.
    """
    snapshot = job.snapshot()
    if snapshot.leader is not None:  # guard: erase-not-under-a-leader
        raise JobStateError(
            f"job {job.job_id!r} is led by epoch {snapshot.leader.epoch} on {snapshot.leader.host}",
            next_step=f"End it first: `spark-ha job stop {job.job_id}` or `spark-ha job cancel {job.job_id}`; "
            "nothing was removed",
        )
    if snapshot.run is not None and snapshot.run.result is None:  # guard: erase-only-what-is-over
        raise JobStateError(
            f"run {snapshot.run.run.number} of job {job.job_id!r} is {snapshot.state.value} and has no result",
            next_step=f"End it first: `spark-ha job stop {job.job_id}` or `spark-ha job cancel {job.job_id}`; "
            "`spark-ha recover` goes on with it; nothing was removed",
        )
    for what in readers(job):
        raise JobStateError(
            f"a reader holds {what!r} of job {job.job_id!r}", next_step="Wait for its end; nothing was removed"
        )


def in_use(job: JobContext) -> list[str]:
    """Return what uses a job whose run is over, and ends by itself: a driver that is ending, and readers.

    Empty for a live run, and for a job that is not known: whether these are refused is asked of what removes the job.
    """
    try:
        snapshot = job.snapshot()
    except UnknownJobError:
        return []
    if snapshot.run is not None and snapshot.run.result is None:
        return []
    leader = snapshot.leader
    led = [] if leader is None else [f"it is led by epoch {leader.epoch} on {leader.host}"]
    return led + [f"a reader holds {what}" for what in readers(job)]


def readers(job: JobContext) -> list[str]:
    """Return what of the job is being read: ``checkpoint-12``.

    :raises RecordCorruptError: A lease cannot be read; it may protect something.
    """
    leases = f"{job.paths.base}/leases"
    names = ours(job.coordinator.children(leases), is_plain, parent=leases)
    found = []
    for what in names:
        if active(job.coordinator, job.paths, what, job.clock):  # guard: erase-not-under-a-reader
            found.append(what)  # noqa: PERF401  # a guard is a statement
    return found
