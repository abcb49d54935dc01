"""Wait in a shell for a run to be up or over, and resubmit a lost driver in that time."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from enum import Enum

from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, stop_never, wait_exponential

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.control.job_client import JobClient
from airflow_provider_ha.errors import (
    DecisionNeededError,
    HaError,
    JobStateError,
    LeadershipError,
    OutcomeUnknownError,
)
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.ha_options import HaOptions
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.recovery.losses import last_failure


class WaitFor(str, Enum):
    """Condition that a submission waits for."""

    RUNNING = "running"
    FINISHED = "finished"
    NONE = "none"


def reached(snapshot: JobStatus, run: int, wait_for: WaitFor) -> bool:
    """Whether a wait for run *run* is over: the condition holds, or the run has a result. Pure.

    A run is up when its leader reports it: without a leader, the state is that of a dead driver.

    :raises JobStateError: A newer run has taken its place.
    """
    view = snapshot.run
    if view is None or view.run.number != run:
        raise JobStateError(
            f"run {run} of job {snapshot.job_id!r} is no longer the newest run",
            next_step=f"See `spark-ha job show {snapshot.job_id}`",
        )
    if view.result is not None:
        return True
    led = snapshot.leader is not None and snapshot.leader.run == run
    return wait_for is WaitFor.RUNNING and led and snapshot.state is JobState.RUNNING


def phase_of(snapshot: JobStatus) -> str:
    """Return the activity of a run that is not up yet, for people. Pure."""
    leader, status, view = snapshot.leader, snapshot.status, snapshot.run
    attempt = view.newest.submission.attempt if view is not None and view.newest is not None else 0
    if leader is None:
        refused = view.refused if view is not None else ""
        return f"{snapshot.state.value}: attempt {attempt} has no leader yet{f', {refused}' if refused else ''}"
    said = status.message if status is not None and status.epoch == leader.epoch else ""
    return f"{snapshot.state.value}: epoch {leader.epoch} on {leader.host}{f', {said}' if said else ''}"


def with_failure(said: str, snapshot: JobStatus, now: datetime) -> str:
    """Return a status line with the last failure of the job, if recent. Pure."""
    last = last_failure(snapshot, HaOptions(), now=now)
    return f"{said} (last failure: {last.sentence})" if last is not None and last.in_a_row else said


def await_run(
    job: JobClient,
    run: int,
    wait_for: WaitFor,
    *,
    seconds: float | None,
    by: str,
    tell: Callable[[str, float], None],
) -> JobStatus:
    """Wait until a run meets the condition, or is over.

    An unavailable server does not end the wait: the job continues without this command.

    :param seconds: Time limit; ``None`` for no limit.
    :param by: Submitter of a lost driver, as recorded for people.
    :raises DecisionNeededError: Its user must decide where the run continues from.
    :raises OutcomeUnknownError: The time is over; the run continues.
    """
    begin = time.monotonic()

    def look() -> JobStatus | None:
        try:
            snapshot = job.snapshot()
            if reached(snapshot, run, wait_for):
                return snapshot
            said = _recovered(job, snapshot, by) if snapshot.state is JobState.LOST else phase_of(snapshot)
            said = with_failure(said, snapshot, SystemClock().now())
        except HaError as error:
            if not error.retryable:
                raise
            said = f"the job cannot be read at the moment: {error.message}"
        tell(said, time.monotonic() - begin)
        return None

    waiting = Retrying(
        stop=stop_never if seconds is None else stop_after_delay(seconds),
        wait=wait_exponential(multiplier=0.1, max=2),
        retry=retry_if_result(lambda found: found is None),
    )
    try:
        found: JobStatus | None = waiting(look)
    except RetryError:
        found = None
    if found is None:
        raise OutcomeUnknownError(
            f"run {run} of job {job.job_id!r} is not {wait_for.value} within {seconds:g} s; it continues",
            next_step=f"See `spark-ha job show {job.job_id}` and `spark-ha job logs {job.job_id}`",
        )
    return found


def _recovered(job: JobClient, snapshot: JobStatus, by: str) -> str:
    """Submit a lost run again after the delay of its restart strategy; return the action, for people."""
    left = job.delay_left(snapshot)
    if left > 0:
        return f"its driver is lost and is submitted again in {left:.0f} s"
    try:
        submitted = job.recover(by=by, wait=False)
    except DecisionNeededError:
        raise
    except (JobStateError, LeadershipError) as error:
        return f"its driver is lost: {error.message}"  # the next poll sees the outcome
    return f"its driver was lost, attempt {submitted.attempt} is submitted"
