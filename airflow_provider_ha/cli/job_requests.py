"""Requests of a command to a job: ids, and the wait for the answer of a driver or for a run.

Invariant: the request outlives the command. With its id the same command finds it again, and makes no second one.
"""

from __future__ import annotations

import getpass
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, TypeVar

import typer
from tenacity import Retrying, retry_if_result, stop_after_delay, stop_never, wait_exponential

from airflow_provider_ha.api.documents.history import EpochView, TakeoverView, history_view
from airflow_provider_ha.api.documents.operation import OperationView
from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.exit_codes import Exit
from airflow_provider_ha.cli.session import answer
from airflow_provider_ha.clock import SystemClock, new_id
from airflow_provider_ha.errors import (
    ConfigurationError,
    DecisionNeededError,
    HaError,
    JobStateError,
    LeadershipError,
    OutcomeUnknownError,
)
from airflow_provider_ha.jobs.model import JobState, Operation, OperationState
from airflow_provider_ha.jobs.operations.stop import UnansweredStop
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.recovery.losses import last_failure
from airflow_provider_ha.jobs.run_history import read_history
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.names import check_name


_Found = TypeVar("_Found")


class WaitFor(str, Enum):
    """Condition that a submission waits for."""

    RUNNING = "running"
    FINISHED = "finished"
    NONE = "none"


def reached(snapshot: JobStatus, run: int, wait_for: WaitFor) -> bool:
    """Whether a wait for run *run* is over: the run is RUNNING, or has a result. Pure.

    :raises JobStateError: A newer run has taken its place.
    """
    view = snapshot.run
    if view is None or view.run.number != run:
        raise JobStateError(
            f"run {run} of job {snapshot.job_id!r} is no longer the newest run",
            next_step=f"See `spark-ha job show {snapshot.job_id}`",
        )
    return view.result is not None or (wait_for is WaitFor.RUNNING and snapshot.state is JobState.RUNNING)


def run_phase(snapshot: JobStatus) -> str:
    """Return the activity of a run that is not up yet, for people. Pure."""
    leader, status, view = snapshot.leader, snapshot.status, snapshot.run
    attempt = view.newest.submission.attempt if view is not None and view.newest is not None else 0
    if leader is None:
        refused = f", {snapshot.refused}" if snapshot.refused else ""
        return f"{snapshot.state.value}: attempt {attempt} has no leader yet{refused}"
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
    begin, said = time.monotonic(), ""

    def look() -> JobStatus | None:
        nonlocal said
        try:
            snapshot = job.snapshot()
            if reached(snapshot, run, wait_for):
                return snapshot
            said = _recovered(job, snapshot, by) if snapshot.state is JobState.LOST else run_phase(snapshot)
            said = with_failure(said, snapshot, SystemClock().now())
        except HaError as error:
            if not error.retryable:
                raise
            said = f"the job cannot be read at the moment: {error.message}"
        tell(said, time.monotonic() - begin)
        return None

    found = _polled(look, seconds)
    if found is None:
        raise OutcomeUnknownError(
            f"run {run} of job {job.job_id!r} is not {wait_for.value} within {seconds:g} s; it continues. Now {said}",
            next_step=f"See `spark-ha job show {job.job_id}` and `spark-ha job logs {job.job_id}`",
        )
    return found


def _polled(look: Callable[[], _Found | None], seconds: float | None) -> _Found | None:
    """Return the first result of *look*; ``None`` when the time is over."""
    waiting = Retrying(
        stop=stop_never if seconds is None else stop_after_delay(seconds),
        wait=wait_exponential(multiplier=0.1, max=2),
        retry=retry_if_result(lambda found: found is None),
        retry_error_callback=lambda _: None,
    )
    return waiting(look)


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


WaitSeconds = Annotated[float, typer.Option(help="Seconds to wait for the answer; 0 returns immediately.", min=0)]


def operation_id(verb: str) -> str:
    """Return an id for a new request: each call of the command is a separate request."""
    return f"cli-{verb}-{new_id()[:12]}"


def who() -> str:
    """Return the user and host of the request, which the operation records for other engineers."""
    return f"spark-ha:{getpass.getuser()}@{socket.gethostname()}:{os.getpid()}"


def await_operation(job: JobClient, operation: Operation, *, seconds: float, as_json: bool) -> None:
    """Wait for the end of *operation*, print it, and exit with its exit code.

    :raises OutcomeUnknownError: There was no answer in time; the operation may still be executed.
    """
    if seconds:
        with console.phases(quiet=as_json) as tell:
            operation = _final(job, operation, seconds, tell)
    if as_json:
        console.print_json(OperationView.of(operation))
    else:
        console.print_fields(
            {
                "operation": operation.operation_id,
                "run": operation.run,
                "state": operation.state.value,
                **_shown(operation.result),
                **({"error": operation.error} if operation.error else {}),
            }
        )
    answer(yes=operation.state is OperationState.COMPLETED or not operation.state.final)


def await_takeover(client: HaClient, job: JobClient, operation: Operation, *, seconds: float, as_json: bool) -> None:
    """Wait until another driver runs the job after *operation*, print the phases of its start, and exit.

    :raises OutcomeUnknownError: No other driver runs the job in time; the operation may still be executed.
    """
    taken: EpochView | None = None
    if seconds:
        end = time.monotonic() + seconds
        with console.phases(quiet=as_json) as tell:
            operation = _final(job, operation, seconds, tell)
            if operation.state is OperationState.COMPLETED:
                taken = _next_epoch(client, job, operation, end - time.monotonic(), tell)
    if as_json:
        console.print_json(TakeoverView(job_id=job.job_id, operation=OperationView.of(operation), epoch=taken))
    else:
        console.print_fields(
            {
                "operation": operation.operation_id,
                "state": operation.state.value,
                **({"error": operation.error} if operation.error else {}),
                **({} if taken is None else _fields_of(taken)),
            }
        )
    answer(yes=operation.state is OperationState.COMPLETED or not operation.state.final)


def _fields_of(taken: EpochView) -> dict[str, object]:
    phases = {name: f"{seconds:.2f} s" for name, seconds in taken.phases.items()}
    return {
        "epoch": taken.epoch,
        "attempt": f"{taken.attempt}, promoted standby driver" if taken.standby else taken.attempt,
        "host": taken.host,
        **({"recovered in": phases.pop("total")} if "total" in phases else {}),
        "phases": ", ".join(f"{name} {seconds}" for name, seconds in phases.items()),
    }


def _next_epoch(
    client: HaClient, job: JobClient, operation: Operation, seconds: float, tell: Callable[[str, float], None]
) -> EpochView:
    """Return the epoch after that of *operation*, once its driver is RUNNING."""
    begin, state = time.monotonic(), ""

    def look() -> EpochView | None:
        nonlocal state
        try:
            snapshot = job.snapshot()
            state = snapshot.state.value
            leads = snapshot.leader is not None and snapshot.epoch > (operation.epoch or 0)
            if leads and snapshot.state is JobState.RUNNING:
                history = history_view(read_history(client.coordinator, client.paths.job(job.job_id), epochs=2))
                return history.runs[0].epochs[0]
        except HaError as error:
            state = f"not readable at the moment ({error.message})"
        tell(f"{state}: waiting for the next driver", time.monotonic() - begin)
        return None

    found = _polled(look, seconds)
    if found is None:
        raise OutcomeUnknownError(
            f"job {job.job_id!r} is {state}: no driver was RUNNING within {seconds:.0f} s after that of epoch "
            f"{operation.epoch}",
            next_step=f"`spark-ha job show {job.job_id}` shows its state, and who recovers it",
        )
    return found


def _shown(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of an operation for people."""
    fields = dict(result)
    if "savepoint_id" not in fields:
        fields.pop("path", None)  # a storage key of a checkpoint, useless for people
    if "cut" in fields:
        fields["cut"] = console.cut_text(fields["cut"])
    if "new" in fields:
        same = "the newest savepoint of the schedule holds" if "savepoint_id" in fields else "no batch came after"
        fields["new"] = "yes" if fields["new"] else f"no: {same} the newest checkpoint"
    if "passed_over" in fields:
        fields["passed_over"] = "; ".join(fields["passed_over"])
    return fields


def _final(job: JobClient, operation: Operation, seconds: float, tell: Callable[[str, float], None]) -> Operation:
    begin, unanswered, said = time.monotonic(), UnansweredStop(), ""

    def look() -> Operation | None:
        nonlocal said
        found = job.operation(operation.operation_id)
        if found is None or found.state.final:
            return found
        try:
            snapshot = job.snapshot()
            if unanswered.due(snapshot, found):
                job.request_stop(operation_id=found.operation_id, requested_by=found.requested_by, **found.arguments)
            said = with_failure(operation_phase(snapshot, found), snapshot, SystemClock().now())
        except HaError as error:
            said = f"the job cannot be read at the moment: {error.message}"
        tell(said, time.monotonic() - begin)
        return None

    found = _polled(look, seconds)
    if found is None:
        raise OutcomeUnknownError(
            f"operation {operation.operation_id!r} of job {job.job_id!r} was not answered within {seconds:g} s. "
            f"Now {said}",
            next_step=f"Check with `spark-ha job show {job.job_id}` whether the job has a leader; the request stays",
        )
    return found


def operation_phase(snapshot: JobStatus, operation: Operation) -> str:
    """Return the phase of an unanswered operation. Pure."""
    leader, status = snapshot.leader, snapshot.status
    if leader is None:
        return f"{snapshot.state.value}: the job has no leader, the next driver takes the request up"
    if operation.state is OperationState.REQUESTED:
        return f"{snapshot.state.value}: request sent to the driver on {leader.host} (epoch {leader.epoch})"
    said = status.message if status is not None and status.epoch == leader.epoch else ""
    return f"{snapshot.state.value}: {said or 'the driver works on it'}"


def _checked(request_id: str | None) -> str | None:
    """Return an id that may name a request, before any connection."""
    try:
        return request_id if request_id is None else check_name(request_id, "request id")
    except ConfigurationError as error:
        raise typer.BadParameter(str(error)) from None


RequestId = Annotated[
    str | None,
    typer.Option(
        callback=_checked,
        help="Id of the request: a repeated id finds the operation again and shows its outcome, instead of making "
        "another.",
        metavar="ID",
    ),
]


class CommandRequest:
    """The request of a command.

    :ivar operation: The operation, once it is known to exist.
    """

    def __init__(self, job_id: str, verb: str, request_id: str | None) -> None:
        self.job_id = job_id
        self.request_id = request_id or operation_id(verb)
        self.operation: Operation | None = None

    def made(self, operation: Operation, *, by: str) -> Operation:
        """Remember the operation; report it if an earlier command requested it."""
        self.operation = operation
        if operation.requested_by != by:
            at = console.text_of(operation.requested_at)
            _note(
                f"operation {operation.operation_id} was requested of run {operation.run} before, at {at} by "
                f"{operation.requested_by}: this is its outcome"
            )
        return operation


@contextmanager
def asking(job_id: str, verb: str, request_id: str | None) -> Iterator[CommandRequest]:
    """Make a request to a job, and print how to find it again when Ctrl-C or an outage comes before the answer."""
    asked = CommandRequest(job_id, verb, request_id)
    again = f"The same command with --request-id {asked.request_id}"
    try:
        yield asked
    except KeyboardInterrupt:
        known = asked.operation
        if known is None:
            _note(f"interrupted before the answer: the request may be stored. {again} does not repeat it")
        elif known.state.final:
            _note(f"interrupted: operation {known.operation_id} of job {job_id} is {known.state.value}")
        else:
            _note(
                f"interrupted: operation {known.operation_id} ({known.operation.value}) of job {job_id} continues. "
                f"{again} shows its outcome, `spark-ha job show {job_id}` the job"
            )
        raise typer.Exit(Exit.INTERRUPTED) from None
    except typer.Exit as left:
        if isinstance(left.__cause__, HaError) and left.__cause__.retryable:
            _note(f"{again} does not repeat the request, and shows its outcome")
        raise


def _note(text: str) -> None:
    console.err.print(console.escaped(text))
