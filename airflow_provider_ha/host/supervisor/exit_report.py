"""Report of a driver's death and its consequences: end of the session, open cancel, exit, clean-up.

The order matters (design, contract 10): first the dead session ends, then an open cancel is carried out, then the exit
is written, with the claim of the next attempt if that is due (``supervisor.in_place``). A reader of the exit takes over
the job, and must not find the dead driver's session as its leader. The clean-up follows the exit and may be slow,
because only the next run of the job waits for it.

Invariant: CANCELED is a statement about dead processes. A driver cannot make it about itself: until the driver exits,
its queries commit and ``foreachBatch`` functions are called. So a driver that receives a cancel only exits. Its
supervisor has the proof of death and, as the job's leader, writes the result, the answer and the removal of the graph
pointer in one transaction. For that it takes the lock, which raises the epoch (contract 1).
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from airflow_provider_ha.checkpoints.areas.open_work_area import open_work_area
from airflow_provider_ha.checkpoints.areas.work_area import WorkArea
from airflow_provider_ha.checkpoints.store.checkpoint_store import CheckpointStore
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.coordination.election import acquire
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.raw_socket import close_session
from airflow_provider_ha.coordination.znode_records import create_once, read_record
from airflow_provider_ha.driver.ending.exit_reason import ExitCode, read_code, read_details, read_failure
from airflow_provider_ha.driver.members.driver_session import leader_info
from airflow_provider_ha.driver.members.housekeeping import Housekeeping
from airflow_provider_ha.driver.members.run_writer import JobWriter
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry
from airflow_provider_ha.errors import (
    HaError,
    JobStateError,
    LeadershipError,
    LeadershipUnavailableError,
    LogMissingError,
    OutcomeUnknownError,
    RecordCorruptError,
)
from airflow_provider_ha.host.process_tree import Death
from airflow_provider_ha.host.supervisor.in_place import RestartInPlace
from airflow_provider_ha.host.supervisor.one_driver import connected
from airflow_provider_ha.jobs.drivers.driver_log import last_lines
from airflow_provider_ha.jobs.drivers.driver_spec import DriverSpec, read_secrets, read_session
from airflow_provider_ha.jobs.job_records import JobRecords
from airflow_provider_ha.jobs.model import Generation, JobState, QueryStatus, RunEnd, Status
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.recovery.transactions import judged
from airflow_provider_ha.jobs.runs.journal import has_earlier_life
from airflow_provider_ha.jobs.runs.run_store import RunStore
from airflow_provider_ha.jobs.runs.submissions import MESSAGE_LIMIT, Failure, FailureKind, Submission, SubmissionExit
from airflow_provider_ha.redaction import public, remember


log = logging.getLogger("airflow_provider_ha.host.supervisor")

LOCK_SECONDS = 5.0  # after the end of the dead driver's session the lock is free, or another process leads


def carry_out_cancel(spec: DriverSpec, *, session_ended: bool) -> None:
    """Write the result CANCELED if a cancel of the run is open. Idempotent: an earlier write is found again.

    :param session_ended: The dead driver's session has ended. Otherwise it may hold the lock until it expires, and the
        lock is awaited for that time.
    :raises HaError: Only a retryable error: try again. Errors that no retry resolves are logged and left to the next
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


def clean_up_run(spec: DriverSpec, *, on_lost: Callable[[str], Any]) -> None:
    """Remove the remains of a run whose result is DIRTY; the job's next leader removes items that resist.

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


_LOGGED = re.compile(
    r"\d{2,4}[-/]\d\d[-/]\d\d[ T]\d\d:|WARNING: Using incubator|Using Spark's default log4j|Setting default log level"
    r"|To adjust logging level|\S+:\d+: \w*Warning: |warnings\.warn\("
)
_WORDS = 3  # lines of the log
REPORT_SECONDS = 24 * 3600.0  # seconds to try to write the exit during an outage of ZooKeeper


@dataclass(frozen=True, slots=True)
class ExitReport:
    """Exit that is written.

    :param claimed: Next attempt of the run, claimed in the same transaction for this supervisor.
    """

    claimed: Submission | None = None


def report(
    spec: DriverSpec, death: Death, *, restart: RestartInPlace | None, stopped: Callable[[], bool]
) -> ExitReport | None:
    """End the dead session, then write the exit, together with the next attempt if that is due immediately.

    A request to stop ends the tries while ZooKeeper does not answer: all processes are dead, and the session expires.

    :param restart: Restart of the run; ``None`` if this supervisor does not restart it.
    :param stopped: Returns whether the supervisor has received a request to stop.
    :returns: ``None`` if the exit could not be written.
    """
    end = time.monotonic() + REPORT_SECONDS
    pause = 0.2
    while True:
        try:
            ended = end_session(spec)  # guard: exit-before-the-session-ends
            carry_out_cancel(spec, session_ended=ended)
            reported = _write_exit(spec, death, restart)
        except HaError as error:  # noqa: PERF203  # a retry is a try in a loop
            if not error.retryable or stopped() or time.monotonic() > end:
                log.exception("the exit of the submission could not be written")
                return None
            log.warning("ZooKeeper does not answer, trying again in %.1f s: %s", pause, error)
            time.sleep(pause)
            pause = min(pause * 2, 5.0)
        else:
            spec.home.session.unlink(missing_ok=True)
            return reported


def clean_up(spec: DriverSpec) -> None:
    """Clean up after a finished run; end the process when another one leads the job."""
    clean_up_run(spec, on_lost=_give_up)


def _give_up(reason: str) -> None:
    """Exit immediately, because another process leads the job and this one must not remove anything more."""
    log.warning("the clean-up ends: %s", reason)
    os._exit(0)


def end_session(spec: DriverSpec) -> bool:
    """Return whether the dead driver's session is known to have ended; if not, it holds the lock until it expires."""
    credentials = read_session(spec.home.session)
    if credentials is None:
        return True
    closed = close_session(spec.config, credentials)
    log.info("session 0x%x of the dead driver: %s", credentials.session_id, "ended" if closed else "not ended")
    return closed


def _write_exit(spec: DriverSpec, death: Death, restart: RestartInPlace | None) -> ExitReport:
    reported, said = read_failure(spec.home.directory), read_code(spec.home.directory)
    killed = _jvm_was_killed(death, said)
    told = f"{reported} ({death.reason})" if reported and not killed else death.reason
    reason = public(told)
    unfit = death.unfit or said == ExitCode.UNFIT
    record = SubmissionExit(
        code=death.code,
        pids=death.pids,
        reason=reason,
        log=str(spec.home.driver_log),
        outage=death.outage or said == ExitCode.OUTAGE,
        failure=None if killed else _failure(spec, reported, death),
        decision=public(reported or "") if said == ExitCode.DECISION_NEEDED else "",
        last_lines=_last_lines(spec),
        ran=spec.home.running.exists(),
        started=spec.home.started.exists(),
        committed=spec.home.committed.exists(),
        times=spec.home.start_times(),
        handed_over=said == ExitCode.HANDED_OVER,
        state_restores=spec.home.read_state_restores(),
        at=SystemClock().now(),
    )
    with connected(spec) as job:
        if death.refused or unfit:
            record = record.model_copy(update=judged(job, spec.run, reason, refused=death.refused))
        claimed = None if restart is None else restart.claim_with_exit(job, record)
        if claimed is None:
            create_once(job.coordinator, job.paths.submission_exit(spec.run, spec.attempt), record)
    return ExitReport(claimed)


def _jvm_was_killed(death: Death, said: int | None) -> bool:
    """Return whether the JVM was killed before its driver could end, so that the driver's report is only a consequence.

    A driver that loses its leadership kills its JVM itself.
    """
    return death.signal is not None and said != ExitCode.LEADERSHIP_LOST


def _failure(spec: DriverSpec, reason: str | None, death: Death) -> Failure | None:
    """Return the failure that the driver reported. A driver that lost its leadership has met an outage of ZooKeeper.

    The last output of spark-submit or of the script is in the log only.
    """
    if read_code(spec.home.directory) == ExitCode.LEADERSHIP_LOST:
        said = public(reason or "").partition("\n")[0][:MESSAGE_LIMIT]
        return Failure(kind=FailureKind.OUTAGE, error_class=ExitCode.LEADERSHIP_LOST.name, message=said)
    found = read_details(spec.home.directory)
    if found is not None and found.error_class == SystemExit.__name__:
        return _with_words(found, spec)
    if found is None and reason is None and death.jvm and not spec.home.driver_pid.exists():
        return _with_words(Failure(error_class="spark-submit", message=f"exit status {death.jvm}", batches={}), spec)
    return found


def _with_words(failure: Failure, spec: DriverSpec) -> Failure:
    """Return a failure with the last lines of the log that no logger wrote: usage of the script, advice of a shell."""
    lines = [line.strip() for line in _last_lines(spec).splitlines() if line.strip() and not _LOGGED.match(line)]
    said = " | ".join(lines[-_WORDS:])
    message = f"{failure.message}: {said}" if said else failure.message
    return failure.model_copy(update={"message": message[:MESSAGE_LIMIT]})


def _last_lines(spec: DriverSpec) -> str:
    remember(read_secrets(spec.home.script_secrets))
    try:
        return last_lines(spec.home.driver_log)
    except (OSError, LogMissingError):
        return ""  # the driver was never started, or its disk fails; the exit is more important
