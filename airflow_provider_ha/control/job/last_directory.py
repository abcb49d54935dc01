"""The last working directory of a job that is at rest: what a restore reads, and a deletion before it removes it."""

from __future__ import annotations

from airflow_provider_ha.checkpoints.restore.planned_replays import planned_replays
from airflow_provider_ha.checkpoints.restore.recorded import LastDirectory
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.jobs.directories import working_directory
from airflow_provider_ha.jobs.model import Blob, Generation


def last_directory(source: JobContext, generation: Generation) -> LastDirectory:
    """Return the directory that *generation* names, with what its run was to execute again.

    :raises RecordCorruptError: The generation names anything but a working directory of the job.
    :raises StorageUnavailableError: Something could not be read.
    """
    key = working_directory(source.area, source.paths, generation)
    followed = generation.fallback.plan if generation.fallback is not None else _plan_of_run(source, generation.run)
    replayed = planned_replays(source.store, followed.sha256 if followed is not None else None)
    return LastDirectory(source.area, key, generation.epoch, generation.run, replayed)


def _plan_of_run(source: JobContext, run: int) -> Blob | None:
    return source.runs.get(run).run.start.plan if run in source.runs.numbers() else None
