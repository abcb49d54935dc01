"""Events of the cluster's trigger: jobs without a leader, alerts and recoveries.

Invariant: an event crosses processes and releases: a key is never renamed, and one that is added has a default where it
is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from airflow_provider_ha.api.documents.view import View


class LeaderlessEvent(View):
    """A job of the cluster that has no leader, and needs one.

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
    """A job of the cluster that has no leader, and that has to be recovered."""

    event: Literal["no_leader"] = "no_leader"


class QuarantinedEvent(LeaderlessEvent):
    """A job of the cluster that is in quarantine: nothing recovers it until a person has released it.

    :param reason: Why it is in quarantine.
    """

    event: Literal["quarantined"] = "quarantined"


class LeadershipGrantedEvent(View):
    """A leadership of a job of the cluster that was granted.

    :param run: Run that it leads.
    :param epoch: Epoch of the leadership.
    :param standby: Whether a standby driver was promoted.
    :param lasted: Seconds for which this has lasted.
    """

    event: Literal["leadership_granted"] = "leadership_granted"
    job_id: str
    run: int
    attempt: int
    epoch: int
    host: str
    pid: int
    standby: bool = False
    lasted: float


class NotInspectedEvent(View):
    """A leader of the cluster that recovers nothing: it has inspected no job for five minutes.

    :param job_id: Empty: it concerns every job.
    :param cluster: The cluster.
    :param reason: The leader of the cluster, and the time since the last inspection of a job.
    :param epoch: Epoch of the leadership of the cluster.
    :param host: Host of the process.
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

    :param run: Run that is led.
    :param epoch: Epoch of the new leadership.
    :param host: Host of the new driver.
    :param standby: Whether it was a standby driver before.
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
    standby: bool = False
    took: float
    lasted: float


class BudgetExhaustedEvent(AlertEvent):
    """A run that FAILED because its attempts are used up, or its application failed too often at one batch.

    :param ended_at: When the run got its result.
    :param checkpoint: Number of its last checkpoint.
    """

    event: Literal["restart_budget_exhausted"] = "restart_budget_exhausted"
    ended_at: datetime
    checkpoint: int | None


class RunFailedEvent(AlertEvent):
    """A run that FAILED for any other reason: its script was refused, or its driver ended it.

    :param ended_at: When the run got its result.
    :param checkpoint: Number of its last checkpoint.
    """

    event: Literal["run_failed"] = "run_failed"
    ended_at: datetime
    checkpoint: int | None


class RunFailingEvent(AlertEvent):
    """A live run whose newest attempts have failed one after the other; it is started again and again.

    :param attempt: That attempt.
    :param reason: How the newest attempt that has ended did, at which batch, and how many have in a row.
    """

    event: Literal["failing"] = "failing"
    attempt: int


class CheckpointFailingEvent(AlertEvent):
    """A live run whose checkpoints fail.

    :param epoch: Epoch of the leader that says so; it leads.
    :param checkpoint: Number of its newest checkpoint; ``null`` for none.
    """

    event: Literal["checkpoint_failing"] = "checkpoint_failing"
    epoch: int
    checkpoint: int | None


class CheckpointOldEvent(AlertEvent):
    """A live run that has committed batches which no checkpoint holds, and whose newest checkpoint is too old.

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

    :param epoch: Epoch of the leader that reports it; after two drivers in a row, of the last driver that wrote a
        status.
    :param checkpoint: Number of the run's newest checkpoint; ``null`` for none.
    :param reason: The stalled query, the time of its last progress, and its activity as reported by Spark.
    """

    event: Literal["stalled"] = "stalled"
    epoch: int
    checkpoint: int | None


class InputLostEvent(AlertEvent):
    """A live run that has gone on without input that is gone, because its user, its job or its reader allows for it.

    :param epoch: Epoch that continued.
    :param queries: Query -> batch from which it continued.
    """

    event: Literal["input_lost"] = "input_lost"
    epoch: int
    queries: dict[str, int]


class StandbyMissingEvent(AlertEvent):
    """A live run that has had fewer ready standby drivers than it requests for five minutes.

    :param epoch: Epoch of the leader that counts them; it leads.
    :param requested: Number that the job requests.
    :param ready: Number of those that are ready.
    """

    event: Literal["standby_missing"] = "standby_missing"
    epoch: int
    requested: int
    ready: int


class StandbyReadyEvent(View):
    """A live run that has all the standby drivers that it requests, ready, under a new leader or after a lack.

    :param epoch: Epoch of the leader that counts them; it leads.
    :param ready: Their number.
    :param lasted: Seconds for which the trigger has seen it.
    """

    event: Literal["standby_ready"] = "standby_ready"
    job_id: str
    run: int
    epoch: int
    ready: int
    lasted: float


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
    "standby_missing": StandbyMissingEvent,
    "standby_ready": StandbyReadyEvent,
    "drill_failed": DrillAlertEvent,
    "recovery_point_exceeded": DrillAlertEvent,
    "recovery_time_exceeded": DrillAlertEvent,
}


def cluster_event(kind: str, job_id: str, facts: Mapping[str, Any], lasted: float) -> View:
    """Return an event of a job of the cluster.

    :param kind: One of :data:`CLUSTER_EVENTS`.
    :param facts: The other fields of the event.
    """
    return CLUSTER_EVENTS[kind].model_validate({"event": kind, "job_id": job_id, "lasted": lasted, **facts})
