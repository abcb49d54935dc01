"""Events of triggers, for workers and asset watchers.

Invariant: an event crosses processes and releases: a key is never renamed, and one that is added has a default where it
is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_ha.api.documents.operation import OperationView
from airflow_provider_ha.api.documents.view import View
from airflow_provider_ha.errors import HaError
from airflow_provider_ha.jobs.model import JobState


if TYPE_CHECKING:
    from airflow_provider_ha.jobs.model import Operation, RunResult
    from airflow_provider_ha.jobs.runs.run_store import RunView
    from airflow_provider_ha.jobs.status import JobStatus


class ErrorEvent(View):
    """Something that waiting cannot resolve.

    :param status: Always ``error``.
    :param reason: The object and the reason.
    """

    status: Literal["error"] = "error"
    reason: str


class LiveRunEvent(View):
    """A run that has no result.

    :param job_id: The job.
    :param run: Number of the run.
    :param epoch: Epoch of the latest leadership of the job.
    :param attempt: Its newest submission; 0 for none.
    """

    job_id: str
    run: int
    epoch: int
    attempt: int


class RunningEvent(LiveRunEvent):
    """A run that has a leader and is RUNNING.

    :param status: Always ``running``.
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

    :param status: Always ``ended``.
    :param job_id: The job.
    :param run: Number of the run.
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

    :param status: Always ``failed``.
    :param run: Number of the run.
    :param state: How it ended.
    :param reason: For people.
    """

    status: Literal["failed"] = "failed"
    run: int
    state: JobState
    reason: str


class WaitCompletedEvent(View):
    """The result of a wait.

    :param status: Always ``success``.
    :param job_id: The job.
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
    :param host: Host of the driver.
    :param pid: Its process id.
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
    """A stop that no driver has answered, and that none will: it needs no driver.

    :param status: Always ``lost``.
    """

    status: Literal["lost"] = "lost"


class OperationOfEndedRunEvent(OperationEvent):
    """The answer to an operation of a run that has a result.

    :param state: How the run ended.
    :param run_reason: Why, for people.
    """

    state: JobState
    run_reason: str


class LeaderlessEvent(View):
    """A job of the cluster that has no leader, and needs one.

    :param job_id: The job.
    :param reason: Why it has no leader.
    :param run: Number of its newest run; left out, as *attempt* and *epoch*, for a job that cannot be read.
    :param attempt: Its newest submission; 0 for none.
    :param epoch: Epoch of the latest leadership.
    :param lasted: Seconds for which this has lasted; of ``no_leader`` from a watcher that only reports, since the first
        loss of the outage.
    """

    job_id: str
    reason: str
    run: int | None = None
    attempt: int | None = None
    epoch: int | None = None
    lasted: float

    def to_json(self) -> dict[str, Any]:
        """Return the event; a DAG finds no key without a value."""
        return self.model_dump(mode="json", exclude_none=True)


class NoLeaderEvent(LeaderlessEvent):
    """A job of the cluster that has no leader, and that has to be recovered.

    :param event: Always ``no_leader``.
    """

    event: Literal["no_leader"] = "no_leader"


class QuarantinedEvent(LeaderlessEvent):
    """A job of the cluster that is in quarantine: nothing recovers it until a person has released it.

    :param event: Always ``quarantined``.
    :param reason: Why it is in quarantine.
    """

    event: Literal["quarantined"] = "quarantined"


class LeadershipGrantedEvent(View):
    """A leadership of a job of the cluster that was granted.

    :param event: Always ``leadership_granted``.
    :param job_id: The job.
    :param run: Run that it leads.
    :param attempt: Number of the submission within the run.
    :param epoch: Epoch of the leadership.
    :param host: Host of the driver.
    :param pid: Its process id.
    :param lasted: Seconds for which this has lasted.
    """

    event: Literal["leadership_granted"] = "leadership_granted"
    job_id: str
    run: int
    attempt: int
    epoch: int
    host: str
    pid: int
    lasted: float


class NotInspectedEvent(View):
    """A leader of the cluster that recovers nothing: it has inspected no job for five minutes.

    :param event: Always ``not_inspected``.
    :param job_id: Empty: it concerns every job.
    :param cluster: The cluster.
    :param reason: The leader of the cluster, and the time since the last inspection of a job.
    :param epoch: Epoch of the leadership of the cluster.
    :param host: Host of the process.
    :param pid: Its process id.
    :param address: Where it is found.
    :param lasted: Seconds for which the trigger has seen it.
    """

    event: Literal["not_inspected"] = "not_inspected"
    job_id: str
    cluster: str
    reason: str
    epoch: int
    host: str
    pid: int
    address: str
    lasted: float


class AlertEvent(View):
    """A condition of a job that a person should know of.

    :param job_id: The job.
    :param run: Number of the run: the newest, or a run that failed just before it.
    :param reason: The problem, as a sentence without a final stop.
    :param lasted: Seconds for which the trigger has seen it.
    """

    job_id: str
    run: int
    reason: str
    lasted: float


class RecoveredEvent(View):
    """A job that is led again after an outage that was reported, as ``no_leader`` or ``quarantined``.

    :param event: Always ``recovered``.
    :param job_id: The job.
    :param run: Run that is led.
    :param attempt: Number of the submission within the run.
    :param epoch: Epoch of the new leadership.
    :param host: Host of the new driver.
    :param pid: Its process id.
    :param took: Seconds from the loss, as the trigger saw it, to the new leader.
    :param lasted: Seconds for which the new leader has led.
    """

    event: Literal["recovered"] = "recovered"
    job_id: str
    run: int
    attempt: int
    epoch: int
    host: str
    pid: int
    took: float
    lasted: float


class BudgetExhaustedEvent(AlertEvent):
    """A run that FAILED because its attempts are used up, or its application failed too often at one batch.

    :param event: Always ``restart_budget_exhausted``.
    :param ended_at: When the run got its result.
    :param checkpoint: Number of its last checkpoint.
    """

    event: Literal["restart_budget_exhausted"] = "restart_budget_exhausted"
    ended_at: datetime
    checkpoint: int | None


class RunFailedEvent(AlertEvent):
    """A run that FAILED for any other reason: its script was refused, or its driver ended it.

    :param event: Always ``run_failed``.
    :param ended_at: When the run got its result.
    :param checkpoint: Number of its last checkpoint.
    """

    event: Literal["run_failed"] = "run_failed"
    ended_at: datetime
    checkpoint: int | None


class RunFailingEvent(AlertEvent):
    """A live run whose newest attempts have failed one after the other; it is started again and again.

    :param event: Always ``failing``.
    :param reason: How the newest attempt that has ended did, at which batch, and how many have in a row.
    :param attempt: That attempt.
    """

    event: Literal["failing"] = "failing"
    attempt: int


class CheckpointFailingEvent(AlertEvent):
    """A live run whose checkpoints fail.

    :param event: Always ``checkpoint_failing``.
    :param epoch: Epoch of the leader that says so; it leads.
    :param checkpoint: Number of its newest checkpoint; ``null`` for none.
    """

    event: Literal["checkpoint_failing"] = "checkpoint_failing"
    epoch: int
    checkpoint: int | None


class CheckpointOldEvent(AlertEvent):
    """A live run that has committed batches which no checkpoint holds, and whose newest checkpoint is too old.

    :param event: Always ``checkpoint_old``.
    :param epoch: Epoch of the leader that has written how far the queries are; it leads.
    :param checkpoint: Number of the run's newest checkpoint; ``null`` for none.
    :param age: Seconds since that was taken; without one, since the run was made.
    """

    event: Literal["checkpoint_old"] = "checkpoint_old"
    epoch: int
    checkpoint: int | None
    age: float


class StalledEvent(AlertEvent):
    """A live run with a query that stays inside a trigger for longer than the job allows, without a commit.

    Also one of which two drivers in a row ended themselves for that at the same batch, and none has committed since.

    :param event: Always ``stalled``.
    :param reason: The stalled query, the time of its last progress, and its activity as reported by Spark.
    :param epoch: Epoch of the leader that reports it; after two drivers in a row, of the last driver that wrote a
        status.
    :param checkpoint: Number of the run's newest checkpoint; ``null`` for none.
    """

    event: Literal["stalled"] = "stalled"
    epoch: int
    checkpoint: int | None


class InputLostEvent(AlertEvent):
    """A live run that has gone on without input that is gone, because its user, its job or its reader allows for it.

    :param event: Always ``input_lost``.
    :param epoch: Epoch that continued.
    :param queries: Query -> batch from which it continued.
    """

    event: Literal["input_lost"] = "input_lost"
    epoch: int
    queries: dict[str, int]


class DrillAlertEvent(AlertEvent):
    """The newest restore drill of a live job.

    :param event: ``drill_failed``, ``recovery_point_exceeded`` or ``recovery_time_exceeded``.
    :param drill_id: The drill.
    :param source: The checkpoint or savepoint of the drill.
    :param age_seconds: How old that was: the recovery point.
    :param total_seconds: How long the drill took: the recovery time.
    :param started_at: When it began.
    """

    event: Literal["drill_failed", "recovery_point_exceeded", "recovery_time_exceeded"]
    drill_id: str
    source: str
    age_seconds: float
    total_seconds: float
    started_at: datetime


CLUSTER_EVENTS: Mapping[str, type[View]] = {
    "no_leader": NoLeaderEvent,
    "quarantined": QuarantinedEvent,
    "leadership_granted": LeadershipGrantedEvent,
    "recovered": RecoveredEvent,
    "not_inspected": NotInspectedEvent,
    "restart_budget_exhausted": BudgetExhaustedEvent,
    "run_failed": RunFailedEvent,
    "failing": RunFailingEvent,
    "checkpoint_failing": CheckpointFailingEvent,
    "checkpoint_old": CheckpointOldEvent,
    "stalled": StalledEvent,
    "input_lost": InputLostEvent,
    "drill_failed": DrillAlertEvent,
    "recovery_point_exceeded": DrillAlertEvent,
    "recovery_time_exceeded": DrillAlertEvent,
}


def error_event(error: HaError) -> ErrorEvent:
    """Return the event of an error that waiting cannot resolve."""
    return ErrorEvent(reason=str(error))


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
    return RunEndedEvent(
        job_id=job_id,
        run=run,
        epoch=result.epoch,
        state=result.state,
        reason=result.reason,
        checkpoint=result.checkpoint,
    )


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


def cluster_event(kind: str, job_id: str, facts: Mapping[str, Any], lasted: float) -> View:
    """Return an event of a job of the cluster.

    :param kind: One of :data:`CLUSTER_EVENTS`.
    :param facts: The other fields of the event.
    """
    return CLUSTER_EVENTS[kind].model_validate({"event": kind, "job_id": job_id, "lasted": lasted, **facts})


def _live(snapshot: JobStatus, view: RunView) -> dict[str, Any]:
    attempt = view.newest.submission.attempt if view.newest else 0
    return {"job_id": snapshot.job_id, "run": view.run.number, "epoch": snapshot.epoch, "attempt": attempt}
