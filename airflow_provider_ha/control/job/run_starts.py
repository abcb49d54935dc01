"""Where the runs of a job began: what a restore reads, and a deletion before it removes the runs."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ha.checkpoints.restore.planned_replays import common_batches
from airflow_provider_ha.checkpoints.restore.run_starts import RunStart
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.coordination.reads import Reads
from airflow_provider_ha.jobs.model import Generation, StartPoint


def run_starts(source: JobContext, generation: Generation, *, after: int = 0) -> dict[int, RunStart]:
    """Return run -> where it began, of the runs that may have worked.

    :param generation: The last working directory: no later run has had one, or given a sink anything.
    :param after: Run of a cut. Of the runs up to it only what their records say is read.
    :raises RecordCorruptError: A run cannot be read.
    :raises StorageUnavailableError: A restore plan could not be read.
    """
    numbers = [number for number in source.runs.numbers() if number <= generation.run]
    found = {}
    for number, run in source.runs.runs(numbers).items():
        common = _common(source, run.start, read=number > after)
        if common is not None:
            found[number] = RunStart(common, led=number > after and _was_led(source, number))
    return found


def _common(source: JobContext, start: StartPoint, *, read: bool) -> Mapping[str, int] | None:
    plan = start.plan_within(source.job_id)
    if plan is not None and start.common is None and not read:
        return None
    return common_batches(source.store, plan.sha256 if plan is not None else None, start.common)


def _was_led(source: JobContext, run: int) -> bool:
    attempts = (view.submission.attempt for view in source.runs.get(run).submissions)
    nodes = source.coordinator.read(Reads(tuple(source.paths.submission_led(run, each) for each in attempts))).nodes
    return any(node is not None for node in nodes.values())
