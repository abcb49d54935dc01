"""No run of a job that was moved to another cluster: it would have two leaders, in two places."""

from __future__ import annotations

from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.coordination.coordinator import Create, Delete, Op
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.jobs.moves import read_arrival, read_moved


def refuse_moved(job: JobContext) -> None:
    """Refuse a new run of a job that has left, or that is about to arrive.

    :raises JobStateError: It has; names the other cluster.
    """
    if (left := read_moved(job.coordinator, job.paths)) is not None:
        moved = left[0]
        if moved.run is None:
            raise JobStateError(
                f"job {job.job_id!r} {moved.sentence}",
                next_step="Repeat `spark-ha job move` to end the move, or give it up with --abandon",
            )
        raise JobStateError(
            f"job {job.job_id!r} {moved.sentence}",
            next_step="Act on it there; `spark-ha job move` from there brings it back",
        )
    if (coming := read_arrival(job.coordinator, job.paths)) is not None:
        raise JobStateError(
            f"job {job.job_id!r} is being moved here from cluster {coming[0].cluster}",
            next_step="Repeat `spark-ha job move` there to end the move, or give it up there with --abandon",
        )


def stays_op(job: JobContext) -> list[Op]:
    """Return what makes a transaction fail when the job has left, or arrives, since it was looked at."""
    # ZooKeeper has no check for absence: what can be made and removed at once is not there.
    return [op for path in (job.paths.moved, job.paths.arriving) for op in (Create(path), Delete(path))]
