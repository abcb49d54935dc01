"""Requests to a running driver, and the wait for its answer."""

from __future__ import annotations

import getpass
import os
import socket
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_exponential

from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.follow_run import with_failure
from airflow_provider_ha.cli.session import answer
from airflow_provider_ha.clock import SystemClock, new_id
from airflow_provider_ha.control.administration.stop import UnansweredStop
from airflow_provider_ha.control.job_client import JobClient
from airflow_provider_ha.errors import HaError, OutcomeUnknownError
from airflow_provider_ha.jobs.model import Operation, OperationState
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.views.operation import OperationView


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
    begin, unanswered = time.monotonic(), UnansweredStop()

    def look() -> Operation | None:
        found = job.operation(operation.operation_id)
        if found is None or found.state.final:
            return found
        try:
            snapshot = job.snapshot()
            if unanswered.due(snapshot, found):
                job.request_stop(operation_id=found.operation_id, requested_by=found.requested_by, **found.arguments)
            said = with_failure(phase_of(snapshot, found), snapshot, SystemClock().now())
            tell(said, time.monotonic() - begin)
        except HaError as error:
            tell(f"the job cannot be read at the moment: {error.message}", time.monotonic() - begin)
        return found

    waiting = Retrying(
        stop=stop_after_delay(seconds),
        wait=wait_exponential(multiplier=0.1, max=2),
        retry=retry_if_result(lambda found: found is None or not found.state.final),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
    )
    found = waiting(look)
    if found is None or not found.state.final:
        raise OutcomeUnknownError(
            f"operation {operation.operation_id!r} of job {job.job_id!r} was not answered within {seconds:g} s",
            next_step=f"Check with `spark-ha job show {job.job_id}` whether the job has a leader; the request stays",
        )
    return found


def phase_of(snapshot: JobStatus, operation: Operation) -> str:
    """Return the phase of an unanswered operation. Pure."""
    leader, status = snapshot.leader, snapshot.status
    if leader is None:
        return f"{snapshot.state.value}: the job has no leader, the next driver takes the request up"
    if operation.state is OperationState.REQUESTED:
        return f"{snapshot.state.value}: asked the driver on {leader.host} (epoch {leader.epoch})"
    said = status.message if status is not None and status.epoch == leader.epoch else ""
    return f"{snapshot.state.value}: {said or 'the driver works on it'}"
