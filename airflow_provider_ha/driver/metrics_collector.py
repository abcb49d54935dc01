"""The metrics of a driver, as Prometheus scrapes them: all values are in this process, so a scrape reads nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from prometheus_client import Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from airflow_provider_ha.clock import Clock
from airflow_provider_ha.driver.checkpoint_figures import CheckpointFigures
from airflow_provider_ha.driver.reported_triggers import ReportedTriggers
from airflow_provider_ha.driver.trigger_figures import Trigger
from airflow_provider_ha.jobs import metrics
from airflow_provider_ha.jobs.metrics import Metric, MetricKind
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.ha_options import HaOptions
from airflow_provider_ha.jobs.runs import RunView
from airflow_provider_ha.query_names import shown
from airflow_provider_ha.recovery.restart import attempts_used
from airflow_provider_ha.recovery.timeline import RecoveryTimes, restarts_since


Values = Iterable[tuple[tuple[str, ...], float]]
"""Values of the labels other than the common ones, and the value."""
BATCH_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)
CHECKPOINT_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The sources of a driver's metrics.

    :param state: Returns the state of the job.
    :param losses: Returns how often the run has continued without its missing input.
    :param lease_left: Returns the lowest remaining seconds of the lease in recent time; ``None`` once it is given up.
    :param run: The run as it was read when this driver began to lead.
    :param attempt: Submission of this driver.
    :param alive_at: Last heartbeat of the previous leader.
    """

    cluster: str
    job_id: str
    epoch: int
    led_at: datetime
    state: Callable[[], JobState]
    lease_left: Callable[[], float | None]
    losses: Callable[[], int]
    triggers: ReportedTriggers
    checkpoints: CheckpointFigures
    run: RunView
    attempt: int
    alive_at: datetime | None
    options: HaOptions
    clock: Clock


class DriverMetrics(Collector):
    """Collects the metrics of a driver. Thread-safe."""

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._common = (observed.cluster, observed.job_id)
        self._batches = _histogram(metrics.BATCH_DURATION, BATCH_BUCKETS)
        self._took = _histogram(metrics.CHECKPOINT_DURATION, CHECKPOINT_BUCKETS)
        self._rows: dict[str, int] = {}
        self._first_commit: datetime | None = None
        observed.checkpoints.took = self._took.labels(*self._common).observe

    def note(self, query: str, trigger: Trigger) -> None:
        """Note a report of a query."""
        if not trigger.executed:
            return
        self._batches.labels(*self._common, shown(query)).observe(trigger.seconds)
        self._rows[query] = self._rows.get(query, 0) + trigger.input_rows  # by the thread that looks, alone
        self._first_commit = self._first_commit or trigger.ended_at

    def collect(self) -> Iterator[Family]:
        """Yield every metric with its current values; a metric without known values has no sample."""
        yield from self._batches.collect()
        yield from self._took.collect()
        for metric, values in self._values().items():
            yield self._family(metric, values)

    def _family(self, metric: Metric, values: Values) -> Family:
        names = metric.label_names
        made = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
        family = made(metric.name, metric.help, labels=names)
        for labels, value in values:
            family.add_metric((*self._common, *map(shown, labels)), value)
        return family

    def _values(self) -> Mapping[Metric, Values]:
        observed, now = self._observed, self._observed.clock.now()
        state, left = observed.state(), observed.lease_left()
        return {
            metrics.JOB_STATE: [((each.value,), float(each is state)) for each in JobState],
            metrics.JOB_STALLED: [((), float(state is JobState.STALLED))],
            metrics.LEADER_EPOCH: [((), observed.epoch)],
            metrics.LEADER_SINCE: [((), observed.led_at.timestamp())],
            metrics.ACCEPTED_LOSSES: [((), observed.losses())],
            metrics.LEASE_MARGIN: [((), left)] if left is not None else [],
            **self._of_checkpoints(now),
            **self._of_batches(now),
            **self._of_recovery(now),
        }

    def _of_checkpoints(self, now: datetime) -> Mapping[Metric, Values]:
        newest, failures = self._observed.checkpoints.newest, self._observed.checkpoints.failures
        known = [] if newest is None else [newest]
        return {
            metrics.CHECKPOINT_NUMBER: [((), each.number) for each in known],
            metrics.CHECKPOINT_AGE: [((), _seconds(each.created_at, now)) for each in known],
            metrics.CHECKPOINT_SIZE: [((), each.size) for each in known if each.size is not None],
            metrics.CHECKPOINT_FAILURES: [((), failures)],
        }

    def _of_batches(self, now: datetime) -> Mapping[Metric, Values]:
        found = self._observed.triggers.all()
        return {
            metrics.BATCH_NUMBER: [((name,), each.batch) for name, each in found.items()],
            metrics.BATCH_PHASE: [
                ((name, phase), seconds) for name, each in found.items() for phase, seconds in each.phases.items()
            ],
            metrics.COMMIT_AGE: [((name,), _seconds(each.ended_at, now)) for name, each in found.items()],
            metrics.INPUT_ROWS: [((name,), rows) for name, rows in dict(self._rows).items()],
            metrics.INPUT_RATE: [((name,), each.input_rate) for name, each in found.items()],
            metrics.PROCESSED_RATE: [((name,), each.processed_rate) for name, each in found.items()],
            metrics.LAG: [((name,), each.lag) for name, each in found.items() if each.lag is not None],
        }

    def _of_recovery(self, now: datetime) -> Mapping[Metric, Values]:
        submissions, options = self._observed.run.submissions, self._observed.options
        restarts = restarts_since(submissions, now - timedelta(days=1))
        phases = times.phases if (times := self._times()) is not None else {}
        return {
            metrics.RESTARTS: [((reason.value,), count) for reason, count in restarts.items()],
            metrics.ATTEMPTS_USED: [((), attempts_used(submissions, options, now))],
            metrics.ATTEMPTS_LIMIT: [((), options.restart_attempts)],
            metrics.RECOVERY: [((phase,), seconds) for phase, seconds in phases.items()],
        }

    def _times(self) -> RecoveryTimes | None:
        """Return the moments of this driver's recovery; ``None`` for the first driver of its run."""
        observed = self._observed
        before = [view for view in observed.run.submissions if view.submission.attempt < observed.attempt]
        own = [view for view in observed.run.submissions if view.submission.attempt == observed.attempt]
        if not before or not own:
            return None
        left = before[-1].exit
        return RecoveryTimes(
            alive_at=observed.alive_at,
            dead_at=left.at if left is not None else None,
            submitted_at=own[0].submission.created_at,
            led_at=observed.led_at,
            committed_at=self._first_commit,
        )


def _histogram(metric: Metric, buckets: tuple[float, ...]) -> Histogram:
    names = metric.label_names
    return Histogram(metric.name, metric.help, names, registry=None, buckets=buckets)


def _seconds(begin: datetime, end: datetime) -> float:
    return max(0.0, (end - begin).total_seconds())
