"""The supervisor's work for a run once every process of its driver is dead: carry out a cancel, then clean up.

Invariant: CANCELED is a statement about dead processes. A driver cannot make it about itself: until the driver exits,
its queries commit and ``foreachBatch`` functions are called. So a driver that receives a cancel only exits. Its
supervisor has the proof of death and, as the job's leader, writes the result, the answer and the removal of the graph
pointer in one transaction. For that it takes the lock, which raises the epoch (contract 1).

The clean-up follows the exit record and may be slow: only the next run of the job waits for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from airflow_provider_ha.checkpoints.retention.store import CheckpointStore
from airflow_provider_ha.checkpoints.working.open_work_area import open_work_area
from airflow_provider_ha.checkpoints.working.work_area import WorkArea
from airflow_provider_ha.coordination.election import Leadership, acquire
from airflow_provider_ha.coordination.records import read_record
from airflow_provider_ha.driver.housekeeping import Housekeeping
from airflow_provider_ha.driver.job_writer import JobWriter
from airflow_provider_ha.driver.lead import leader_info
from airflow_provider_ha.driver.queries import QueryRegistry
from airflow_provider_ha.errors import (
    HaError,
    JobStateError,
    LeadershipError,
    LeadershipUnavailableError,
    OutcomeUnknownError,
    RecordCorruptError,
)
from airflow_provider_ha.jobs import operations
from airflow_provider_ha.jobs.host.driver_spec import DriverSpec
from airflow_provider_ha.jobs.job_records import JobRecords
from airflow_provider_ha.jobs.model import Generation, JobState, QueryStatus, RunEnd, Status
from airflow_provider_ha.jobs.retention.earlier_life import has_earlier_life
from airflow_provider_ha.jobs.runs import RunStore
from airflow_provider_ha.supervisor.connection import connected


log = logging.getLogger(__name__)

LOCK_SECONDS = 5.0  # the dead driver's session has been ended: the lock is free, or another process leads


def carry_out_cancel(spec: DriverSpec, *, session_ended: bool) -> None:
    """Write the result CANCELED when a cancel of the run is open. Idempotent: an earlier write is found again.

    :param session_ended: Whether the dead driver's session has ended. If not, it may hold the lock until it expires,
        and the lock is awaited for that time.
    :raises HaError: A retryable error only: try again. Errors that no retry resolves are logged and left to the next
        leader.
    """
    try:
        with connected(spec) as job:
            _cancel(spec, job, LOCK_SECONDS + (0.0 if session_ended else job.config.timings.session_timeout))
    except LeadershipError as error:
        raise OutcomeUnknownError(
            f"the cancel of run {spec.run} took longer than the lease: {error.message}"
        ) from error
    except HaError as error:
        if error.retryable:
            raise
        log.exception("the cancel of run %d could not be carried out; it stays open for the next leader", spec.run)


def clean_up(spec: DriverSpec, *, on_lost: Callable[[str], Any]) -> None:
    """Remove the remains of a run whose result is DIRTY. Items that resist removal are left to the job's next leader.

    :param on_lost: Called from another thread when the lock is lost in the meantime; ends the process to stop all
        removal.
    """
    try:
        with connected(spec) as job:
            _clean(spec, job, on_lost)
    except HaError as error:
        log.warning("run %d is not cleaned up; the next leader does it: %s", spec.run, error)


def _cancel(spec: DriverSpec, job: JobRecords, timeout: float) -> None:
    if not operations.open_cancels(job.coordinator, job.paths, spec.run):
        return
    runs = job.runs
    try:
        with _lock(spec, job, timeout=timeout, admit=lambda: _require_live(runs, spec.run)) as leadership:
            _require_live(runs, spec.run)  # another leader may have ended the run between the check and the grant
            _write_canceled(spec, job, leadership)
    except (JobStateError, LeadershipUnavailableError) as error:
        log.info("the cancel of run %d is left to the current leader of the job: %s", spec.run, error)


def _write_canceled(spec: DriverSpec, job: JobRecords, leadership: Leadership) -> None:
    newest = _checkpoints(job, open_work_area(job.config, job.roots)).latest_number()
    cancels = operations.open_cancels(job.coordinator, job.paths, spec.run)
    end = RunEnd.of(cancels[0], {"checkpoint": newest}) if cancels else None
    writer = JobWriter(
        coordinator=job.coordinator,
        paths=job.paths,
        graphs=job.graphs,
        journal=job.journal,
        leadership=leadership,
        registry=QueryRegistry(job.clock),
        run=spec.run,
        clock=job.clock,
    )
    writer.end(
        JobState.CANCELED,
        reason="canceled",
        checkpoint=newest,
        end=end,
        queries=_last_queries(job),
    )


def _last_queries(job: JobRecords) -> Mapping[str, QueryStatus] | None:
    try:
        last = read_record(job.coordinator, job.paths.status, Status)
    except RecordCorruptError:
        return None  # superseded by a newer submission
    return None if last is None else last[0].queries


def _clean(spec: DriverSpec, job: JobRecords, on_lost: Callable[[str], Any]) -> None:
    runs = job.runs
    result, generation = runs.result(spec.run), read_record(job.coordinator, job.paths.generation, Generation)
    if result is None or result.cleanup == "CLEAN" or generation is None:
        return
    area = open_work_area(job.config, job.roots)
    checkpoints = _checkpoints(job, area)
    with _lock(spec, job, timeout=0.0) as leadership:
        if max(runs.numbers()) != spec.run:  # guard: clean-up-beside-a-newer-run
            return  # a newer run may read this run's remains: its leader cleans up
        leadership.start_heartbeats(on_lost)
        earlier = partial(has_earlier_life, job.coordinator, job.paths, job.journal)
        Housekeeping(runs, leadership, checkpoints, area, generation[0].directory, earlier).finish(spec.run)


def _checkpoints(job: JobRecords, area: WorkArea) -> CheckpointStore:
    return CheckpointStore(job.coordinator, job.store, job.paths, job.keys, area, clock=job.clock)


def _lock(spec: DriverSpec, job: JobRecords, *, timeout: float, admit: Callable[[], None] | None = None) -> Leadership:
    return acquire(
        job.coordinator,
        job.paths,
        timings=job.config.timings,
        clock=job.clock,
        describe=lambda epoch: leader_info(spec, epoch, job.clock).to_bytes(),
        timeout=timeout,
        admit=admit,
    )


def _require_live(runs: RunStore, run: int) -> None:
    if (result := runs.result(run)) is not None:
        raise JobStateError(f"run {run} is {result.state.value} already")
