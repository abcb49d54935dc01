"""The samples of a job for Airflow's ``Stats``. Pure: what was read goes in, values come out.

A run that is over has a state and nothing else: its figures are those of a driver that is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_provider_ha.checkpoints.model import CheckpointPointer
from airflow_provider_ha.jobs import metrics
from airflow_provider_ha.jobs.model import JobState, LeaderInfo, QueryStatus, Status
from airflow_provider_ha.jobs.options.ha_options import HaOptions
from airflow_provider_ha.jobs.runs import RunView
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.recovery.restart import attempts_used
from airflow_provider_ha.recovery.timeline import RecoveryTimes, restarts_since
from airflow_provider_ha.triggers._stat_names import Sample


_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadJob:
    """A job as it was read.

    :param checkpoint: Its newest checkpoint.
    :param options: Of its newest run; ``None`` while storage does not tell them.
    """

    snapshot: JobStatus
    checkpoint: CheckpointPointer | None = None
    options: HaOptions | None = None


def samples(job: ReadJob, now: datetime) -> Iterator[Sample]:
    """Yield every value that is known of a job."""
    snapshot = job.snapshot
    view, state = snapshot.run, snapshot.state
    yield from of_state(state)
    if view is None or view.result is not None:
        return
    leader = snapshot.leader if snapshot.leader is not None and snapshot.leader.run == view.run.number else None
    yield Sample(metrics.LEADER_EPOCH, snapshot.epoch)
    if leader is not None:
        yield Sample(metrics.LEADER_SINCE, leader.since.timestamp())
    if job.checkpoint is not None:
        yield Sample(metrics.CHECKPOINT_NUMBER, job.checkpoint.number)
        yield Sample(metrics.CHECKPOINT_AGE, _seconds(job.checkpoint.created_at, now))
    if snapshot.status is not None and snapshot.status.run == view.run.number:
        yield Sample(metrics.ACCEPTED_LOSSES, snapshot.status.loss.count if snapshot.status.loss is not None else 0)
    if leader is not None and snapshot.status is not None and snapshot.status.epoch == leader.epoch:
        yield from _of_queries(snapshot.status, now)
    yield from _of_restarts(view, job.options, now)
    yield from _of_recovery(view, leader)


def of_state(state: JobState | None) -> Iterator[Sample]:
    """Yield the state of a job; ``None`` for one that is deleted, which is in none."""
    for each in JobState:
        yield Sample(metrics.JOB_STATE, float(each is state), (each.value,))
    yield Sample(metrics.JOB_STALLED, float(state is JobState.STALLED))


def _of_queries(status: Status, now: datetime) -> Iterator[Sample]:
    for name, query in status.queries.items():
        for metric, value in _of_query(query, now).items():
            if value is not None:
                yield Sample(metric, value, (name,))


def _of_query(query: QueryStatus, now: datetime) -> dict[metrics.Metric, float | None]:
    return {
        metrics.BATCH_NUMBER: query.committed if query.committed >= 0 else None,
        metrics.BATCH_DURATION: query.batch_seconds,
        metrics.COMMIT_AGE: _seconds(query.committed_at, now) if query.committed_at is not None else None,
        metrics.INPUT_RATE: query.input_rate,
        metrics.PROCESSED_RATE: query.processed_rate,
        metrics.LAG: query.lag,
    }


def _of_restarts(view: RunView, options: HaOptions | None, now: datetime) -> Iterator[Sample]:
    for reason, count in restarts_since(view.submissions, now - _DAY).items():
        yield Sample(metrics.RESTARTS, count, (reason.value,))
    if options is not None:
        yield Sample(metrics.ATTEMPTS_USED, attempts_used(view.submissions, options, now))
        yield Sample(metrics.ATTEMPTS_LIMIT, options.restart_attempts)


def _of_recovery(view: RunView, leader: LeaderInfo | None) -> Iterator[Sample]:
    """Yield the phases that records tell: no record keeps the last heartbeat of the dead, or the first commit."""
    newest = view.newest
    if leader is None or newest is None or leader.attempt != newest.submission.attempt or len(view.submissions) == 1:
        return
    left = view.submissions[-2].exit
    times = RecoveryTimes(
        alive_at=None,
        dead_at=left.at if left is not None else None,
        submitted_at=newest.submission.created_at,
        led_at=leader.since,
        committed_at=None,
    )
    for phase, seconds in times.phases.items():
        yield Sample(metrics.RECOVERY, seconds, (phase,))


def _seconds(begin: datetime, end: datetime) -> float:
    return max(0.0, round((end - begin).total_seconds(), 3))
