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


def cancel(job: JobContext, *, operation_id: str, requested_by: str) -> Operation:
    """Ask the driver to end at once; when there is none, end the run here.

    :raises JobStateError: There is no live run.
    """
    operation = operations.request(
        job.coordinator,
        job.paths,
        OperationKind.CANCEL,
        operation_id=operation_id,
        arguments={},
        requested_by=requested_by,
        clock=job.clock,
    )
    if operation.state.final or job.snapshot().leader is not None:
        return operation
    try:
        conclude_canceled(job, operation, by=requested_by)
    except (LeadershipUnavailableError, JobStateError) as error:
        # A driver took the lock first: it finds the request, or has ended the run. What counts is what is there now.
        log.info("cancel %s of %s is left to the driver: %s", operation_id, job.job_id, error)
    return operations.read(job.coordinator, job.paths, operation_id) or operation
