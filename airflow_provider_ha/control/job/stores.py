"""The checkpoints and savepoints of one job, and the selection of one of them."""

from __future__ import annotations

from functools import partial

from airflow_provider_ha.checkpoints.restore.select import Selection, select
from airflow_provider_ha.checkpoints.retention.store import CheckpointStore
from airflow_provider_ha.checkpoints.savepoints.store import SavepointStore
from airflow_provider_ha.checkpoints.verify.verify import Depth
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.jobs.run_start import start_of_run


def select_checkpoint(job: JobContext, *, start_from: str, fallback: bool, depth: Depth = "full") -> Selection:
    """Verify the job's checkpoints and savepoints, newest first (``checkpoints.restore.select``)."""
    return select(
        checkpoint_store(job),
        savepoint_store(job),
        job.area,
        start_from=start_from,
        fallback=fallback,
        depth=depth,
    )


def checkpoint_store(job: JobContext) -> CheckpointStore:
    """Return the job's checkpoints."""
    return CheckpointStore(job.coordinator, job.store, job.paths, job.keys, job.area, clock=job.clock)


def savepoint_store(job: JobContext) -> SavepointStore:
    """Return the job's savepoints."""
    start = partial(start_of_run, job.coordinator, job.paths)
    return SavepointStore(job.coordinator, job.paths, job.keys, job.area, clock=job.clock, start=start)
