"""Stop, cancel or fail a run, with or without its driver.

A run that ends without its driver keeps its newest retained checkpoint. The next start executes the batches committed
after that checkpoint again, with their recorded boundaries, as after every loss. Work that needs a driver is left to
the next one. A cancel that the driver has left open comes first.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from airflow_provider_ha.errors import (
    HaError,
    JobStateError,
    LeadershipError,
    LeadershipUnavailableError,
    OutcomeUnknownError,
)
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.job_stores import checkpoint_store
from airflow_provider_ha.jobs.model import JobState, Operation, OperationKind, RunEnd
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.recovery.lost_runs import (
    LostRun,
    carry_out_cancel,
    end_lost,
    lost_run,
    pointer_ops,
    result_of,
)
from airflow_provider_ha.jobs.recovery.transactions import conclude, conclude_canceled
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.jobs.submit.launch import end_drivers


log = logging.getLogger(__name__)


def fail(job: JobContext, reason: str, *, by: str) -> None:
    """End a run without a driver as FAILED.

    :raises JobStateError: The job has no live run, or has a leader.
    """
    conclude(job, JobState.FAILED, reason=reason, by=by)


def cancel(
    job: JobContext, *, operation_id: str, requested_by: str, savepoint: bool = False, seen: int | None = None
) -> Operation:
    """Request the immediate end of a run from its driver; without a driver, end the run here.

    :param savepoint: Whether to take a savepoint first; if that fails, the job continues. Only a driver can take it: if
        the job has lost its driver, the request waits for the next one, and a log line names the remedy.
    :param seen: As in ``operations.request``.
    :raises JobStateError: The job has no live run.
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
            "recovered. `spark-ha job cancel %s` ends it immediately, and `spark-ha savepoint trigger %s` then copies "
            "its "
            "newest checkpoint",
            job.job_id,
            job.job_id,
            job.job_id,
        )
        return operation
    try:
        conclude_canceled(job, operation, by=requested_by)
    except (LeadershipUnavailableError, JobStateError) as error:
        # A driver took the lock first: it finds the request, or has ended the run. Read the current state.
        log.info("cancel %s of %s is left to the driver: %s", operation_id, job.job_id, error)
    else:
        end_drivers(job, operation.run)
    return operations.read(job.coordinator, job.paths, operation_id) or operation


LOST_AFTER = 30.0  # seconds for a recovery, whose driver would carry out the stop
_LOOKS = 3  # for a driver that comes and goes


def stop(
    job: JobContext, *, operation_id: str, requested_by: str, mode: str, savepoint: bool, seen: int | None = None
) -> Operation:
    """Request a stop with a checkpoint from the driver; if it is lost, end the run here with its newest checkpoint.

    A drain, a savepoint, and a run without a checkpoint need a driver: the request waits for the next one, and a log
    line names the remedy.

    :param mode: ``"suspend"`` or ``"terminate"``.
    :param seen: As in ``operations.request``.
    :raises UnknownJobError: The job does not exist.
    :raises JobStateError: The job has no live run.
    """
    arguments = {"mode": mode, "savepoint": savepoint}
    job.snapshot()  # raises UnknownJobError, with the names of the known jobs
    operation = operations.request(
        job.coordinator,
        job.paths,
        OperationKind.STOP,
        operation_id=operation_id,
        arguments=arguments,
        requested_by=requested_by,
        clock=job.clock,
        seen=seen,
    )
    for _ in range(_LOOKS):
        lost = lost_run(job.snapshot())
        if operation.state.final or lost is None or lost.number != operation.run:
            break
        if not carry_out_cancel(job, lost, by=requested_by):
            if need := needs_driver(job.job_id, lost, arguments):
                log.warning("%s", need)
                break
            _end(job, lost, operation, by=requested_by)
        operation = operations.read(job.coordinator, job.paths, operation_id) or operation
    return operations.read(job.coordinator, job.paths, operation_id) or operation


def needs_driver(job_id: str, lost: LostRun, arguments: dict[str, Any]) -> str:
    """Return why stopping a lost run needs a driver, and the remedy; empty if it does not. Pure."""
    at_once = f"`spark-ha job stop {job_id}` ends it immediately with checkpoint {lost.checkpoint}"
    if lost.forgetful:
        why = "the run has no checkpoint yet, so its end would forget its committed batches"
        at_once = f"`spark-ha job cancel {job_id}` ends it immediately anyway"
    elif arguments.get("mode") == "terminate":
        why = "a drain needs a driver"
    elif arguments.get("savepoint"):
        why = "a savepoint needs a driver"
    else:
        return ""
    return (
        f"Job {job_id!r} has lost its driver in run {lost.number}, and {why}: it is stopped once it is recovered. "
        f"A task that follows it, `spark-ha cluster recover` or SparkHaRecoverJobsOperator recovers it; {at_once}"
    )


class UnansweredStop:
    """A stop that a caller waits for: detects that the driver is lost and not replaced."""

    def __init__(self) -> None:
        self._lost_since: float | None = None

    def due(self, snapshot: JobStatus, operation: Operation) -> bool:
        """Return whether to request the stop again, which then ends the run without a driver.

        :param snapshot: Current status of the job.
        """
        lost = None if operation.operation is not OperationKind.STOP or operation.state.final else lost_run(snapshot)
        if lost is None or lost.number != operation.run or needs_driver(snapshot.job_id, lost, operation.arguments):
            self._lost_since = None
            return False
        now = time.monotonic()
        self._lost_since = now if self._lost_since is None else self._lost_since
        return now - self._lost_since >= LOST_AFTER


def _end(job: JobContext, lost: LostRun, operation: Operation, *, by: str) -> None:
    result = result_of(
        job,
        lost,
        JobState.FINISHED,
        reason="stopped without a driver, which was lost",
        by=by,
        end=RunEnd.of(operation, _answer(job, lost)),
    )
    try:
        end_lost(job, lost, result, also=pointer_ops(job, lost))
    except OutcomeUnknownError:
        if job.runs.result(lost.number) is None:
            raise
    except (JobStateError, LeadershipError) as error:
        # A driver was faster: it finds the request, or has ended the run. Read the current state.
        log.info("the stop of %s is left to its leader: %s", job.job_id, error)
    else:
        log.warning(
            "Job %r had lost its driver: run %d ends with checkpoint %s, and the next start executes again the batches "
            "committed after it",
            job.job_id,
            lost.number,
            lost.checkpoint,
        )


def _answer(job: JobContext, lost: LostRun) -> dict[str, Any]:
    """Return the result of the operation in the form of a driver's."""
    if lost.checkpoint is None:
        return {"checkpoint": None}
    checkpoints = checkpoint_store(job)
    try:
        path = checkpoints.load(checkpoints.pointer(lost.checkpoint)).pin
    except HaError as error:
        log.warning("Checkpoint %d of job %r cannot be read now: %s", lost.checkpoint, job.job_id, error)
        return {"checkpoint": lost.checkpoint}
    return {"checkpoint": lost.checkpoint, "path": path}
