"""Requests of a person for a run without a driver: fail it, or cancel it."""

from __future__ import annotations

import logging

from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.errors import JobStateError, LeadershipUnavailableError
from airflow_provider_ha.jobs import operations
from airflow_provider_ha.jobs.model import JobState, Operation, OperationKind
from airflow_provider_ha.recovery.conclude import conclude, conclude_canceled


log = logging.getLogger(__name__)


def fail(job: JobContext, reason: str, *, by: str) -> None:
    """End a run without a driver as FAILED.

    :raises JobStateError: There is no live run, or it has a leader.
    """
    conclude(job, JobState.FAILED, reason=reason, by=by)


def cancel(
    job: JobContext, *, operation_id: str, requested_by: str, savepoint: bool = False, seen: int | None = None
) -> Operation:
    """Ask the driver to end at once; when there is none, end the run here.

    :param savepoint: Take a savepoint first. When that fails the job goes on. Only a driver can take it: of a job that
        has lost its own the request stays for the next one, with a line in the log that says what helps.
    :param seen: As in ``operations.request``.
    :raises JobStateError: There is no live run.
    """
    operation = operations.request(
        job.coordinator,
        job.paths,
        OperationKind.CANCEL_WITH_SAVEPOINT if savepoint else OperationKind.CANCEL,
        operation_id=operation_id,
        arguments={},
        requested_by=requested_by,
        clock=job.clock,
        seen=seen,
    )
    if operation.state.final or job.snapshot().leader is not None:
        return operation
    if not operations.cancel_is_due(operation):
        log.warning(
            "Job %r has no driver at the moment, and a savepoint of a live run needs one: it is cancelled once it is "
            "recovered. `spark-ha job cancel %s` ends it at once, and `spark-ha savepoint trigger %s` then copies its "
            "newest checkpoint",
            job.job_id,
            job.job_id,
            job.job_id,
        )
        return operation
    try:
        conclude_canceled(job, operation, by=requested_by)
    except (LeadershipUnavailableError, JobStateError) as error:
        # A driver took the lock first: it finds the request, or has ended the run. What counts is what is there now.
        log.info("cancel %s of %s is left to the driver: %s", operation_id, job.job_id, error)
    return operations.read(job.coordinator, job.paths, operation_id) or operation
