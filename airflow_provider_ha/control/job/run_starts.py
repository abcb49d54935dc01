"""Where the runs of a job began: what a restore reads, and a deletion before it removes the runs."""

from __future__ import annotations

from airflow_provider_ha.checkpoints.restore.run_starts import RunStart
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.coordination.reads import Reads
from airflow_provider_ha.jobs.model import Generation


def run_starts(source: JobContext, generation: Generation, *, after: int = 0) -> dict[int, RunStart]:
    """Return run -> where it began, of the runs that may have worked.

    :param generation: The last working directory: no later run has had one, or given a sink anything.
    :param after: Run of a cut: only of later runs is it read whether a driver has led them.
    :raises RecordCorruptError: A run cannot be read.
    """
    numbers = [number for number in source.runs.numbers() if number <= generation.run]
    return {
        number: RunStart(run.start.common_within(source.job_id), led=number > after and _was_led(source, number))
        for number, run in source.runs.runs(numbers).items()
    }


def _was_led(source: JobContext, run: int) -> bool:
    attempts = (view.submission.attempt for view in source.runs.get(run).submissions)
    nodes = source.coordinator.read(Reads(tuple(source.paths.submission_led(run, each) for each in attempts))).nodes
    return any(node is not None for node in nodes.values())
