"""Restart in place: claim of the next attempt by the supervisor of a lost driver, in the same process.

The supervisor has the proof of death, the graph and the spec, so recovery from the loss of a driver needs neither
Airflow nor a cluster leader. Airflow tasks and the cluster leader recover runs that lost their host, and compete with a
waiting supervisor: the claim decides (contract 9).

Invariants:

- If the restart strategy sets no delay, exit and next submission are one transaction: no other process sees an
  unhandled loss.
- If it sets a delay, the exit is written first and the delay passes before the claim. A cancel, a stop or a new run
  that comes during the delay ends the run or takes it over, and the claim fails (``jobs.recovery.transactions``).
- No claim follows an open cancel: the claim itself checks for one.
- A supervisor that received SIGTERM restarts nothing: its host is shutting down.
- Only the newest attempt of the newest run is restarted, and only by its own supervisor.

The host may be the reason that a driver does not start. When it lacks a file or program that another host had, or a
restart in place was lost before the job was RUNNING, other hosts get the first turn: the supervisor claims some seconds
after the delay, if no other process has. A standby driver that is ready gets the first turn, too.

``exec`` keeps the process id, so the engine and the operator of the host find one supervisor. The new program is the
version installed at that moment, and shares no thread, lock or secret in memory with the old one. Signals are blocked
during the change: the new program obeys a signal that arrives in that time.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace

from airflow_provider_ha.coordination.coordinator import Create
from airflow_provider_ha.errors import CoordinationError, HaError, JobStateError, LeadershipUnavailableError
from airflow_provider_ha.host.process_tree import END_SIGNALS
from airflow_provider_ha.host.supervisor.one_driver import connected
from airflow_provider_ha.jobs.condition import decide
from airflow_provider_ha.jobs.drivers.driver_spec import (
    OWNER_ONLY,
    SUBMISSION_VARIABLE,
    SUPERVISOR_MODULE,
    DriverSpec,
)
from airflow_provider_ha.jobs.job_records import JobRecords
from airflow_provider_ha.jobs.model import Operation
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.recovery.restart_policy import GiveUp, RestartDecision, Resubmit
from airflow_provider_ha.jobs.recovery.transactions import (
    claim,
    conclude_canceled,
    conclude_given_up,
    new_submission,
    note_not_launched,
    note_started,
)
from airflow_provider_ha.jobs.runs.standbys import TURN_SECONDS, StandbyStore
from airflow_provider_ha.jobs.runs.submissions import Submission, SubmissionExit
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.storage.durable import make_directories
from airflow_provider_ha.storage.outage import is_outage


log = logging.getLogger("airflow_provider_ha.host.supervisor")

BY = "the supervisor of the lost driver"
FIRST_TURN_SECONDS = 5.0  # seconds of head start for other hosts: a task needs one or two to resume
_CLOSE_POLL_SECONDS = 0.2  # seconds: while others have their turn
POLL_SECONDS = 1.0  # seconds: longest pause between two checks of a run that waits for its next attempt
GIVE_UP_SECONDS = 24 * 3600.0  # seconds of an outage of ZooKeeper or storage before the loss is left to others


class RestartInPlace:
    """Next attempt of a lost submission. Stores its claim, so that the claim can be repeated.

    :param spec: Lost submission.
    """

    def __init__(self, spec: DriverSpec) -> None:
        self._spec = spec
        self._wanted: Submission | None = None
        self._options: HaOptions | None = None
        self._due: float | None = None

    def claim_with_exit(self, job: JobRecords, record: SubmissionExit) -> Submission | None:
        """Write the exit and claim the next attempt in one transaction; return ``None`` if the exit must come alone.

        :param record: Exit of the lost submission.
        :raises CoordinationError: The outcome is unknown: call again.
        """
        exit_of_lost = Create(job.paths.submission_exit(self._spec.run, self._spec.attempt), record.to_bytes())
        try:
            if self._wanted is None:
                seen = with_exit(job.snapshot(), self._spec, record)
                decision = None if seen is None else self._decide(job, seen)
                if seen is None or not isinstance(decision, Resubmit) or decision.after > 0:
                    return None
                if self._head_start(job, seen) > 0:
                    return None
                self._want(job, seen, decision)
            return self._claim(job, exit_of_lost)
        except HaError as error:
            if error.retryable and isinstance(error, CoordinationError):
                raise
            log.warning("no restart together with the exit: %s", error)
            return None

    def await_turn(self, *, stopped: Callable[[], bool]) -> Submission | None:
        """Wait for the delay of the restart strategy, then claim the next attempt.

        Ends the run if the strategy gives it up, or if a cancel is open.

        :param stopped: Returns whether the supervisor has received a request to end.
        :returns: ``None`` if this supervisor has no attempt left to start.
        """
        end = time.monotonic() + GIVE_UP_SECONDS
        while not stopped() and time.monotonic() < end:
            try:
                with connected(self._spec) as job:
                    return self._await_turn(job, stopped)
            except HaError as error:  # noqa: PERF203  # a retry is a try in a loop
                if not error.retryable:
                    log.exception("the run is not started again here")
                    return None
                log.warning("the run cannot be started again yet: %s", error)
                time.sleep(POLL_SECONDS)
        return None

    def _await_turn(self, job: JobRecords, stopped: Callable[[], bool]) -> Submission | None:
        if self._wanted is not None and (made := self._claim(job)) is not None:  # an answer was lost
            return made
        while not stopped():
            snapshot = job.snapshot()
            if not is_newest(snapshot, self._spec):
                return None
            decision = self._decide(job, snapshot)
            if not isinstance(decision, GiveUp | Resubmit):
                return None
            left = decision.after if isinstance(decision, Resubmit) else 0.0
            if left > 0:
                time.sleep(min(left, POLL_SECONDS))
            elif isinstance(decision, GiveUp):
                _conclude(job, decision)
            elif canceled := operations.open_cancels(job.coordinator, job.paths, self._spec.run):
                _conclude(job, canceled[0])
            elif (left := self._first_turn_left(job, snapshot)) > 0:
                time.sleep(min(left, _CLOSE_POLL_SECONDS))
            else:
                self._want(job, snapshot, decision)
                if (made := self._claim(job)) is not None:
                    return made
        return None

    def _decide(self, job: JobRecords, snapshot: JobStatus) -> RestartDecision | None:
        """Return the decision of the restart strategy; ``None`` if no driver is lost, or others restart the job."""
        if self._options is None:  # options of a blob that never changes
            self._options = job.graph(self._spec.ticket.graph).options
        if not self._options.restart_in_place:
            return None
        return decide(snapshot, self._options, job.clock.now()).restart

    def _first_turn_left(self, job: JobRecords, snapshot: JobStatus) -> float:
        """Return the seconds of head start that others still have on the due attempt."""
        now = time.monotonic()
        self._due = now if self._due is None else self._due
        return self._due + self._head_start(job, snapshot) - now

    def _head_start(self, job: JobRecords, snapshot: JobStatus) -> float:
        """Return the seconds that other hosts, or a standby driver that is ready, have for the due attempt."""
        if leaves_first_turn(snapshot):
            return FIRST_TURN_SECONDS
        if self._options is None or not self._options.standby_drivers:
            return 0.0
        standbys = StandbyStore(job.coordinator, job.paths, self._spec.run)
        return TURN_SECONDS if standbys.is_ready() else 0.0  # guard: supervisor-races-its-standby

    def _want(self, job: JobRecords, snapshot: JobStatus, decision: Resubmit) -> None:
        lost = snapshot.run.newest if snapshot.run is not None else None
        assert lost is not None, "only a submission that was lost is followed by another"  # noqa: S101  # as above
        log.info("run %d of %s is to be started again in place: %s", self._spec.run, self._spec.job_id, decision)
        self._wanted = new_submission(
            job, decision.attempt, by=BY, engine=lost.submission.engine, lost_epoch=decision.lost_epoch
        )

    def _claim(self, job: JobRecords, *also: Create) -> Submission | None:
        assert self._wanted is not None, "an attempt is chosen before it is claimed"  # noqa: S101  # as above
        return self._wanted if claim(job, self._spec.run, self._wanted, also=also) else None


def _conclude(job: JobRecords, because: GiveUp | Operation) -> None:
    """End the run, or wait a moment: the session of the dead driver may not have expired yet."""
    try:
        if isinstance(because, GiveUp):
            conclude_given_up(job, because, by=BY)
        else:
            conclude_canceled(job, because, by=BY)
    except (JobStateError, LeadershipUnavailableError) as error:
        log.info("the run does not end yet: %s", error)
        time.sleep(POLL_SECONDS)


def with_exit(snapshot: JobStatus, spec: DriverSpec, record: SubmissionExit) -> JobStatus | None:
    """Return the job as it is once the exit is written; ``None`` if the submission is not the newest one. Pure."""
    if not is_newest(snapshot, spec) or snapshot.run is None or snapshot.run.newest is None:
        return None
    ended = replace(snapshot.run.newest, exit=record)
    return replace(snapshot, run=replace(snapshot.run, submissions=(*snapshot.run.submissions[:-1], ended)))


def leaves_first_turn(snapshot: JobStatus) -> bool:
    """Return whether other hosts get the first turn: this host is unfit, or the job never ran on it. Pure."""
    lost = snapshot.run.newest if snapshot.run is not None else None
    if lost is None or lost.exit is None:
        return False
    if lost.exit.unfit:
        return True
    return lost.submission.requested_by.startswith(BY) and not lost.exit.ran


def is_newest(snapshot: JobStatus, spec: DriverSpec) -> bool:
    """Return whether the submission is the newest of the newest run, and that run has no result. Pure."""
    run = snapshot.run
    if run is None or run.newest is None or run.result is not None:
        return False
    return (run.run.number, run.newest.submission.submission_id) == (spec.run, spec.submission_id)


def follow(
    restart: RestartInPlace, spec: DriverSpec, claimed: Submission | None, *, stopped: Callable[[], bool]
) -> None:
    """Become the supervisor of the next attempt; return if this process has no attempt left to start.

    :param restart: Restart of the lost submission.
    :param spec: Lost submission.
    :param claimed: Next attempt, if it is claimed already.
    :param stopped: Returns whether this supervisor has received a request to end.
    """
    while True:
        claimed = claimed or restart.await_turn(stopped=stopped)
        if claimed is None:
            return
        spec = spec.of_next(claimed.attempt, claimed.submission_id)
        try:
            if stopped():
                _close(spec, "the supervisor received a request to end before it started the driver", outage=True)
                return
            become(spec, claimed)
        except (HaError, OSError) as error:
            log.exception("attempt %d could not be started", spec.attempt)
            outage = error.retryable if isinstance(error, HaError) else is_outage(error)
            spec.forget()
            if not _close(spec, f"it could not be launched: {error}", outage=outage):
                return
        restart, claimed = RestartInPlace(spec), None


def become(spec: DriverSpec, submission: Submission | None) -> None:
    """Turn this process into the supervisor of *submission*, ``None`` for a standby driver. Does not return.

    :raises OSError, HaError: The change failed; this process continues unchanged.
    """
    make_directories(spec.home.directory)
    spec.write()
    if submission is not None:
        with connected(spec) as job:
            note_started(job, spec.run, submission, spec.handle)
    log.info("this process continues as the supervisor of %s", spec.directory.name)
    output = os.open(spec.home.supervisor_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, OWNER_ONLY)
    os.chdir(spec.home.directory)
    signal.pthread_sigmask(signal.SIG_BLOCK, END_SIGNALS)
    try:
        for stream in (1, 2):
            os.dup2(output, stream)
        environment = os.environ | {SUBMISSION_VARIABLE: spec.submission_id}
        os.execve(sys.executable, [sys.executable, "-m", SUPERVISOR_MODULE, str(spec.home.spec)], environment)  # noqa: S606  # no shell
    finally:  # the new program could not be started
        os.close(output)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, END_SIGNALS)


def _close(spec: DriverSpec, reason: str, *, outage: bool) -> bool:
    """Write the exit of a submission without a driver; return whether it is written."""
    try:
        with connected(spec) as job:
            note_not_launched(job, spec.run, spec.attempt, reason, outage=outage)
    except HaError:
        log.exception("the exit of attempt %d could not be written: the next caller takes it for overdue", spec.attempt)
        return False
    return True
