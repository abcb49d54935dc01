"""Removing a savepoint for its user: by the driver when there is one, else under the job's lock."""

from __future__ import annotations

from airflow_provider_ha.checkpoints.savepoints.store import SavepointStore
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.errors import LeadershipUnavailableError, OperationFailedError, OutcomeUnknownError
from airflow_provider_ha.jobs import operations
from airflow_provider_ha.jobs.model import OperationKind, OperationState
from airflow_provider_ha.recovery.conclude import take_lock


ANSWER_SECONDS = 60.0
_POLL_SECONDS = 0.2


def dispose_savepoint(job: JobContext, savepoints: SavepointStore, savepoint_id: str, *, requested_by: str) -> None:
    """Remove a savepoint: its pointer first, then its files.

    :raises CheckpointMissingError: There is no such savepoint.
    :raises OperationFailedError: The driver could not remove it, and says why.
    :raises OutcomeUnknownError: The driver did not answer in time.
    """
    savepoints.pointer(savepoint_id)
    snapshot = job.snapshot()
    if snapshot.leader is None:
        try:
            with take_lock(job, snapshot.run.run.number if snapshot.run else 0) as leadership:
                savepoints.dispose(leadership.commit, savepoint_id)
        except LeadershipUnavailableError:
            pass  # a driver has come up: it is asked
        else:
            return
    _ask_driver(job, savepoint_id, requested_by)


def _ask_driver(job: JobContext, savepoint_id: str, requested_by: str) -> None:
    operation_id = f"dispose-{savepoint_id}"[:128]
    operation = operations.request(
        job.coordinator,
        job.paths,
        OperationKind.DISPOSE,
        operation_id=operation_id,
        arguments={"savepoint_id": savepoint_id},
        requested_by=requested_by,
        clock=job.clock,
    )
    deadline = job.clock.lease_time() + ANSWER_SECONDS
    while not operation.state.final:
        if job.clock.lease_time() >= deadline:
            raise OutcomeUnknownError(
                f"the driver of job {job.job_id!r} has not answered operation {operation_id!r}",
                next_step="Repeat the request; the first one stays",
            )
        job.sleep(_POLL_SECONDS)
        operation = operations.read(job.coordinator, job.paths, operation_id) or operation
    if operation.state is not OperationState.COMPLETED:
        raise OperationFailedError(
            f"savepoint {savepoint_id!r} of job {job.job_id!r} was not removed: {operation.error}",
            next_step="Resolve the reason, then repeat the request",
        )
