"""Recovery of a lost run: the next attempt, or its end without a driver.

Invariants:

- A process ends only the lost run that it has seen. The lock is granted under the next epoch, so an epoch that is not
  the next one says that a driver has led in between: then nothing is changed.
- The result, the removal of the graph pointer and all that goes with them are one transaction. A recovery needs that
  pointer in its own transaction (``control.submission.launch``), so of the two one is rejected, or the driver that it
  has launched finds the result and refuses itself.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from airflow_provider_ha.coordination.coordinator import Op
from airflow_provider_ha.errors import DecisionNeededError, JobStateError, LeadershipError, UnknownJobError
from airflow_provider_ha.host.engines.engine import GoneSubmission, UnknownSubmission
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.job_records import who
from airflow_provider_ha.jobs.model import JobState, Operation, Run, RunEnd, RunResult
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.rebuild.rebuild import refuse_unknown
from airflow_provider_ha.jobs.recovery import transactions
from airflow_provider_ha.jobs.recovery.restart_policy import (
    GiveUp,
    NeedsDecision,
    RestartDecision,
    Resubmit,
    RunOver,
    decide,
)
from airflow_provider_ha.jobs.recovery.transactions import conclude_canceled, conclude_given_up
from airflow_provider_ha.jobs.runs.run_store import RunView, refuse_other_run
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.jobs.submit.launch import claim, ensure_submitted, launch
from airflow_provider_ha.jobs.submit.requests import SubmittedRun


log = logging.getLogger(__name__)

SUPERVISOR_SECONDS = 2.0  # between the end of a driver and the word of its supervisor pass some 100 ms
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRun:
    """A live run whose driver is lost, as it was seen.

    :param epoch: Latest epoch of the job; 0 when it was never led.
    :param checkpoint: Number of the newest retained checkpoint; ``None`` when the job has none.
    :param worked: Whether the run has a working directory: then it may have committed batches.
    :param lingering: Whether the leader node of the dead driver is still there, until its session ends.
    :param proven: Whether the death of every process of the driver is proven.
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
        """Whether its end would forget what it has done: it may have committed batches, and there is no checkpoint."""
        return self.worked and self.checkpoint is None


def lost_run(snapshot: JobStatus) -> LostRun | None:
    """Return the newest run when its driver is lost, else ``None``. Pure."""
    if snapshot.run is None or snapshot.state is not JobState.LOST:
        return None
    run, newest, generation = snapshot.run.run, snapshot.run.newest, snapshot.generation
    return LostRun(
        run=run,
        epoch=snapshot.epoch,
        checkpoint=snapshot.latest_checkpoint,
        worked=generation is not None and generation.run == run.number,
        lingering=snapshot.leader is not None,
        proven=newest is not None and newest.exit is not None,
    )


def end_lost(job: JobContext, lost: LostRun, result: RunResult, *, also: Sequence[Op]) -> None:
    """Write *result* for a lost run, and *also*, in one transaction.

    :param result: Its epoch is replaced by that of the lock; its end answers what is open (``operations.ending_ops``).
    :param also: What becomes of the graph pointer, and what else goes with the result.
    :raises JobStateError: The run has a result already, or a driver has led it since it was seen.
    :raises LeadershipError: Another process leads the job now.
    :raises OutcomeUnknownError: Sent and not answered: the run may have the result.
    """

    def admit() -> None:
        if job.runs.result(lost.number) is not None:
            raise JobStateError(f"run {lost.number} of job {job.job_id!r} has a result already")

    # The session of a driver that is proven dead may still have to run out.
    linger = job.config.timings.session_timeout if lost.lingering else 0.0
    with transactions.take_lock(
        job, lost.number, admit=admit, timeout=transactions.LOCK_SECONDS + linger
    ) as leadership:
        admit()  # a driver may have led, and ended the run, between the first look and the grant
        if leadership.epoch != lost.epoch + 1:  # guard: lost-run-that-was-led-since-is-ended
            raise JobStateError(f"run {lost.number} of job {job.job_id!r} has been led again since")
        written = result.model_copy(update={"epoch": leadership.epoch})
        job.journal.result(lost.number, written)
        answers = operations.ending_ops(job.coordinator, job.paths, lost.number, written)
        leadership.commit(job.runs.result_op(lost.number, written), *answers, *also)
    log.info("run %d of %s is %s: %s", lost.number, job.job_id, written.state.value, written.reason)


def carry_out_cancel(job: JobContext, lost: LostRun, *, by: str) -> bool:
    """End a lost run as CANCELED when a cancel of it is open: the next process must not undo the request.

    The supervisor of the driver comes first: it says CANCELED once every process is dead. While that death is not
    proven it is waited for, as long as a loss is debounced; without a supervisor no process will prove it.

    Returns whether one was open; the caller reads the job again then.

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
    """Wait for the supervisor of a lost driver; returns whether the job is worth another look."""
    deadline = job.clock.lease_time() + SUPERVISOR_SECONDS
    while job.clock.lease_time() < deadline:
        view = job.runs.get(lost.number)
        if view.result is not None or (view.newest is not None and view.newest.exit is not None):
            return True
        job.sleep(_POLL_SECONDS)
    return False


def pointer_ops(job: JobContext, lost: LostRun) -> list[Op]:
    """Return what goes with a result after which the job has no live run: the removal of its graph pointer."""
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
    """Return the result of a lost run; the job can go on from its newest retained checkpoint.

    :param by: Name of the process that ends it, for people.
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
    """Submit the newest run again when its driver is lost; find it again when it is not, or when it was recovered.

    Waits for the delay of the restart strategy, then looks again. The driver is started from the persisted graph.

    :param by: Caller, as recorded for people.
    :param wait: Whether to wait for the delay of the restart strategy; ``False`` when the caller has waited already.
    :param overdue: Whether the newest submission has had all its time to lead. One that was started, does not lead and
        is not reported as running by its engine is given up; should it come up after all, it refuses itself, for it is
        not the newest any more.
    :param run_number: The run that is meant; the newest one when left out.
    :param accept_loss: Whether its user has decided that it goes on, also without input that is gone: a run that waits
        for a decision is submitted again.
    :raises DecisionNeededError: Its user has to decide what it goes on from; nothing was changed.
    :raises JobStateError: The run has a result, or has used up its attempts (it is FAILED now), or a cancel of it was
        open (it is CANCELED now), or it is not the newest one.
    """
    waited: set[int] = set()
    while True:
        snapshot = _snapshot(job)
        run = _run(snapshot)
        refuse_other_run("recovery", job.job_id, seen=run_number, newest=run.run.number)
        decision = _decide(job, snapshot, run, overdue=overdue, decided=accept_loss)
        log.info("job %s run %d: %s", job.job_id, run.run.number, decision)
        if isinstance(decision, RunOver):
            raise _over(job.job_id, run)
        if isinstance(decision, GiveUp | Resubmit | NeedsDecision) and (wanted := _open_cancel(job, run)) is not None:
            conclude_canceled(job, wanted, by=by)
            raise _over(job.job_id, job.runs.get(run.run.number))
        if isinstance(decision, NeedsDecision):
            raise DecisionNeededError(decision.reason.removesuffix("."))
        if isinstance(decision, GiveUp):
            conclude_given_up(job, decision, by=by)
            raise _failed(job.job_id, decision)
        if not isinstance(decision, Resubmit):
            attempt = ensure_submitted(job, run.run.number, by=by)
            return SubmittedRun(job_id=job.job_id, run=run.run.number, attempt=attempt, created=False)
        if wait and decision.after > 0 and decision.attempt not in waited:
            waited.add(decision.attempt)
            job.sleep(decision.after)
            continue
        if _resubmit(job, run, decision, by, accept_loss=accept_loss):
            return SubmittedRun(job_id=job.job_id, run=run.run.number, attempt=decision.attempt, created=True)


def _snapshot(job: JobContext) -> JobStatus:
    try:
        return job.snapshot()
    except UnknownJobError:
        refuse_unknown(job)
        raise


def delay_left(job: JobContext, snapshot: JobStatus) -> float:
    """Return the seconds that the restart strategy wants to wait before the newest run is submitted again.

    :raises HaError: The run's graph, which holds its options, could not be read.
    """
    if snapshot.run is None:
        return 0.0
    decision = decide(snapshot, job.graph_of(snapshot.run.run).options, now=job.clock.now())
    return decision.after if isinstance(decision, Resubmit) else 0.0


def _run(snapshot: JobStatus) -> RunView:
    if snapshot.run is None:
        raise JobStateError(
            f"job {snapshot.job_id!r} has no run to recover", next_step="Submit it (SparkHaSubmitOperator)"
        )
    return snapshot.run


def _open_cancel(job: JobContext, run: RunView) -> Operation | None:
    """Return a cancel that the lost driver has left open: to start the run again would undo what was asked."""
    return next(iter(operations.open_cancels(job.coordinator, job.paths, run.run.number)), None)


def _decide(job: JobContext, snapshot: JobStatus, run: RunView, *, overdue: bool, decided: bool) -> RestartDecision:
    options = job.graph_of(run.run).options
    newest = run.newest
    gone = False
    if newest is not None and newest.started is not None and newest.exit is None:
        engine = job.engines.get(newest.submission.engine)
        seen = engine.observe(newest.submission.submission_id, newest.started.handle)
        gone = isinstance(seen, GoneSubmission) or (overdue and isinstance(seen, UnknownSubmission))
    return decide(snapshot, options, now=job.clock.now(), newest_is_gone=gone, decided=decided)


def _resubmit(job: JobContext, run: RunView, decision: Resubmit, by: str, *, accept_loss: bool) -> bool:
    lost = run.newest
    engine = lost.submission.engine if lost is not None else job.graph_of(run.run).target.engine
    made = claim(
        job,
        run.run.number,
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


def _over(job_id: str, run: RunView) -> JobStateError:
    state = run.result.state.value if run.result else "over"
    return JobStateError(
        f"run {run.run.number} of job {job_id!r} is {state} and is never run again",
        next_step=f"Submit it again (SparkHaSubmitOperator), or restore it: `spark-ha restore {job_id}`, "
        "SparkHaRestoreOperator",
    )


def _failed(job_id: str, decision: GiveUp) -> JobStateError:
    return JobStateError(
        f"job {job_id!r} has FAILED: {decision.reason}",
        next_step=f"Read the driver's log with `spark-ha job logs {job_id}`, then submit the job again "
        "(SparkHaSubmitOperator), or restore it from its latest checkpoint: "
        f"`spark-ha restore {job_id}`, SparkHaRestoreOperator",
    )
