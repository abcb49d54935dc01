"""Prometheus metrics of a driver: a collector of values in this process, and the endpoint that serves it.

Invariant: metrics never disturb the job. An unavailable port is replaced by any free one, which is logged; without a
free port, the job runs without metrics.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from prometheus_client import CollectorRegistry, Histogram, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from airflow_provider_ha.clock import Clock
from airflow_provider_ha.driver.figures import CheckpointFigures, QueryTrigger, ReportedTriggers
from airflow_provider_ha.driver.jvm.state_restores import CopyCost
from airflow_provider_ha.jobs import metric_names
from airflow_provider_ha.jobs.drivers.driver_spec import ARCHIVE_USED
from airflow_provider_ha.jobs.metric_names import Metric, MetricKind
from airflow_provider_ha.jobs.model import JobState, StandbyCount
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.recovery.losses import RecoveryTimes, restarts_since
from airflow_provider_ha.jobs.recovery.restart_policy import attempts_used
from airflow_provider_ha.jobs.runs.run_store import RunView
from airflow_provider_ha.jobs.runs.standbys import Standby
from airflow_provider_ha.jobs.runs.submissions import StartTimes, StateRestore
from airflow_provider_ha.query_names import shown


log = logging.getLogger(__name__)
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104  # a user may configure it


def serve(collector: Collector, options: HaOptions) -> str:
    """Serve metrics until the process ends.

    :returns: Address, as ``host:port``; empty when not served.
    """
    if options.metrics_port is None:
        return ""
    registry = CollectorRegistry()
    registry.register(collector)
    for port in dict.fromkeys((options.metrics_port, 0)):
        try:
            server, _ = start_http_server(port, addr=options.metrics_address, registry=registry)
        except OSError as error:  # noqa: PERF203  # two tries
            log.warning("metrics cannot be served at %s port %d: %s", options.metrics_address, port, error)
        else:
            host = socket.gethostname() if options.metrics_address in _EVERYWHERE else options.metrics_address
            place = f"[{host}]:{server.server_port}" if ":" in host else f"{host}:{server.server_port}"
            log.info("metrics are served at http://%s/metrics", place)
            return place
    return ""


Values = Iterable[tuple[tuple[str, ...], float]]
"""Values of the labels other than the common ones, and the value."""
BATCH_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)
CHECKPOINT_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSources:
    """The sources of a driver's metrics.

    :param state: Returns the state of the job.
    :param standbys: Returns the last count of the standby drivers; ``None`` for a job that requests none.
    :param living: Returns the living standby drivers at that count.
    :param losses: Returns how often the run has continued without its missing input.
    :param lease_left: Returns the lowest remaining seconds of the lease in recent time; ``None`` once it is given up.
    :param run: The run as it was read when this driver began to lead.
    :param attempt: Submission of this driver.
    :param alive_at: Last heartbeat of the previous leader.
    :param class_archive: ``used``, or why the JVM has loaded its classes without an archive.
    :param restores: Returns how tasks have read the state of each query; nothing for a job that does not report it.
    :param copies: Returns what copies of state have cost; ``None`` for a job without them, and while it is not known.
    :param times: Returns when this driver completed the phases of its start.
    """

    cluster: str
    job_id: str
    epoch: int
    led_at: datetime
    state: Callable[[], JobState]
    lease_left: Callable[[], float | None]
    standbys: Callable[[], StandbyCount | None]
    living: Callable[[], Sequence[Standby]]
    losses: Callable[[], int]
    triggers: ReportedTriggers
    checkpoints: CheckpointFigures
    run: RunView
    attempt: int
    alive_at: datetime | None
    class_archive: str
    restores: Callable[[], Mapping[str, StateRestore]]
    copies: Callable[[], CopyCost | None]
    times: Callable[[], StartTimes]
    options: HaOptions
    clock: Clock


class DriverMetrics(Collector):
    """Collects the metrics of a driver. Thread-safe."""

    def __init__(self, observed: MetricSources) -> None:
        self._observed = observed
        self._common = (observed.cluster, observed.job_id)
        self._batches = _histogram(metric_names.BATCH_DURATION, BATCH_BUCKETS)
        self._took = _histogram(metric_names.CHECKPOINT_DURATION, CHECKPOINT_BUCKETS)
        self._rows: dict[str, int] = {}
        self._first_commit: datetime | None = None
        observed.checkpoints.took = self._took.labels(*self._common).observe

    def note(self, query: str, trigger: QueryTrigger) -> None:
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
        state, left, standbys = observed.state(), observed.lease_left(), observed.standbys()
        return {
            metric_names.JOB_STATE: [((each.value,), float(each is state)) for each in JobState],
            metric_names.JOB_STALLED: [((), float(state is JobState.STALLED))],
            metric_names.LEADER_EPOCH: [((), observed.epoch)],
            metric_names.LEADER_SINCE: [((), observed.led_at.timestamp())],
            metric_names.ACCEPTED_LOSSES: [((), observed.losses())],
            metric_names.LEASE_MARGIN: [((), left)] if left is not None else [],
            metric_names.STANDBYS_READY: [((), standbys.ready)] if standbys is not None else [],
            metric_names.STANDBYS_REQUESTED: [((), standbys.requested)] if standbys is not None else [],
            metric_names.STANDBY_LEVEL_AGE: _at_levels(observed.living(), now),
            **self._of_checkpoints(now),
            **self._of_batches(now),
            **self._of_recovery(now),
            **self._of_start(),
        }

    def _of_checkpoints(self, now: datetime) -> Mapping[Metric, Values]:
        newest, failures = self._observed.checkpoints.newest, self._observed.checkpoints.failures
        known = [] if newest is None else [newest]
        return {
            metric_names.CHECKPOINT_NUMBER: [((), each.number) for each in known],
            metric_names.CHECKPOINT_AGE: [((), _seconds(each.created_at, now)) for each in known],
            metric_names.CHECKPOINT_SIZE: [((), each.size) for each in known if each.size is not None],
            metric_names.CHECKPOINT_FAILURES: [((), failures)],
        }

    def _of_batches(self, now: datetime) -> Mapping[Metric, Values]:
        found = self._observed.triggers.all()
        return {
            metric_names.BATCH_NUMBER: [((name,), each.batch) for name, each in found.items()],
            metric_names.BATCH_PHASE: [
                ((name, phase), seconds) for name, each in found.items() for phase, seconds in each.phases.items()
            ],
            metric_names.COMMIT_AGE: [((name,), _seconds(each.ended_at, now)) for name, each in found.items()],
            metric_names.INPUT_ROWS: [((name,), rows) for name, rows in dict(self._rows).items()],
            metric_names.INPUT_RATE: [((name,), each.input_rate) for name, each in found.items()],
            metric_names.PROCESSED_RATE: [((name,), each.processed_rate) for name, each in found.items()],
            metric_names.LAG: [((name,), each.lag) for name, each in found.items() if each.lag is not None],
        }

    def _of_recovery(self, now: datetime) -> Mapping[Metric, Values]:
        submissions, options = self._observed.run.submissions, self._observed.options
        restarts = restarts_since(submissions, now - timedelta(days=1))
        phases = times.phases if (times := self._times()) is not None else {}
        return {
            metric_names.RESTARTS: [((reason.value,), count) for reason, count in restarts.items()],
            metric_names.ATTEMPTS_USED: [((), attempts_used(submissions, options, now))],
            metric_names.ATTEMPTS_LIMIT: [((), options.restart_attempts)],
            metric_names.RECOVERY: [((phase,), seconds) for phase, seconds in phases.items()],
        }

    def _of_start(self) -> Mapping[Metric, Values]:
        archive, seconds = self._observed.class_archive, self._observed.times().first_commit_seconds
        used, restores = archive == ARCHIVE_USED, self._observed.restores()
        cost = self._observed.copies()
        read = {name: (("copies", each.copy_bytes), ("store", each.store_bytes)) for name, each in restores.items()}
        return {
            metric_names.CLASS_ARCHIVE: [(("" if used else archive,), float(used))],
            metric_names.FIRST_COMMIT: [((), seconds)] if seconds is not None else [],
            metric_names.STATE_READ: [((name, place), size) for name, all_ in read.items() for place, size in all_],
            metric_names.STATE_READ_SECONDS: [((name,), each.seconds) for name, each in restores.items()],
            metric_names.COPIES_MADE: [((), cost.size)] if cost is not None else [],
            metric_names.COPIES_SECONDS: [((), cost.seconds)] if cost is not None else [],
        }

    def _times(self) -> RecoveryTimes | None:
        """Return the moments of this driver's recovery; ``None`` for the first driver of its run."""
        observed = self._observed
        before = [view for view in observed.run.submissions if view.submission.attempt < observed.attempt]
        own = [view for view in observed.run.submissions if view.submission.attempt == observed.attempt]
        if not before or not own:
            return None
        left, times = before[-1].exit, observed.times()
        return RecoveryTimes(
            alive_at=observed.alive_at,
            dead_at=left.at if left is not None else None,
            submitted_at=own[0].submission.created_at,
            led_at=observed.led_at,
            bound_at=times.bound_at,
            started_at=times.started_at,
            committed_at=self._first_commit,
        )


def _histogram(metric: Metric, buckets: tuple[float, ...]) -> Histogram:
    names = metric.label_names
    return Histogram(metric.name, metric.help, names, registry=None, buckets=buckets)


def _at_levels(living: Sequence[Standby], now: datetime) -> Values:
    """Return the longest time that a standby driver has been at each level."""
    since: dict[str, datetime] = {}
    for each in living:
        since[each.level.value] = min(each.since, since.get(each.level.value, each.since))
    return [((level,), _seconds(at, now)) for level, at in since.items()]


def _seconds(begin: datetime, end: datetime) -> float:
    return max(0.0, (end - begin).total_seconds())
