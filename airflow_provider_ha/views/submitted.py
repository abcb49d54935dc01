"""A run that a request has led to."""

from __future__ import annotations

from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.views.view import View


class SubmittedView(View):
    """The run of a request.

    :param job_id: The job.
    :param run: Number of the run.
    :param attempt: Its newest submission.
    :param created: Whether this call made the run; ``false`` when an earlier request of this id did.
    """

    job_id: str
    run: int
    attempt: int
    created: bool


class JobSubmittedView(SubmittedView):
    """The run of a submission from a shell, and its state at the end of the wait.

    :param request_id: Id of the request: repeated, it finds the run again.
    :param state: State of the run.
    :param epoch: Epoch of its leader, or of the leader that wrote its result; ``null`` before the first leader.
    :param host: Where its leader runs; ``null`` without one.
    :param checkpoint: Number of the last checkpoint of an ended run; ``null`` without a checkpoint.
    :param reason: Why the run has ended; ``null`` while it is live.
    """

    request_id: str
    state: JobState
    epoch: int | None
    host: str | None
    checkpoint: int | None
    reason: str | None


def job_submitted(run: SubmittedView, request_id: str, snapshot: JobStatus) -> JobSubmittedView:
    """Return the view of a run, which is the newest one of *snapshot*."""
    view, leader = snapshot.run, snapshot.leader
    result = view.result if view is not None else None
    led = leader if leader is not None and leader.run == run.run and result is None else None
    newest = view.newest.submission.attempt if view is not None and view.newest is not None else run.attempt
    return JobSubmittedView(
        job_id=run.job_id,
        run=run.run,
        attempt=newest,
        created=run.created,
        request_id=request_id,
        state=snapshot.state,
        epoch=result.epoch if result is not None else led.epoch if led is not None else None,
        host=led.host if led is not None else None,
        checkpoint=result.checkpoint if result is not None else None,
        reason=result.reason if result is not None else None,
    )
