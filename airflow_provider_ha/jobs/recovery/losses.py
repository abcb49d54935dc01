"""Losses of a run: last failure, next attempt, and the phases of each recovery. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from itertools import pairwise

from airflow_provider_ha.jobs.drivers.driver_log import printed_place
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.recovery.restart_policy import failures_in_a_row, repeated_failure, without_a_word
from airflow_provider_ha.jobs.runs.run_store import RunView, SubmissionView
from airflow_provider_ha.jobs.runs.submissions import STALLED, EarlierFailures, FailureKind, LastFailure
from airflow_provider_ha.jobs.status import JobStatus, RunDepth


_ENDED = (JobState.LOST, JobState.FAILED)


class RestartReason(str, Enum):
    """Why a driver had to be started again."""

    APPLICATION = "application"  # an error of the script, or of a query as the script wrote it
    OUTAGE = "outage"  # of storage, a connection, memory, an executor, a broker or ZooKeeper
    STALLED = "stalled"  # it committed nothing although it should have
    UNFIT = "unfit"  # its host lacks something that another one had
    KILLED = "killed"  # its processes are dead, and it reported nothing
    HANDED_OVER = "handed over"  # a person asked for it
    HOST = "host"  # its death is not proven: its host, or its supervisor, is gone
    OTHER = "other"


def restart_reason(lost: SubmissionView) -> RestartReason:
    """Return why the submission after *lost* was made."""
    left = lost.exit
    if left is None:
        return RestartReason.HOST
    if left.handed_over or left.unfit:
        return RestartReason.HANDED_OVER if left.handed_over else RestartReason.UNFIT
    if left.met_outage:
        return RestartReason.OUTAGE
    if left.failure is None:
        return RestartReason.OTHER if left.decision else RestartReason.KILLED
    if left.failure.error_class == STALLED:
        return RestartReason.STALLED
    return RestartReason.APPLICATION if left.failure.kind is FailureKind.APPLICATION else RestartReason.OTHER


def restarts_since(submissions: Iterable[SubmissionView], since: datetime) -> Mapping[RestartReason, int]:
    """Return the number of re-submissions of a run since a moment, for every reason, including those with 0."""
    found = dict.fromkeys(RestartReason, 0)
    for lost, again in pairwise(submissions):
        if again.submission.created_at >= since:
            found[restart_reason(lost)] += 1
    return found


@dataclass(frozen=True, slots=True)
class RecoveryTimes:
    """The moments of a recovery; ``None`` if unknown, or still to come.

    :param alive_at: Last sign of life of the lost leader: its last heartbeat.
    :param dead_at: Time of the proof that all its processes are dead.
    :param submitted_at: Time of the next submission.
    :param led_at: Time at which that one became the leader.
    :param bound_at: Time at which its working directory was current: the lost epoch is fenced, its files are forked.
    :param started_at: Time at which the script had started a query.
    :param committed_at: Time at which it committed its first batch.
    """

    alive_at: datetime | None
    dead_at: datetime | None
    submitted_at: datetime
    led_at: datetime
    bound_at: datetime | None
    started_at: datetime | None
    committed_at: datetime | None

    @property
    def phases(self) -> Mapping[str, float]:
        """Phase -> seconds. Without a proof of death ``submit`` begins with the last sign of life."""
        steps = (
            ("detect", self.alive_at, self.dead_at),
            ("submit", self.dead_at or self.alive_at, self.submitted_at),
            ("lead", self.submitted_at, self.led_at),
            ("bind", self.led_at, self.bound_at),
            ("start", self.bound_at, self.started_at),
            ("commit", self.started_at, self.committed_at),
            ("total", self.alive_at or self.dead_at, self.committed_at),
        )
        return {
            # The moments come from several hosts, whose clocks differ.
            name: max(0.0, (end - begin) / timedelta(seconds=1))
            for name, begin, end in steps
            if begin is not None and end is not None
        }


def last_failure(snapshot: JobStatus[RunDepth], options: HaOptions, *, now: datetime) -> LastFailure | None:
    """Return how a job's newest lost attempt ended; ``None`` if it has lost none.

    If the newest run has lost no attempt, this is the end of the previous run, provided that it failed.

    If reading the run's options would cost an access to storage, the job's default options are used.
    """
    run, leader = snapshot.run, snapshot.leader
    if run is None:
        return None
    over = run.result is not None and run.result.state is not JobState.FAILED
    found = failure_of(
        run.submissions,
        options,
        now,
        lost=not over and run.newest is not None and (run.newest.exit is not None or snapshot.state in _ENDED),
        led_since=leader.since if leader is not None and leader.run == run.run.number else None,
        before=run.run.failures if not over else None,
    )
    return replace(found, in_a_row=0) if found is not None and over else found


def failure_of(
    submissions: tuple[SubmissionView, ...],
    options: HaOptions,
    now: datetime,
    *,
    lost: bool,
    led_since: datetime | None,
    before: EarlierFailures | None = None,
) -> LastFailure | None:
    """Return how a run's newest lost attempt ended; ``None`` if it has lost none.

    List, page, command, task and alerts share this rule: a failure counts even when it ended its run.

    :param submissions: The newest ones, or all, ascending.
    :param lost: Whether the newest one has ended.
    :param led_since: Start of its leadership; ``None`` when it does not lead.
    :param before: The failures of the runs before it.
    """
    over = submissions if lost else submissions[:-1]
    ended = tuple(view for view in over if view.exit is None or not view.exit.handed_over)
    count = before.count if before is not None else 0
    row = failures_in_a_row(submissions, options, now, lost=lost, led_since=led_since, before=count)
    if not ended:
        return _of_earlier_run(before, row) if before is not None and row else None
    view, repeated = ended[-1], repeated_failure(ended, options)
    return LastFailure(
        attempt=view.submission.attempt,
        at=view.exit.at if view.exit is not None else None,
        reason=view.exit.reason if view.exit is not None else without_a_word(view),
        failure=view.exit.failure if view.exit is not None else None,
        times=repeated.count if repeated is not None else 0,
        since=repeated.since if repeated is not None else None,
        in_a_row=row,
        log=_log(view),
    )


def _of_earlier_run(before: EarlierFailures, in_a_row: int) -> LastFailure:
    return LastFailure(
        run=before.run,
        attempt=before.attempt,
        at=before.at,
        reason=before.reason,
        failure=None,
        times=0,
        since=None,
        in_a_row=in_a_row,
        log=before.log,
    )


def failures_before(run: RunView | None) -> EarlierFailures | None:
    """Return the failures in a row for the run after *run*; ``None`` if *run* did not fail. Pure."""
    if run is None or run.result is None or run.result.state is not JobState.FAILED:
        return None
    at, before = run.result.at, run.run.failures
    found = failure_of(run.submissions, HaOptions(), at, lost=True, led_since=None, before=before)
    return EarlierFailures(
        count=max(found.in_a_row if found is not None else 0, 1),
        run=run.run.number,
        attempt=attempts_of(run),
        at=at,
        reason=found.message if found is not None and found.run is None else run.result.reason.partition("\n")[0],
        log=found.log if found is not None and found.run is None else "",
    )


def attempts_of(run: RunView | None) -> int:
    """Return how often a run was submitted."""
    return run.newest.submission.attempt if run is not None and run.newest is not None else 0


def _log(view: SubmissionView) -> str:
    if view.started is not None:
        return view.started.handle.log_path or printed_place(view)
    return view.exit.log if view.exit is not None else ""
