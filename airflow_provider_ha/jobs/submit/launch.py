"""Launch of a run's driver: one submission node, one winner, one launch, with any number of processes.

The submission node is created before the request to the engine, so a crash in between leaves a trace: a submission that
is not started. A submitter that finds this trace looks for the process first, because only the response may have been
lost, and creates the next attempt when the launch is overdue. If the overdue driver starts after all, it refuses
itself: only the newest submission may lead.
"""

from __future__ import annotations

import logging

from airflow_provider_ha.coordination.znode_records import read_record
from airflow_provider_ha.errors import (
    ConfigurationError,
    HaError,
    JobStateError,
    LeadershipUnavailableError,
    OutcomeUnknownError,
)
from airflow_provider_ha.host.engines.engine import PendingSubmission, RunningSubmission, observe_one
from airflow_provider_ha.jobs.drivers.driver_home import Ticket
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.model import LeaderInfo, Operation, Run
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.recovery.transactions import claim as claim_submission
from airflow_provider_ha.jobs.recovery.transactions import (
    conclude_canceled,
    new_submission,
    note_not_launched,
    note_started,
)
from airflow_provider_ha.jobs.runs.run_store import SubmissionView
from airflow_provider_ha.jobs.runs.submissions import Submission
from airflow_provider_ha.jobs.submit.standby_launch import end_queued_standbys, launch_standbys


log = logging.getLogger(__name__)

_POLL_SECONDS = 0.2


def ensure_submitted(job: JobContext, run: int, *, by: str) -> int:
    """Return the newest submission of a run, launching one if no other process does.

    A started submission is not checked for life: its death is a loss, see ``jobs.recovery.lost_runs``.
    """
    while True:
        view = job.runs.get(run)
        newest = view.submissions[-1] if view.submissions else None
        attempt = newest.submission.attempt if newest else 0
        if view.result is not None or (newest and (_on_its_way(newest) or _await_start(job, run, newest.submission))):
            return attempt
        engine = newest.submission.engine if newest else job.graph_of(view.run).target.engine
        made = claim(job, view.run, attempt + 1, by=by, engine=engine)
        if made is not None:
            launch(job, view.run, made)
            return attempt + 1
        for canceled in operations.open_cancels(job.coordinator, job.paths, run)[:1]:
            _end_canceled(job, canceled, by)


def claim(
    job: JobContext,
    run: Run,
    attempt: int,
    *,
    by: str,
    engine: str,
    lost_epoch: int | None = None,
    accept_loss: bool = False,
) -> Submission | None:
    """Create a submission's node; ``None`` if the number is taken, or if the run has ended or is canceled.

    The node has the handle that the engine reserves, so that a submission whose answer was lost is observed by it.

    :param lost_epoch: Epoch whose loss the submission recovers.
    :param accept_loss: Whether the batch in flight may be executed without its missing input.
    :raises LeadershipError: This process acts for the cluster but no longer leads it.
    :raises ConfigurationError: This process has no such engine, its cluster refuses the submission, or a driver on this
        host would end with the task. Raised before any write.
    :raises EngineUnavailableError: The engine's cluster does not answer. Raised before any write.
    :raises JobStateError: The run is live but has no graph pointer, so it cannot be started.
    """
    refuse_this_host(job, engine)
    submission = new_submission(job, attempt, by=by, engine=engine, lost_epoch=lost_epoch, accept_loss=accept_loss)
    reserved = job.engines.get(engine).reserve(_ticket(job, run, submission))
    submission = submission.model_copy(update={"reserved": reserved})
    return submission if claim_submission(job, run.number, submission) else None


def _ticket(job: JobContext, run: Run, submission: Submission) -> Ticket:
    return Ticket(
        job_id=job.job_id,
        run=run.number,
        attempt=submission.attempt,
        submission_id=submission.submission_id,
        graph=run.graph,
    )


def end_drivers(job: JobContext, run: int) -> None:
    """Ask the engines to end and forget the submissions of an ended run whose death is on no record.

    Such a submission may wait in the queue of a cluster, or run on a host that is cut off. If it cannot be reached, its
    driver refuses itself when it starts, or is fenced.
    """
    for view in job.runs.get(run).submissions:
        handle = view.submission.reserved if view.started is None else view.started.handle
        if handle is None or view.exit is not None:
            continue
        try:
            engine = job.engines.get(handle.engine)
            engine.terminate(handle)
            engine.forget(handle)
        except HaError as error:
            log.info("attempt %d of %s run %d is left to itself: %s", view.submission.attempt, job.job_id, run, error)
    end_queued_standbys(job, run)


def _end_canceled(job: JobContext, canceled: Operation, by: str) -> None:
    """End a run with an open cancel and without a driver, or wait a moment for the process that leads the job."""
    try:
        conclude_canceled(job, canceled, by=by)
    except (JobStateError, LeadershipUnavailableError) as error:
        log.info("run %d of %s does not end yet: %s", canceled.run, job.job_id, error)
        job.sleep(_POLL_SECONDS)
    else:
        end_drivers(job, canceled.run)


def refuse_this_host(job: JobContext, engine: str) -> None:
    """Refuse to submit where a driver would end with the task.

    :raises ConfigurationError: The driver would end with the task, or this process has no such engine.
    """
    job.engines.get(engine).check_host()


def launch(job: JobContext, run: Run, submission: Submission) -> None:
    """Start the driver of a submission that this process has created, and record the start.

    If the engine does not answer, the submission stays open: its supervisor records the start, or the next caller finds
    the launch overdue.

    :raises ConfigurationError: The driver cannot be started on this host; the submission is closed with the reason.
    :raises EngineUnavailableError: The engine's cluster does not answer; the submission is closed and no attempt.
    :raises StorageUnavailableError: The work root does not answer; the submission is closed and is not an attempt.
    """
    engine = job.engines.get(submission.engine)
    try:
        if job.config.home_root is None:
            job.roots.require()  # because the engine creates a directory in the work root
        handle = engine.launch(_ticket(job, run, submission), submission.reserved)
    except OutcomeUnknownError as error:
        # The driver may run, so an exit would be a false proof of death. It reports its start, or becomes overdue.
        log.warning("attempt %d of %s run %d: %s", submission.attempt, job.job_id, run.number, error)
        return
    except HaError as error:
        reason = f"it could not be launched: {error}"
        unfit = isinstance(error, ConfigurationError)
        note_not_launched(job, run.number, submission.attempt, reason, outage=error.retryable, unfit=unfit)
        raise
    note_started(job, run.number, submission, handle)
    launch_standbys(job, run, engine)


def _on_its_way(view: SubmissionView) -> bool:
    return view.started is not None or view.exit is not None


def _await_start(job: JobContext, run: int, submission: Submission) -> bool:
    """Wait until a submission is started, and adopt its process; ``False`` if the launch is overdue."""
    paths, attempt = job.paths, submission.attempt
    engine = job.engines.get(submission.engine)
    deadline = job.clock.lease_time() + engine.facts.launch_seconds
    while True:
        seen = observe_one(engine, submission.submission_id, submission.reserved)
        if isinstance(seen, RunningSubmission):
            note_started(job, run, submission, seen.handle)
            return True
        if job.coordinator.find(paths.submission_started(run, attempt)) is not None:
            return True
        if job.coordinator.find(paths.submission_exit(run, attempt)) is not None:
            return True
        leader = read_record(job.coordinator, paths.leader, LeaderInfo)
        if leader is not None and (leader[0].run, leader[0].attempt) == (run, attempt):
            return True
        waits = isinstance(seen, PendingSubmission) and not seen.final
        if not waits and job.clock.lease_time() >= deadline:
            log.warning("submission %d of %s run %d was never started: %s", attempt, job.job_id, run, seen)
            return False
        job.sleep(engine.facts.poll_seconds)
