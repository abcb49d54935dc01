"""Recovery of a lost run: the next attempt, or its end without a driver.

Invariants:

- A process ends only the lost run that it has seen. The lock is granted under the next epoch, so any later epoch shows
  that a driver has led in between: then the run is left unchanged.
- The result and the removal of the graph pointer are committed in one transaction. A recovery needs that pointer in its
  own transaction (``jobs.submit.launch``). If the result is first, the recovery is rejected; otherwise the launched
  driver finds the result and refuses itself.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from airflow_provider_ha.coordination.coordinator import Op
from airflow_provider_ha.errors import DecisionNeededError, JobStateError, LeadershipError, UnknownJobError
from airflow_provider_ha.host.engines.engine import GoneSubmission, UnknownSubmission, observe_one
from airflow_provider_ha.jobs.condition import JobCondition, decide
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.job_records import who
from airflow_provider_ha.jobs.model import JobState, Run, RunEnd, RunResult
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.rebuild.rebuild import refuse_unknown
from airflow_provider_ha.jobs.recovery import transactions
from airflow_provider_ha.jobs.recovery.restart_policy import GiveUp, NeedsDecision, Resubmit
from airflow_provider_ha.jobs.recovery.transactions import conclude_canceled, conclude_given_up
from airflow_provider_ha.jobs.runs.run_store import RunView, refuse_other_run
from airflow_provider_ha.jobs.runs.standbys import TURN_SECONDS, StandbyStore
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.jobs.submit.launch import claim, end_drivers, ensure_submitted, launch
from airflow_provider_ha.jobs.submit.requests import SubmittedRun


log = logging.getLogger(__name__)

SUPERVISOR_SECONDS = 2.0  # a supervisor reports the end of its driver after some 100 ms
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRun:
    """A live run with a lost driver, as read.

    :param epoch: Latest epoch of the job; 0 if it was never led.
    :param checkpoint: Number of the newest retained checkpoint; ``None`` without one.
    :param worked: Whether the run has a working directory, so that it may have committed batches.
    :param lingering: Whether the leader node of the dead driver still exists, until its session ends.
    :param proven: Whether all processes of the driver are proven dead.
    """

    run: Run
    epoch: int
    checkpoint: int | None
    worked: bool
    lingering: bool
    proven: bool

    @property
    def number(self) -> int:
        """Number of the run."""
        return self.run.number

    @property
    def forgetful(self) -> bool:
        """``True`` if the end of the run would forget its work: possibly committed batches, and no checkpoint."""
        return self.worked and self.checkpoint is None


def lost_run(snapshot: JobStatus) -> LostRun | None:
    """Return the newest run when its driver is lost, else ``None``. Pure."""
    if snapshot.run is None or snapshot.state is not JobState.LOST:
        return None
    run, generation = snapshot.run.run, snapshot.generation
    return LostRun(
        run=run,
        epoch=snapshot.epoch,
        checkpoint=snapshot.latest_checkpoint,
        worked=generation is not None and generation.run == run.number,
        lingering=snapshot.leader is not None,
        proven=snapshot.is_proven_dead,
    )


def end_lost(job: JobContext, lost: LostRun, result: RunResult, *, also: Sequence[Op]) -> None:
    """Write *result* for a lost run, and *also*, in one transaction.

    :param result: The lock's epoch replaces its epoch; open requests are answered from its end
        (``operations.ending_ops``).
    :param also: Further operations, such as the removal of the graph pointer.
    :raises JobStateError: The run has a result already, or a driver has led it in between.
    :raises LeadershipError: Another process leads the job now.
    :raises OutcomeUnknownError: The response was lost: the run may have the result.
    """

    def admit() -> None:
        if job.runs.result(lost.number) is not None:
            raise JobStateError(f"run {lost.number} of job {job.job_id!r} has a result already")

    # The session of a dead driver may not have expired yet.
    linger = job.config.timings.session_timeout if lost.lingering else 0.0
    with transactions.take_lock(
        job, lost.number, admit=admit, timeout=transactions.LOCK_SECONDS + linger
    ) as leadership:
        if leadership.epoch != lost.epoch + 1:  # guard: lost-run-that-was-led-since-is-ended
            raise JobStateError(f"run {lost.number} of job {job.job_id!r} has been led again since")
        written = result.model_copy(update={"epoch": leadership.epoch})
        job.journal.result(lost.number, written)
        answers = operations.ending_ops(job.coordinator, job.paths, lost.number, written)
        leadership.commit(job.runs.result_op(lost.number, written), *answers, *also)
    end_drivers(job, lost.number)
    log.info("run %d of %s is %s: %s", lost.number, job.job_id, written.state.value, written.reason)


def carry_out_cancel(job: JobContext, lost: LostRun, *, by: str) -> bool:
    """End a lost run as CANCELED if it has an open cancel, which a restart would ignore.

    The supervisor of the driver comes first: it writes CANCELED after the death of all processes. Without a proof of
    death, wait for the supervisor as long as a loss is debounced.

    Returns whether a cancel was open; the caller then reads the job again.

    :raises OutcomeUnknownError: As :func:`end_lost`.
    """
    wanted = operations.open_cancels(job.coordinator, job.paths, lost.number)
    if not wanted:
        return False
    if not lost.proven and _supervised(job, lost):
        return True
    end = RunEnd.of(wanted[0], {})
    result = result_of(job, lost, JobState.CANCELED, reason=transactions.CANCELED_WITHOUT_A_DRIVER, by=by, end=end)
    try:
        end_lost(job, lost, result, also=pointer_ops(job, lost))
    except (JobStateError, LeadershipError) as error:
        log.info("the cancel of run %d of %s is left to its leader: %s", lost.number, job.job_id, error)
    return True


def _supervised(job: JobContext, lost: LostRun) -> bool:
    """Wait for the supervisor of a lost driver; return whether to read the job again."""
    deadline = job.clock.lease_time() + SUPERVISOR_SECONDS
    while job.clock.lease_time() < deadline:
        view = job.runs.get(lost.number)
        if view.result is not None or (view.newest is not None and view.newest.exit is not None):
            return True
        job.sleep(_POLL_SECONDS)
    return False


def pointer_ops(job: JobContext, lost: LostRun) -> list[Op]:
    """Return the operations for a result that leaves the job without a live run: the removal of its graph pointer."""
    pointer = job.graphs.remove_op(lost.number)
    return [] if pointer is None else [pointer]


def result_of(
    job: JobContext,
    lost: LostRun,
    state: Literal[JobState.FINISHED, JobState.CANCELED],
    *,
    reason: str,
    by: str,
    end: RunEnd | None = None,
) -> RunResult:
    """Return the result of a lost run, from whose newest retained checkpoint the job can continue.

    :param by: Name of the process that ends the run, for users.
    :param end: The request that ends it.
    """
    return RunResult(
        state=state,
        epoch=lost.epoch,
        reason=f"{reason} ({who(by)})",
        checkpoint=lost.checkpoint,
        end=end,
        at=job.clock.now(),
    )


def recover(
    job: JobContext,
    *,
    by: str,
    wait: bool = True,
    overdue: bool = False,
    run_number: int | None = None,
    accept_loss: bool = False,
) -> SubmittedRun:
    """Submit the newest run again if its driver is lost; otherwise return its newest submission.

    Waits for the delay of the restart strategy, and for a standby driver that is ready, then reads the job again. The
    driver is started from the persisted graph.

    :param wait: Whether to wait for the delay of the restart strategy; ``False`` if the caller has waited already.
    :param overdue: Whether the newest submission has had enough time to lead. If it was started, does not lead and is
        not reported as running by its engine, it is given up; if its driver starts after all, it refuses itself because
        it is no longer the newest.
    :param run_number: The run to recover; the newest by default.
    :param accept_loss: Whether the user accepts to continue without missing input: a run that waits for a decision is
        submitted again.
    :raises DecisionNeededError: The user has to decide how the run continues; the run is unchanged.
    :raises JobStateError: The run has a result, has used up its attempts (and is FAILED now), had an open cancel (and
        is CANCELED now), or is not the newest.
    """
    waited: set[int] = set()
    first_turn = _FirstTurn(job)
    while True:
        snapshot, run = _newest_run(job)
        refuse_other_run("recovery", job.job_id, seen=run_number, newest=run.run.number)
        condition = _decide(job, snapshot, run, overdue=overdue, decided=accept_loss)
        decision = condition.restart
        log.info("job %s run %d: %s", job.job_id, run.run.number, decision or condition.reason)
        if run.result is not None:
            raise _over(job.job_id, run, condition)
        if condition.state == JobState.LOST and (
            # left open by the lost driver; a restart of the run would ignore it
            wanted := operations.open_cancels(job.coordinator, job.paths, run.run.number)
        ):
            conclude_canceled(job, wanted[0], by=by)
            end_drivers(job, run.run.number)
            raise _over(job.job_id, run, decide(job.snapshot(), None, job.clock.now()))
        if isinstance(decision, NeedsDecision):
            raise DecisionNeededError(decision.reason.removesuffix("."))
        if isinstance(decision, GiveUp):
            conclude_given_up(job, decision, by=by)
            end_drivers(job, run.run.number)
            raise JobStateError(f"job {job.job_id!r} has FAILED: {decision.reason}", next_step=condition.next_step)
        if decision is None and condition.state == JobState.LOST:
            raise JobStateError(f"job {job.job_id!r} is lost: {condition.reason}", next_step=condition.next_step)
        if not isinstance(decision, Resubmit):
            attempt = ensure_submitted(job, run.run.number, by=by)
            return SubmittedRun(job_id=job.job_id, run=run.run.number, attempt=attempt, created=False)
        if wait and decision.after > 0 and decision.attempt not in waited:
            waited.add(decision.attempt)
            job.sleep(decision.after)
            continue
        if first_turn.is_over(run) and _resubmit(job, run, decision, by, accept_loss=accept_loss):
            return SubmittedRun(job_id=job.job_id, run=run.run.number, attempt=decision.attempt, created=True)


class _FirstTurn:
    """First turn at a loss, which a standby driver has that is ready."""

    def __init__(self, job: JobContext) -> None:
        self._job = job
        self._end: float | None = None

    def is_over(self, run: RunView) -> bool:
        """Return whether no standby driver has the first turn; otherwise wait a moment first."""
        if not StandbyStore(self._job.coordinator, self._job.paths, run.run.number).is_ready():
            return True
        now = self._job.clock.lease_time()
        self._end = self._end or now + TURN_SECONDS
        if now < self._end:  # guard: recovery-races-a-standby
            self._job.sleep(_POLL_SECONDS)
            return False
        return True


def _newest_run(job: JobContext) -> tuple[JobStatus, RunView]:
    try:
        snapshot = job.snapshot()
    except UnknownJobError:
        refuse_unknown(job)
        raise
    if snapshot.run is None:
        raise JobStateError(f"job {job.job_id!r} has no run to recover", next_step="Submit it (SparkHaSubmitOperator)")
    return snapshot, snapshot.run


def delay_left(job: JobContext, snapshot: JobStatus) -> float:
    """Return the seconds until the restart strategy lets the newest run be submitted again.

    :raises HaError: The run's graph, which has its options, could not be read.
    """
    if snapshot.run is None:
        return 0.0
    decision = decide(snapshot, job.graph_of(snapshot.run.run).options, job.clock.now()).restart
    return decision.after if isinstance(decision, Resubmit) else 0.0


def _decide(job: JobContext, snapshot: JobStatus, run: RunView, *, overdue: bool, decided: bool) -> JobCondition:
    options = job.graph_of(run.run).options
    newest = run.newest
    gone = False
    if newest is not None and newest.started is not None and newest.exit is None:
        engine = job.engines.get(newest.submission.engine)
        seen = observe_one(engine, newest.submission.submission_id, newest.started.handle)
        gone = isinstance(seen, GoneSubmission) or (overdue and isinstance(seen, UnknownSubmission))
    return decide(replace(snapshot, gone=gone), options, job.clock.now(), decided=decided)


def _resubmit(job: JobContext, run: RunView, decision: Resubmit, by: str, *, accept_loss: bool) -> bool:
    lost = run.newest
    engine = lost.submission.engine if lost is not None else job.graph_of(run.run).target.engine
    made = claim(
        job,
        run.run,
        decision.attempt,
        by=by,
        engine=engine,
        lost_epoch=decision.lost_epoch,
        accept_loss=accept_loss,
    )
    if made is None:
        return False
    launch(job, run.run, made)
    return True


def _over(job_id: str, run: RunView, condition: JobCondition) -> JobStateError:
    return JobStateError(
        f"run {run.run.number} of job {job_id!r} is {condition.state} and is never run again",
        next_step=condition.next_step,
    )
