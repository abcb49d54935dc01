"""Claiming a submission: of several processes that want to resubmit a run, only one does (design, contract 9).

Invariant: the node of a submission is created once, in one transaction with the check that the run is live and the
newest, and with the recovery of the lost epoch. The id in the node identifies its owner even if the answer is lost.
"""

from __future__ import annotations

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.coordination.coordinator import Create, Op, SetData
from airflow_provider_ha.coordination.records import create_once, read_record
from airflow_provider_ha.errors import (
    JobStateError,
    NodeExistsError,
    NodeMissingError,
    OutcomeUnknownError,
    VersionConflictError,
)
from airflow_provider_ha.jobs import operations
from airflow_provider_ha.jobs.job_records import JobRecords, who
from airflow_provider_ha.jobs.model import GraphPointer, Recovery, Run
from airflow_provider_ha.jobs.submissions import NOT_LAUNCHED, Handle, Submission, SubmissionExit, SubmissionStarted
from airflow_provider_ha.recovery.unfit import judged
from airflow_provider_ha.redaction import public


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

    :param by: The submitter.
    :param engine: Name of the engine that runs it.
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
    """Create the node of a submission; ``False`` when another one has its number, or the run has a result.

    Also ``False`` when a cancel of the run is open: its driver is dead, so the caller ends the run instead. Idempotent:
    a repeated call with the same submission returns the same value.

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
        return False  # the run has ended since it was read
    except (NodeExistsError, OutcomeUnknownError):
        return _is_made(job, path, submission)
    return True


def _is_made(job: JobRecords, path: str, submission: Submission) -> bool:
    """Return whether an earlier call, whose answer was lost, has made the node: only then does it hold its own id."""
    found = read_record(job.coordinator, path, Submission)
    return found is not None and found[0] == submission  # guard: claim-of-a-loss


def note_started(job: JobRecords, run: int, submission: Submission, handle: Handle) -> None:
    """Record that an engine has taken a submission: in storage, and once next to its node."""
    started = SubmissionStarted(handle=handle)
    job.journal.started(run, submission, started)
    create_once(job.coordinator, job.paths.submission_started(run, submission.attempt), started)


def note_not_launched(
    job: JobRecords, run: int, attempt: int, reason: str, *, outage: bool, unfit: bool = False
) -> None:
    """Write the exit of a submission that never had a driver.

    :param outage: Whether an outage prevented its start: then it does not count as an attempt.
    :param unfit: Whether the place prevented its start (:mod:`~airflow_provider_ha.recovery.unfit`).
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
            next_step="Inspect the job with `spark-ha tree`",
        )
    return None
