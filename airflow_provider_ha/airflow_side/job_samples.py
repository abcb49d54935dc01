"""Samples of a job for Airflow's ``Stats``: values, names, tags, unchanged zeros and the gauges.

A run that is over has a state and nothing else: its figures are those of a driver that is gone.

Up to 3.1 there is one ``Stats``, which initializes itself. From 3.2 on there are two copies: the triggerer initializes
that of the core (``airflow.observability``), a task process that of the SDK (``airflow.sdk.observability``). A copy
that its process does not initialize drops what it is given, without a word.

- OpenTelemetry: the labels are attributes, under the names that they have for Prometheus.
- StatsD with tags: the same, but the tag of the job is ``spark_job``. Airflow drops ``job_id`` by default
  (``[metrics] statsd_disabled_tags``): its own jobs have numbers that grow.
- StatsD without tags: the values of the labels follow the name, as in Airflow's own names. Else each job would
  overwrite the one before it.

A job is in one state, so all others are 0, and so is each reason of a restart that did not happen: three quarters of
its values, the same each minute. Airflow and its client take most of the time of a report for sending them one by one.
Each of these is sent when it becomes 0, and again in every :data:`AGAIN`-th report, because a datagram may be lost and
a receiver may forget.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING

from airflow.configuration import conf

from airflow_provider_ha.airflow_side.compat import AIRFLOW_V_3_2_PLUS
from airflow_provider_ha.checkpoints.model import CheckpointPointer
from airflow_provider_ha.jobs import metric_names
from airflow_provider_ha.jobs.metric_names import Metric
from airflow_provider_ha.jobs.model import JobState, LeaderInfo, QueryStatus, Status
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.recovery.losses import RecoveryTimes, restarts_since
from airflow_provider_ha.jobs.recovery.restart_policy import attempts_used
from airflow_provider_ha.jobs.runs.run_store import RunView
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.names import short_name


# Type checkers see the newest release.
if TYPE_CHECKING or AIRFLOW_V_3_2_PLUS:
    from airflow.observability.stats import Stats
else:
    from airflow.stats import Stats


_SECTION = "metrics"


class Carrier(Enum):
    """What Airflow's configuration makes of a metric and its tags."""

    NOTHING = "nothing"  # no metric leaves Airflow
    NAMES = "names"  # StatsD without tags
    TAGS = "tags"  # StatsD with the tags of Datadog or InfluxDB
    ATTRIBUTES = "attributes"  # OpenTelemetry


def carrier() -> Carrier:
    """Return what carries metrics, in the order in which Airflow looks."""
    if _on("statsd_datadog_enabled"):
        return Carrier.TAGS if _on("statsd_datadog_metrics_tags", unset=True) else Carrier.NAMES
    if _on("statsd_on"):
        return Carrier.TAGS if _on("statsd_influxdb_enabled") else Carrier.NAMES
    return Carrier.ATTRIBUTES if _on("otel_on") else Carrier.NOTHING


def gauge(name: str, value: float, tags: Mapping[str, str]) -> None:
    """Set a gauge. Raises what the client of the receiver raises."""
    Stats.gauge(name, value, tags=dict(tags))


def _on(option: str, *, unset: bool = False) -> bool:
    return conf.getboolean(_SECTION, option, fallback=unset)


JOB_TAG = "spark_job"
_LONGEST = 240  # Airflow refuses names of more than 250 characters, with a stack trace for each


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a metric.

    :param labels: Values of the labels that the metric has beside the common ones.
    """

    metric: Metric
    value: float
    labels: tuple[str, ...] = ()


def stat_of(sample: Sample, cluster: str, job_id: str, carrier: Carrier) -> tuple[str, Mapping[str, str]]:
    """Return the name and the tags of a value.

    :param job_id: Not used for one of the cluster.
    """
    name, labels = sample.metric.stats_name, sample.metric.label_names
    values = ((cluster,) if sample.metric.of_cluster else (cluster, job_id)) + sample.labels
    if carrier is Carrier.ATTRIBUTES:
        return name, dict(zip(labels, values, strict=True))
    if len(name) + sum(map(len, labels)) + sum(map(len, values)) > _LONGEST:
        values = tuple(map(short_name, values))
    if carrier is Carrier.TAGS:
        tags = (JOB_TAG if label == "job_id" else label for label in labels)
        return name, dict(zip(tags, values, strict=True))
    # A dot separates the parts of a name.
    return ".".join((name, *(value.replace(".", "__") for value in values))), {}


AGAIN = 4  # reports; within the five minutes for which receivers of Prometheus keep a value
_LISTS = frozenset(metric.name for metric in (metric_names.JOB_STATE, metric_names.JOB_STALLED, metric_names.RESTARTS))

_Zeros = frozenset[tuple[str, ...]]


class ZeroFilter:
    """The zeros that were sent of each job. For one thread at a time."""

    def __init__(self) -> None:
        self._sent: dict[str, tuple[_Zeros, int]] = {}
        self._equal: dict[_Zeros, _Zeros] = {}

    def news(self, job_id: str, samples: Sequence[Sample]) -> list[Sample]:
        """Return the samples to send now."""
        known, turn = self._sent.get(job_id, (_Zeros(), 0))
        if turn % AGAIN == 0:
            return list(samples)
        return [each for each in samples if each.value != 0 or _key(each) not in known]

    def sent(self, job_id: str, samples: Iterable[Sample]) -> None:
        """Note that the receiver has all of *samples*: those that were sent now, and those from before."""
        zeros = frozenset(_key(each) for each in samples if each.metric.name in _LISTS and each.value == 0)
        # One set for all jobs that have the same: thousands of them would be thousands of sets.
        zeros = self._equal.setdefault(zeros, zeros)
        # The first turn differs between jobs, so that not all of them send everything in one minute.
        _, turn = self._sent.get(job_id, (zeros, len(self._sent)))
        self._sent[job_id] = zeros, turn % AGAIN + 1

    def forget(self, job_ids: Iterable[str]) -> None:
        """Send everything of these jobs the next time."""
        for job_id in job_ids:
            self._sent.pop(job_id, None)
        if not self._sent:
            self._equal.clear()


def _key(sample: Sample) -> tuple[str, ...]:
    return (sample.metric.name, *sample.labels)


_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledJob:
    """A job as it was read.

    :param checkpoint: Its newest checkpoint.
    :param options: Of its newest run; ``None`` while storage does not tell them.
    """

    snapshot: JobStatus
    checkpoint: CheckpointPointer | None = None
    options: HaOptions | None = None


def samples(job: SampledJob, now: datetime) -> Iterator[Sample]:
    """Yield every value that is known of a job."""
    snapshot = job.snapshot
    view, state = snapshot.run, snapshot.state
    yield from of_state(state)
    if view is None or view.result is not None:
        return
    leader = snapshot.leader if snapshot.leader is not None and snapshot.leader.run == view.run.number else None
    yield Sample(metric_names.LEADER_EPOCH, snapshot.epoch)
    if leader is not None:
        yield Sample(metric_names.LEADER_SINCE, leader.since.timestamp())
    if job.checkpoint is not None:
        yield Sample(metric_names.CHECKPOINT_NUMBER, job.checkpoint.number)
        yield Sample(metric_names.CHECKPOINT_AGE, _seconds(job.checkpoint.created_at, now))
    if snapshot.status is not None and snapshot.status.run == view.run.number:
        yield Sample(
            metric_names.ACCEPTED_LOSSES, snapshot.status.loss.count if snapshot.status.loss is not None else 0
        )
    if leader is not None and snapshot.status is not None and snapshot.status.epoch == leader.epoch:
        yield from _of_queries(snapshot.status, now)
    yield from _of_restarts(view, job.options, now)
    yield from _of_recovery(view, leader)


def of_state(state: JobState | None) -> Iterator[Sample]:
    """Yield the state of a job; ``None`` for one that is deleted, which is in none."""
    for each in JobState:
        yield Sample(metric_names.JOB_STATE, float(each is state), (each.value,))
    yield Sample(metric_names.JOB_STALLED, float(state is JobState.STALLED))


def _of_queries(status: Status, now: datetime) -> Iterator[Sample]:
    for name, query in status.queries.items():
        for metric, value in _of_query(query, now).items():
            if value is not None:
                yield Sample(metric, value, (name,))


def _of_query(query: QueryStatus, now: datetime) -> dict[metric_names.Metric, float | None]:
    return {
        metric_names.BATCH_NUMBER: query.committed if query.committed >= 0 else None,
        metric_names.BATCH_DURATION: query.batch_seconds,
        metric_names.COMMIT_AGE: _seconds(query.committed_at, now) if query.committed_at is not None else None,
        metric_names.INPUT_RATE: query.input_rate,
        metric_names.PROCESSED_RATE: query.processed_rate,
        metric_names.LAG: query.lag,
    }


def _of_restarts(view: RunView, options: HaOptions | None, now: datetime) -> Iterator[Sample]:
    for reason, count in restarts_since(view.submissions, now - _DAY).items():
        yield Sample(metric_names.RESTARTS, count, (reason.value,))
    if options is not None:
        yield Sample(metric_names.ATTEMPTS_USED, attempts_used(view.submissions, options, now))
        yield Sample(metric_names.ATTEMPTS_LIMIT, options.restart_attempts)


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
        yield Sample(metric_names.RECOVERY, seconds, (phase,))


def _seconds(begin: datetime, end: datetime) -> float:
    return max(0.0, round((end - begin).total_seconds(), 3))
