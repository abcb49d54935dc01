"""Stop, cancel or fail a run, with or without its driver.

A cancel that the driver has left open comes first.

The job then goes on from its newest retained checkpoint. What was committed after that one is executed again with its
recorded boundaries by the next start, as after every loss. What only a driver can do is left to the next one.
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


LOST_AFTER = 30.0  # seconds: time for a recovery, whose driver would carry out the stop
_LOOKS = 3  # a driver that comes and goes is read again


def stop(
    job: JobContext, *, operation_id: str, requested_by: str, mode: str, savepoint: bool, seen: int | None = None
) -> Operation:
    """Ask the driver to stop with a checkpoint; when it is lost, end the run here with the newest retained one.

    A drain, a savepoint, and a run that has no checkpoint yet need a driver: their request stays for the next one, with
    a line in the log that says what helps.

    :param mode: ``"suspend"`` or ``"terminate"``.
    :param seen: As in ``operations.request``.
    :raises UnknownJobError: There is no such job.
    :raises JobStateError: The job has no live run.
    """
    arguments = {"mode": mode, "savepoint": savepoint}
    job.snapshot()  # an unknown job is refused as one, with the names of those that there are
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
    """Return why a lost run cannot be stopped without a driver, and what helps; empty when it can be. Pure.

    :param arguments: Of the operation.
    """
    at_once = f"`spark-ha job stop {job_id}` ends it at once with checkpoint {lost.checkpoint}"
    if lost.forgetful:
        why = "the run has no checkpoint yet, so its end would forget what it has committed"
        at_once = f"`spark-ha job cancel {job_id}` ends it at once all the same"
    elif arguments.get("mode") == "terminate":
        why = "a drain needs a driver"
    elif arguments.get("savepoint"):
        why = "a savepoint needs a driver"
    else:
        return ""
    return (
        f"Job {job_id!r} has lost its driver in run {lost.number}, and {why}: it is stopped once it is recovered. "
        f"A task that follows it, `spark-ha recover` or SparkHaRecoverJobsOperator recovers it; {at_once}"
    )


class UnansweredStop:
    """A stop that a caller waits for: notices that its driver is lost and that no other one is started."""

    def __init__(self) -> None:
        self._lost_since: float | None = None

    def due(self, snapshot: JobStatus, operation: Operation) -> bool:
        """Return whether to ask for the stop again, which then ends the run without a driver.

        :param snapshot: The job now.
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
        # A driver was faster: it finds the request, or has ended the run. What counts is what is there now.
        log.info("the stop of %s is left to its leader: %s", job.job_id, error)
    else:
        log.warning(
            "Job %r had lost its driver: run %d ends with checkpoint %s, and the next start executes again what was "
            "committed after it",
            job.job_id,
            lost.number,
            lost.checkpoint,
        )


def _answer(job: JobContext, lost: LostRun) -> dict[str, Any]:
    """Return the result of the operation, as a driver gives it."""
    if lost.checkpoint is None:
        return {"checkpoint": None}
    checkpoints = checkpoint_store(job)
    try:
        path = checkpoints.load(checkpoints.pointer(lost.checkpoint)).pin
    except HaError as error:
        log.warning("Checkpoint %d of job %r cannot be read now: %s", lost.checkpoint, job.job_id, error)
        return {"checkpoint": lost.checkpoint}
    return {"checkpoint": lost.checkpoint, "path": path}
