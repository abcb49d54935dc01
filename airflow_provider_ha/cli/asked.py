"""Id of a request that a command makes to a job, and messages when the command ends before the answer.

Invariant: the request outlives the command. With its id the same command finds it again, and makes no second one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.outcome import Exit
from airflow_provider_ha.cli.requests import operation_id
from airflow_provider_ha.errors import ConfigurationError, HaError
from airflow_provider_ha.jobs.model import Operation
from airflow_provider_ha.names import check_name


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


class Asked:
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
def asking(job_id: str, verb: str, request_id: str | None) -> Iterator[Asked]:
    """Make a request to a job, and print how to find it again when Ctrl-C or an outage comes before the answer."""
    asked = Asked(job_id, verb, request_id)
    again = f"The same command with --request-id {asked.request_id}"
    try:
        yield asked
    except KeyboardInterrupt:
        known = asked.operation
        if known is None:
            _note(f"interrupted before the answer: the request may have been made. {again} makes no second one")
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
            _note(f"{again} makes no second request, and shows its outcome")
        raise


def _note(text: str) -> None:
    console.err.print(console.escaped(text))
