"""Ending a run that nobody drives: take the job's lock, write the result, give the lock back (design, contract 1).

Whoever is not the leader changes a job only as its leader. So the epoch grows by one, and a driver that comes up late
finds a result and refuses itself.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from typing import Literal

from airflow_provider_ha.coordination.coordinator import Op
from airflow_provider_ha.coordination.election import Leadership, acquire
from airflow_provider_ha.errors import JobStateError, LeadershipUnavailableError
from airflow_provider_ha.jobs import operations
from airflow_provider_ha.jobs.failures import Failure
from airflow_provider_ha.jobs.model import JobState, LeaderInfo, Operation, OperationKind, RunResult
from airflow_provider_ha.jobs.snapshot import JobSnapshot
from airflow_provider_ha.submit.context import JobContext, who


log = logging.getLogger(__name__)

LOCK_SECONDS = 5.0  # the lock of a job without a driver is free; who finds it taken is not needed here
_NO_ATTEMPT = 0


def conclude(
    job: JobContext,
    state: Literal[JobState.FAILED, JobState.CANCELED],
    *,
    reason: str,
    by: str,
    operation: Operation | None = None,
    failure: Failure | None = None,
) -> RunResult:
    """Write the result of the newest run, and remove its graph pointer, in one fenced transaction.

    :param operation: Completed in the same transaction.
    :param failure: The error of the application that ends the run.
    :raises JobStateError: There is no live run, or somebody leads it.
    :raises LeadershipUnavailableError: Somebody became the leader meanwhile.
    """
    snapshot = job.snapshot()
    number = _concludable(snapshot)

    def admit() -> None:
        if job.runs.result(number) is not None:
            raise _over(job, number)

    with take_lock(job, number, admit=admit) as leadership:
        admit()  # a driver may have led, and ended the run, between the first look and the grant
        result = RunResult(
            state=state,
            epoch=leadership.epoch,
            reason=f"{reason} ({who(by)})",
            checkpoint=snapshot.latest_checkpoint,
            failure=failure,
            at=job.clock.now(),
        )
        job.journal.result(number, result)
        leadership.commit(*_ops(job, number, result, operation))
    log.info("run %d of %s is %s: %s", number, job.job_id, state.value, reason)
    return result


def fail(job: JobContext, reason: str, *, by: str) -> None:
    """End a run that nobody drives as FAILED.

    :raises JobStateError: There is no live run, or somebody leads it.
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
        conclude(job, JobState.CANCELED, reason="canceled without a driver", by=requested_by, operation=operation)
    except (LeadershipUnavailableError, JobStateError) as error:
        # A driver took the lock first: it finds the request, or has ended the run. What counts is what is there now.
        log.info("cancel %s of %s is left to the driver: %s", operation_id, job.job_id, error)
    return operations.read(job.coordinator, job.paths, operation_id) or operation


def take_lock(
    job: JobContext, run: int, *, admit: Callable[[], None] | None = None, timeout: float | None = None
) -> Leadership:
    """Lead a job that nobody drives, for one short action; release it at once.

    :param run: The run for whose sake, for people who look at the leader meanwhile.
    :param admit: Called before the lock is asked for; what it raises ends the wait.
    :param timeout: Seconds to wait for it; a few when left out.
    :raises LeadershipUnavailableError: Somebody leads the job.
    """

    def describe(epoch: int) -> bytes:
        host, pid = socket.gethostname(), os.getpid()
        info = LeaderInfo(epoch=epoch, run=run, attempt=_NO_ATTEMPT, host=host, pid=pid, since=job.clock.now())
        return info.to_bytes()

    return acquire(
        job.coordinator,
        job.paths,
        timings=job.config.timings,
        clock=job.clock,
        describe=describe,
        timeout=LOCK_SECONDS if timeout is None else timeout,
        admit=admit,
    )


def _concludable(snapshot: JobSnapshot) -> int:
    run, leader = snapshot.run, snapshot.leader
    if run is None or run.result is not None:
        raise JobStateError(f"job {snapshot.job_id!r} has no live run", next_step="Nothing needs to be done")
    if leader is not None:
        raise JobStateError(
            f"run {run.run.number} of job {snapshot.job_id!r} is led by epoch {leader.epoch} on {leader.host}",
            next_step=f"End the job instead: `spark-ha job stop {snapshot.job_id}` (SparkHaStopOperator) or "
            f"`spark-ha job cancel {snapshot.job_id}` (SparkHaCancelOperator)",
        )
    return run.run.number


def _over(job: JobContext, number: int) -> JobStateError:
    return JobStateError(
        f"run {number} of job {job.job_id!r} has a result already", next_step="Nothing needs to be done"
    )


def _ops(job: JobContext, number: int, result: RunResult, operation: Operation | None) -> list[Op]:
    ops: list[Op] = [job.runs.result_op(number, result)]
    pointer = job.graphs.remove_op(number)
    if pointer is not None:
        ops.append(pointer)
    if operation is not None:
        ops.append(operations.completed_op(job.paths, operation, result={}, at=result.at))
    return ops
