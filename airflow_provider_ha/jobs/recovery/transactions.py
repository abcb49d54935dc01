"""Transactions after a loss: claim the next submission, or end the run.

A process changes a job only as its leader. So the epoch grows by one, and a driver that starts late finds a result and
refuses to run.

- ``ApplicationRefusedError`` is about the job: every host gives the same answer, so the run ends.
- ``ConfigurationError`` is about the place: no Spark, no component, no S3A, a release that is too old. If a driver of
  the run has had a working directory, another place satisfies the requirement: the run continues there, and the attempt
  is not counted. Otherwise there is no such evidence, and the run ends with the reason while its submitter still
  watches it.

Invariant: the node of a submission is created once, in one transaction with the check that the run is live and the
newest, and with the recovery of the lost epoch. The id in the node identifies its owner even if the response is lost.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from typing import Literal, TypedDict

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.coordination.coordinator import Create, Op, SetData
from airflow_provider_ha.coordination.election import acquire
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.znode_records import create_once, read_record
from airflow_provider_ha.errors import (
    JobStateError,
    NodeExistsError,
    NodeMissingError,
    OutcomeUnknownError,
    VersionConflictError,
)
from airflow_provider_ha.jobs.job_graph import GraphPointer
from airflow_provider_ha.jobs.job_records import JobRecords, who
from airflow_provider_ha.jobs.model import Generation, JobState, LeaderInfo, Operation, Recovery, Run, RunEnd, RunResult
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.recovery.restart_policy import GiveUp
from airflow_provider_ha.jobs.runs.standbys import StandbyStore
from airflow_provider_ha.jobs.runs.submissions import (
    NOT_LAUNCHED,
    DriverHandle,
    Failure,
    Submission,
    SubmissionExit,
    SubmissionLed,
    SubmissionStarted,
)
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.redaction import public


class HostVerdict(TypedDict):
    """The fields of a ``SubmissionExit`` with the same names."""

    refused: str
    unfit: bool


def judged(job: JobRecords, run: int, reason: str, *, refused: bool) -> HostVerdict:
    """Return the fields of the exit of a driver that was refused, or whose place lacks something.

    :param reason: Reason, for users.
    :param refused: Whether the job itself was refused.
    """
    final = refused or not has_worked(job, run)
    return HostVerdict(refused=reason if final else "", unfit=not final)


def has_worked(job: JobRecords, run: int) -> bool:
    """Return whether a driver of a run has had a working directory."""
    known = read_record(job.coordinator, job.paths.generation, Generation)
    return known is not None and known[0].run == run


def new_submission(
    job: JobRecords,
    attempt: int,
    *,
    by: str,
    engine: str,
    lost_epoch: int | None = None,
    accept_loss: bool = False,
) -> Submission:
    """Return a submission that does not exist yet.

    :param lost_epoch: Epoch whose loss it recovers.
    :param accept_loss: Whether the batch in flight may run without its missing input.
    """
    return Submission(
        attempt=attempt,
        submission_id=new_id(),
        requested_by=who(by),
        engine=engine,
        lost_epoch=lost_epoch,
        accept_loss=accept_loss,
        created_at=job.clock.now(),
    )


def claim(job: JobRecords, run: int, submission: Submission, *, also: tuple[Op, ...] = ()) -> bool:
    """Create the node of a submission; ``False`` if the number is taken, or the run has a result.

    Also ``False`` if a cancel of the run is open: its driver is dead, so the caller ends the run instead. Idempotent: a
    repeated call with the same submission returns the same value.

    :param also: Operations of the same transaction.
    :raises LeadershipError: This process acts for the cluster and no longer leads it.
    :raises JobStateError: The run is live but has no graph pointer, so it cannot be started.
    """
    path = job.paths.submission(run, submission.attempt)
    # Before its node: everything acknowledged can be rebuilt from storage alone.
    job.journal.submission(Run.from_bytes(job.coordinator.get(job.paths.run(run)).data, source="the run"), submission)
    if operations.open_cancels(job.coordinator, job.paths, run):  # guard: claim-undoes-a-cancel
        return _is_made(job, path, submission)
    live = _while_live(job, run, submission.attempt)
    if live is None:
        return False
    # guard: loss-is-claimed
    recovery = () if submission.lost_epoch is None else (_recovery(job, run, submission, submission.lost_epoch),)
    try:
        job.commit(live, Create(path, submission.to_bytes()), *recovery, *also)
    except (NodeMissingError, VersionConflictError) as error:
        if error.path != live.path:
            raise
        # guard: lost-race-is-claimed
        return False  # the run has ended since it was read, or another process was first
    except (NodeExistsError, OutcomeUnknownError):
        return _is_made(job, path, submission)
    return True


def promotion_ops(
    job: JobRecords, run: int, submission: Submission, handle: DriverHandle, led: SubmissionLed
) -> tuple[Op, ...]:
    """Return the operations by which a standby driver becomes a submission that leads, for the grant of the lock.

    They fail together when the run has ended, its newest submission is another one, or the standby driver's session has
    ended. The journal has the submission before its node exists.

    :param led: Record of the process that is to lead.
    :raises JobStateError: The run is over, or a cancel of it is open.
    """
    live = _while_live(job, run, submission.attempt)
    # guard: promotion-undoes-a-cancel
    if live is None or operations.open_cancels(job.coordinator, job.paths, run):
        raise JobStateError(f"run {run} of job {job.job_id!r} is over, or is being canceled")
    path, started = job.paths.submission(run, submission.attempt), SubmissionStarted(handle=handle)
    return (
        live,
        Create(path, submission.to_bytes()),
        Create(job.paths.submission_started(run, submission.attempt), started.to_bytes()),
        Create(job.paths.submission_led(run, submission.attempt), led.to_bytes()),
        # guard: promotion-claims-no-loss
        *(() if submission.lost_epoch is None else (_recovery(job, run, submission, submission.lost_epoch),)),
        # guard: lost-session-is-promoted
        StandbyStore(job.coordinator, job.paths, run).leave_op(submission.submission_id),
    )


def _is_made(job: JobRecords, path: str, submission: Submission) -> bool:
    """Return whether an earlier call with a lost response created the node, which then has this submission's id."""
    found = read_record(job.coordinator, path, Submission)
    return found is not None and found[0] == submission  # guard: claim-of-a-loss


def note_started(job: JobRecords, run: int, submission: Submission, handle: DriverHandle) -> None:
    """Record that an engine has accepted a submission: in storage, and once next to its node."""
    started = SubmissionStarted(handle=handle)
    job.journal.started(run, submission, started)
    create_once(job.coordinator, job.paths.submission_started(run, submission.attempt), started)


def note_not_launched(
    job: JobRecords, run: int, attempt: int, reason: str, *, outage: bool, unfit: bool = False
) -> None:
    """Write the exit of a submission that never had a driver.

    :param outage: Whether an outage prevented its start: then it does not count as an attempt.
    :param unfit: Whether the place prevented its start.
    """
    reason = public(reason)
    record = SubmissionExit(code=NOT_LAUNCHED, reason=reason, outage=outage, at=job.clock.now())
    if unfit:
        record = record.model_copy(update=judged(job, run, reason, refused=False))
    create_once(job.coordinator, job.paths.submission_exit(run, attempt), record)


def _recovery(job: JobRecords, run: int, submission: Submission, lost_epoch: int) -> Create:
    recovery = Recovery(
        lost_epoch=lost_epoch,
        run=run,
        attempt=submission.attempt,
        by=submission.requested_by,
        at=submission.created_at,
    )
    return Create(job.paths.recovery(lost_epoch), recovery.to_bytes())


def _while_live(job: JobRecords, run: int, attempt: int) -> SetData | None:
    """Return the write that asserts that the run has no result; ``None`` when it has one.

    A transaction cannot check that a node is absent. The graph pointer can replace that check: it is removed, or given
    to the next run, with the result. Without this, a recovery decided before a cancel would be submitted after it. The
    pointer is written, not only checked: it then names the attempt, for readers of many jobs.
    """
    node = job.coordinator.find(job.paths.job_graph)
    if node is not None:
        pointer = GraphPointer.from_bytes(node.data, source=node.path)
        if pointer.run == run:
            named = pointer.model_copy(update={"attempt": attempt})
            return SetData(node.path, named.to_bytes(), node.version)
    if job.runs.result(run) is None:
        raise JobStateError(
            f"run {run} of job {job.job_id!r} has no result, and the job's graph pointer is not its own",
            next_step="Inspect the job with `spark-ha cluster tree`",
        )
    return None


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
            raise JobStateError(
                f"run {number} of job {job.job_id!r} has a result already", next_step="Nothing needs to be done"
            )

    with take_lock(job, number, admit=admit) as leadership:
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
    :param admit: Called before each attempt and after the grant, because a driver may lead in between; an exception
        from it ends the wait, or releases the lock.
    :param timeout: Seconds to wait for it; a few by default.
    :raises LeadershipUnavailableError: Another process leads the job.
    """

    def describe(epoch: int) -> bytes:
        host, pid = socket.gethostname(), os.getpid()
        info = LeaderInfo(epoch=epoch, run=run, attempt=_NO_ATTEMPT, host=host, pid=pid, since=job.clock.now())
        return info.to_bytes()

    leadership = acquire(
        job.coordinator,
        job.paths,
        timings=job.config.timings,
        clock=job.clock,
        describe=describe,
        timeout=LOCK_SECONDS if timeout is None else timeout,
        admit=admit,
    )
    try:
        if admit is not None:
            admit()
    except BaseException:
        leadership.release()
        raise
    return leadership


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


def _ops(job: JobRecords, number: int, result: RunResult) -> list[Op]:
    ops: list[Op] = [
        job.runs.result_op(number, result),
        *operations.ending_ops(job.coordinator, job.paths, number, result),
    ]
    pointer = job.graphs.remove_op(number)
    if pointer is not None:
        ops.append(pointer)  # guard: result-removes-pointer
    return ops
