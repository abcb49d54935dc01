"""Ends a run without a driver: take the job's lock, write the result, release the lock (design, contract 1).

A process changes a job only as its leader. So the epoch grows by one, and a driver that comes up late finds a result
and refuses to run.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from typing import Literal

from airflow_provider_ha.coordination.coordinator import Op
from airflow_provider_ha.coordination.election import Leadership, acquire
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.jobs import operations
from airflow_provider_ha.jobs.failures import Failure
from airflow_provider_ha.jobs.job_records import JobRecords, who
from airflow_provider_ha.jobs.model import JobState, LeaderInfo, Operation, RunEnd, RunResult
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.recovery.restart import GiveUp


log = logging.getLogger(__name__)

CANCELED_WITHOUT_A_DRIVER = "canceled without a driver"
LOCK_SECONDS = 5.0  # the lock of a job without a driver is free; a caller that finds it taken is not needed
_NO_ATTEMPT = 0


def conclude(
    job: JobRecords,
    state: Literal[JobState.FAILED, JobState.CANCELED],
    *,
    reason: str,
    by: str,
    operation: Operation | None = None,
    failure: Failure | None = None,
    exhausted: bool = False,
) -> RunResult:
    """Write the result of the newest run, and remove its graph pointer, in one fenced transaction.

    :param operation: The request that ends it; the transaction answers all requests for an end.
    :param failure: The error that ends the run.
    :param exhausted: Whether the run has used up its restarts.
    :raises JobStateError: There is no live run, or it has a leader.
    :raises LeadershipUnavailableError: Another process became the leader first.
    """
    snapshot = job.snapshot()
    number = _concludable(snapshot)

    def admit() -> None:
        if job.runs.result(number) is not None:
            raise _over(job, number)

    with take_lock(job, number, admit=admit) as leadership:
        admit()  # a driver may have led, and ended the run, between the first check and the grant
        result = RunResult(
            state=state,
            epoch=leadership.epoch,
            reason=f"{reason} ({who(by)})",
            checkpoint=snapshot.latest_checkpoint,
            failure=failure,
            budget_exhausted=exhausted,
            end=None if operation is None else RunEnd.of(operation, {}),
            at=job.clock.now(),
        )
        job.journal.result(number, result)
        leadership.commit(*_ops(job, number, result))  # guard: result-with-pointer
    log.info("run %d of %s is %s: %s", number, job.job_id, state.value, reason)
    return result


def conclude_canceled(job: JobRecords, operation: Operation, *, by: str) -> RunResult:
    """End a run without a driver as CANCELED, and complete the cancel; raises as :func:`conclude` does."""
    return conclude(job, JobState.CANCELED, reason=CANCELED_WITHOUT_A_DRIVER, by=by, operation=operation)


def conclude_given_up(job: JobRecords, decision: GiveUp, *, by: str) -> RunResult:
    """End a run that the restart strategy gives up as FAILED; raises as :func:`conclude` does."""
    return conclude(
        job, JobState.FAILED, reason=decision.reason, by=by, failure=decision.failure, exhausted=decision.exhausted
    )


def take_lock(
    job: JobRecords, run: int, *, admit: Callable[[], None] | None = None, timeout: float | None = None
) -> Leadership:
    """Lead a job that has no driver for one short action, then release the lock.

    :param run: The run of the action, shown as the leader's run during the action.
    :param admit: Called before the lock is requested; an exception from it ends the wait.
    :param timeout: Seconds to wait for it; a few when left out.
    :raises LeadershipUnavailableError: Another process leads the job.
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


def brief_commit(job: JobRecords, run: int) -> Callable[..., list[int]]:
    """Return a commit that leads a job without a driver for each transaction alone; it raises as :func:`take_lock`.

    For slow work between the transactions: the lease of a lock taken for one action is not renewed.
    """

    def commit(*ops: Op) -> list[int]:
        with take_lock(job, run) as leadership:
            return leadership.commit(*ops)

    return commit


def _concludable(snapshot: JobStatus) -> int:
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


def _over(job: JobRecords, number: int) -> JobStateError:
    return JobStateError(
        f"run {number} of job {job.job_id!r} has a result already", next_step="Nothing needs to be done"
    )


def _ops(job: JobRecords, number: int, result: RunResult) -> list[Op]:
    ops: list[Op] = [
        job.runs.result_op(number, result),
        *operations.ending_ops(job.coordinator, job.paths, number, result),
    ]
    pointer = job.graphs.remove_op(number)
    if pointer is not None:
        ops.append(pointer)  # guard: result-removes-pointer
    return ops
