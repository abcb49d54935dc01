"""Removing a savepoint or a checkpoint for its user: by the driver when there is one, else under the job's lock."""

from __future__ import annotations

from collections.abc import Callable

from airflow_provider_ha.checkpoints.savepoints.store import SavepointStore
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.errors import (
    LeadershipUnavailableError,
    OperationFailedError,
    OutcomeUnknownError,
    UnknownJobError,
)
from airflow_provider_ha.jobs import operations
from airflow_provider_ha.jobs.model import Operation, OperationKind, OperationState
from airflow_provider_ha.recovery.conclude import take_lock


ANSWER_SECONDS = 60.0
_POLL_SECONDS = 0.2


def dispose_savepoint(job: JobContext, savepoints: SavepointStore, savepoint_id: str, *, requested_by: str) -> None:
    """Remove a savepoint: its pointer first, then its files.

    :raises CheckpointMissingError: There is no such savepoint.
    :raises JobStateError: It is the start of a live run that has no checkpoint yet; or it is being read, and no driver
        runs; or another process leads a job whose run is over.
    :raises OperationFailedError: The driver could not remove it, and says why.
    :raises OutcomeUnknownError: The driver did not answer in time.
    """
    savepoints.pointer(savepoint_id)
    savepoints.refuse_start(savepoint_id)  # before the lock: the driver of that run is on its way to take it
    dispose(
        job,
        {"savepoint_id": savepoint_id},
        f"savepoint {savepoint_id!r}",
        lambda leadership: savepoints.dispose(leadership.commit, savepoint_id),
        requested_by=requested_by,
    )


def dispose(
    job: JobContext,
    arguments: dict[str, str],
    what: str,
    remove: Callable[[Leadership], None],
    *,
    requested_by: str,
) -> None:
    """Have the driver remove something, or remove it as the leader of a job that has none.

    :param arguments: Of the operation; the first one says what is removed.
    :param what: The same, for people.
    :raises OperationFailedError: The driver could not remove it, and says why.
    :raises OutcomeUnknownError: The driver did not answer in time.
    """
    led, run = _led(job)
    if not led:
        try:
            with take_lock(job, run) as leadership:
                remove(leadership)
        except LeadershipUnavailableError:
            pass  # a driver has come up: it is asked
        else:
            return
    _await_answer(job, _open_request(job, arguments) or _request(job, arguments, requested_by), what)


def _led(job: JobContext) -> tuple[bool, int]:
    """Return whether the job has a leader, and the number of its newest run; a deleted job that kept it has neither."""
    try:
        snapshot = job.snapshot()
    except UnknownJobError:
        return False, 0
    return snapshot.leader is not None, snapshot.run.run.number if snapshot.run else 0


def _open_request(job: JobContext, arguments: dict[str, str]) -> Operation | None:
    """Return the request that an earlier call did not see answered."""
    name, value = next(iter(arguments.items()))
    for operation in operations.list_operations(job.coordinator, job.paths):
        asked = operation.operation is OperationKind.DISPOSE and operation.arguments.get(name) == value
        if asked and not operation.state.final:
            return operation
    return None


def _request(job: JobContext, arguments: dict[str, str], requested_by: str) -> Operation:
    """Ask the driver by a new id: what was answered about an earlier savepoint of that name is remembered."""
    return operations.request(
        job.coordinator,
        job.paths,
        OperationKind.DISPOSE,
        operation_id=f"dispose-{new_id()[:12]}",
        arguments=arguments,
        requested_by=requested_by,
        clock=job.clock,
    )


def _await_answer(job: JobContext, operation: Operation, what: str) -> None:
    deadline = job.clock.lease_time() + ANSWER_SECONDS
    while not operation.state.final:
        if job.clock.lease_time() >= deadline:
            raise OutcomeUnknownError(
                f"the driver of job {job.job_id!r} has not answered operation {operation.operation_id!r}",
                next_step="Repeat the request; the first one stays",
            )
        job.sleep(_POLL_SECONDS)
        operation = operations.read(job.coordinator, job.paths, operation.operation_id) or operation
    if operation.state is not OperationState.COMPLETED:
        raise OperationFailedError(
            f"{what} of job {job.job_id!r} was not removed: {operation.error.rstrip('.')}",
            next_step="Resolve the reason, then repeat the request",
        )
