"""Cleaning up after runs that are over and whose driver is gone: as the job's leader, pointer first, files second.

A driver cleans up after itself, and after what earlier ones left (``driver.housekeeping``). What is left here are jobs
that no driver will come for: a run that was ended without one, or whose driver died between its result and CLEAN.
"""

from __future__ import annotations

import logging

from airflow_provider_ha.checkpoints.retention.store import CheckpointStore
from airflow_provider_ha.checkpoints.retention.working_directories import superfluous_directories
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.control.job.past import clear_past, past_runs
from airflow_provider_ha.control.job.stores import checkpoint_store
from airflow_provider_ha.errors import JobStateError, RecordCorruptError
from airflow_provider_ha.jobs.directories import working_directory
from airflow_provider_ha.jobs.retention.earlier_life import has_earlier_life
from airflow_provider_ha.recovery.conclude import take_lock


log = logging.getLogger(__name__)
_PAST_SECONDS = 30.0  # for one job at a time: others wait for this thread


def has_past_runs(job: JobContext) -> bool:
    """Whether a job that is over has runs that can go. What cannot be read says nothing, and nothing goes then."""
    try:
        return next(past_runs(job).find(), None) is not None
    except RecordCorruptError as error:
        log.warning("the past runs of %s stay: %s", job.job_id, error)
        return False


def clean_up(job: JobContext) -> tuple[int, ...]:
    """Remove what runs that are over have left, and mark their results CLEAN; returns their numbers.

    Runs that are long over go as well, as many as half a minute allows.

    Repeatable: what stops it in between leaves the results DIRTY, for the next call.

    :raises JobStateError: The newest run has no result: nothing is cleaned up then.
    :raises LeadershipUnavailableError: Another process leads the job.
    :raises LeadershipLostError: It took longer than the lease; the next call goes on.
    """
    run = _ended(job)
    with take_lock(job, run, admit=lambda: _require_ended(job, run)) as leadership:
        _require_ended(job, run)  # a newer run may have been made between the first look and the grant
        pointer = job.graphs.remove_op(run, alone=True)  # guard: clean-ups-remove-the-pointer-of-a-newer-run
        if pointer is not None:
            log.warning("job %s: a graph pointer of an ended run is removed; run %d is not run again", job.job_id, run)
            leadership.commit(pointer)  # guard: pointer-first
        checkpoints = checkpoint_store(job)  # guard: clean-last
        checkpoints.shutdown(leadership, terminal=True)  # the retained ones stay; what is listed for deletion goes
        for key in _superfluous(job, checkpoints):
            # guard: cleanup-prove
            leadership.prove()  # a former leader removes nothing
            log.info("working directory %s is removed", key)
            job.area.remove(key)
        numbers = [number for number, result in job.runs.results().items() if result.cleanup == "DIRTY"]
        dirty = {number: mark for number in numbers if (mark := job.runs.clean_op(number)) is not None}
        if dirty:
            leadership.commit(*dirty.values())
    _remove_past(job, run)
    return tuple(dirty)


def _remove_past(job: JobContext, run: int) -> None:
    until = job.clock.lease_time() + _PAST_SECONDS
    try:
        for _ in clear_past(job, run):
            if job.clock.lease_time() >= until:
                return
    except RecordCorruptError as error:
        log.warning("the past runs of %s stay: %s", job.job_id, error)


def _superfluous(job: JobContext, checkpoints: CheckpointStore) -> list[str]:
    generation = job.snapshot().generation
    if generation is None or has_earlier_life(job.coordinator, job.paths, job.journal):
        return []
    current = working_directory(job.area, job.paths, generation)  # what lies beside it is removed: it has to be ours
    return superfluous_directories(checkpoints, job.area, current, drains_after=job.runs.drains_after())


def _ended(job: JobContext) -> int:
    numbers = job.runs.numbers()
    if not numbers:
        raise JobStateError(f"job {job.job_id!r} has no run", next_step="Nothing needs to be done")
    _require_ended(job, numbers[-1])
    return numbers[-1]


def _require_ended(job: JobContext, run: int) -> None:
    newest = job.runs.numbers()[-1]
    if newest != run or job.runs.result(run) is None:  # guard: dirty-first
        raise JobStateError(
            f"run {newest} of job {job.job_id!r} is not over", next_step="Nothing is cleaned up while a run is live"
        )
