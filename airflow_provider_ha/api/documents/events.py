"""Events of triggers of one job, for workers.

Invariant: an event crosses processes and releases: a key is never renamed, and one that is added has a default where it
is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_ha.api.documents.operation import OperationView
from airflow_provider_ha.api.documents.view import View
from airflow_provider_ha.jobs.model import JobState


if TYPE_CHECKING:
    from airflow_provider_ha.jobs.model import Operation, RunResult
    from airflow_provider_ha.jobs.runs.run_store import RunView
    from airflow_provider_ha.jobs.status import JobStatus


class ErrorEvent(View):
    """Something that waiting cannot resolve.

    :param reason: The object and the reason.
    """

    status: Literal["error"] = "error"
    reason: str


class LiveRunEvent(View):
    """A run that has no result.

    :param epoch: Epoch of the latest leadership of the job.
    :param attempt: Its newest submission; 0 for none.
    """

    job_id: str
    run: int
    epoch: int
    attempt: int


class RunningEvent(LiveRunEvent):
    """A run that has a leader and is RUNNING.

    :param state: Always ``RUNNING``.
    """

    status: Literal["running"] = "running"
    state: JobState = JobState.RUNNING


class LossEvent(LiveRunEvent):
    """A run that has lost its driver.

    :param status: ``lost``, or ``recover`` when the run is to be submitted again now.
    :param reason: Why it is lost.
    """

    status: Literal["lost", "recover"]
    reason: str


class RunEndedEvent(View):
    """A run that has a result.

    :param epoch: Epoch of the leader that wrote the result.
    :param state: ``FINISHED``, ``CANCELED`` or ``FAILED``.
    :param reason: For people.
    :param checkpoint: Number of the last checkpoint.
    """

    status: Literal["ended"] = "ended"
    job_id: str
    run: int
    epoch: int
    state: JobState
    reason: str
    checkpoint: int | None


class WaitFailedEvent(View):
    """A run that has ended before the awaited state, leader or checkpoint came.

    :param state: How it ended.
    :param reason: For people.
    """

    status: Literal["failed"] = "failed"
    run: int
    state: JobState
    reason: str


class WaitCompletedEvent(View):
    """The result of a wait.

    :param run: Number of the run: the leader's own, else the newest one.
    :param epoch: Epoch of the latest leadership.
    """

    status: Literal["success"] = "success"
    job_id: str
    run: int
    epoch: int


class LeaderEvent(WaitCompletedEvent):
    """The leader that is waited for.

    :param attempt: Submission of the run.
    """

    attempt: int
    host: str
    pid: int


class StateEvent(WaitCompletedEvent):
    """The state that is waited for.

    :param state: State of the run.
    """

    state: JobState


class CheckpointEvent(WaitCompletedEvent):
    """The checkpoint that is waited for.

    :param checkpoint: Number of the checkpoint.
    """

    checkpoint: int


class OperationEvent(View):
    """The answer to an operation.

    :param status: ``completed``, ``failed`` or ``abandoned``.
    :param operation: The operation.
    :param reason: Why it failed.
    """

    status: str
    operation: OperationView
    reason: str


class UnansweredStopEvent(View):
    """A stop that no driver has answered, and that none will: it needs no driver."""

    status: Literal["lost"] = "lost"


class OperationOfEndedRunEvent(OperationEvent):
    """The answer to an operation of a run that has a result.

    :param state: How the run ended.
    :param run_reason: Why, for people.
    """

    state: JobState
    run_reason: str


def running_event(snapshot: JobStatus, view: RunView) -> RunningEvent:
    """Return the event of a run that is RUNNING."""
    return RunningEvent(**_live(snapshot, view))


def loss_event(
    snapshot: JobStatus, view: RunView, reason: str, *, status: Literal["lost", "recover"] = "lost"
) -> LossEvent:
    """Return the event of a run that has lost its driver."""
    return LossEvent(status=status, reason=reason, **_live(snapshot, view))


def ended_event(job_id: str, run: int, result: RunResult) -> RunEndedEvent:
    """Return the event of a run with a result."""
    return RunEndedEvent.of(result, job_id=job_id, run=run)


def operation_event(operation: Operation, result: RunResult | None) -> OperationEvent:
    """Return the answer to an operation.

    :param result: Of the run that it was asked of; ``None`` while that is live.
    """
    status, shown = operation.state.value.lower(), OperationView.of(operation)
    if result is None:
        return OperationEvent(status=status, operation=shown, reason=operation.error)
    return OperationOfEndedRunEvent(
        status=status, operation=shown, reason=operation.error, state=result.state, run_reason=result.reason
    )


def _live(snapshot: JobStatus, view: RunView) -> dict[str, Any]:
    attempt = view.newest.submission.attempt if view.newest else 0
    return {"job_id": snapshot.job_id, "run": view.run.number, "epoch": snapshot.epoch, "attempt": attempt}
