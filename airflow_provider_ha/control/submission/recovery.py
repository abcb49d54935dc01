"""After a loss: read, decide, act in one transaction. Of many processes that try it, one recovers (contract 9)."""

from __future__ import annotations

import logging

from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.control.job.requests import SubmittedRun
from airflow_provider_ha.control.submission.launch import claim, ensure_submitted, launch
from airflow_provider_ha.control.submission.unknown_job import refuse_unknown
from airflow_provider_ha.engines.engine import Gone, Unknown
from airflow_provider_ha.errors import DecisionNeededError, JobStateError, UnknownJobError
from airflow_provider_ha.jobs import operations
from airflow_provider_ha.jobs.model import Operation
from airflow_provider_ha.jobs.runs import RunView, refuse_other_run
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.recovery.conclude import conclude_canceled, conclude_given_up
from airflow_provider_ha.recovery.restart import Decision, GiveUp, NeedsDecision, Over, Resubmit, decide


log = logging.getLogger(__name__)


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
        if isinstance(decision, Over):
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


def _decide(job: JobContext, snapshot: JobStatus, run: RunView, *, overdue: bool, decided: bool) -> Decision:
    options = job.graph_of(run.run).options
    newest = run.newest
    gone = False
    if newest is not None and newest.started is not None and newest.exit is None:
        engine = job.engines.get(newest.submission.engine)
        seen = engine.observe(newest.submission.submission_id, newest.started.handle)
        gone = isinstance(seen, Gone) or (overdue and isinstance(seen, Unknown))
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
