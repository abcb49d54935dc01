"""Judgement on the health of a job that runs, at a fixed time."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

from airflow_provider_ha.api.documents.cluster_events import cluster_event
from airflow_provider_ha.checkpoints.model import CheckpointKind, CheckpointPointer
from airflow_provider_ha.fleet.notify.health_rules import HealthLimits, JobHealth, judge_health
from airflow_provider_ha.fleet.notify.notices import Condition
from airflow_provider_ha.jobs.model import (
    JobState,
    QueryStatus,
    Status,
)
from airflow_provider_ha.jobs.status import JobStatus, NewestRun, RunDepth
from tests.support.clusters.jobs_helpers import a_leader


NOW = datetime(2026, 3, 1, 3, 0, tzinfo=timezone.utc)
BOUNDS = HealthLimits(checkpoint_grace=60.0, checkpoint_age=600.0, stall_grace=30.0)
HANGS = "query 'counts' has been in one trigger after batch 5 for 600 s (Processing new data)"


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def a_status(committed: int = 5, message: str = "") -> Status:
    queries = {"counts": QueryStatus(planned=committed, committed=committed)}
    return Status(state=JobState.RUNNING, run=2, epoch=3, queries=queries, checkpoint=7, message=message, at=NOW)


def a_checkpoint(batch: int = 5, *, seconds: float = 5.0) -> CheckpointPointer:
    return CheckpointPointer(
        number=7,
        epoch=3,
        run=2,
        reason=CheckpointKind.PERIODIC,
        payload="p",
        sha256="0" * 64,
        size=1,
        cut={"counts": batch},
        created_at=ago(seconds),
    )


JOB: JobStatus[RunDepth] = JobStatus(
    job_id="flights",
    leader=a_leader(3, run=2),
    epoch=3,
    facts=NewestRun(number=2, attempt=1),
    status=a_status(),
)
LIVE = JobHealth(job=JOB, made_at=ago(9000), checkpoint=a_checkpoint())


def with_job(health: JobHealth, **changed: Any) -> JobHealth:
    """Return the health of a job with another status, or another newest run."""
    return replace(health, job=replace(health.job, **changed))


def wrong(health: JobHealth, bounds: HealthLimits = BOUNDS) -> dict[str, Condition]:
    """Return what is wrong, each of which makes an event."""
    found = {kind: each for kind, each in judge_health(health, bounds, NOW).items() if each.kind}
    for kind, each in found.items():
        assert cluster_event(kind, "flights", each.facts or {}, 1.0).to_json()["event"] == kind
    return found
