"""States, standby drivers and alerts of jobs, sent to Airflow's ``Stats`` on change.

The triggers of a session share one :class:`JobStats`. It reads a job when a watched node of the job changes, and once a
minute. An alert comes from the trigger of the cluster, which has reported its event.

A change is sent with all its zeros. After that, the state, the standby drivers and each alert are sent once a minute,
for a receiver that was restarted. When the last trigger of a job has ended, the state is sent once more.

Invariants: nothing here raises into a trigger or delays one. One thread reads and sends, in one turn at a time. If
Airflow sends no metrics, nothing is read.

Up to 3.1, Airflow has one ``Stats``, which initializes itself. From 3.2 on there are two copies: the triggerer
initializes the core's copy (``airflow.observability``), a task process the SDK's (``airflow.sdk.observability``). The
other copy silently drops every value.

Labels depend on the receiver:

- OpenTelemetry: attributes, under the names that Prometheus has.
- StatsD with tags: tags, but ``spark_job`` for the job. Airflow drops ``job_id`` by default (``[metrics]
  statsd_disabled_tags``).
- StatsD without tags: the values follow the name, as in Airflow's own names.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from math import ceil
from typing import TYPE_CHECKING

from airflow.configuration import conf

from airflow_provider_ha.airflow_side.compat import AIRFLOW_V_3_2_PLUS
from airflow_provider_ha.coordination.coordinator import Reads, Steps, follow_all, or_error
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.errors import HaError
from airflow_provider_ha.fleet.notify.session import Nodes
from airflow_provider_ha.jobs import metric_names
from airflow_provider_ha.jobs.metric_names import Metric
from airflow_provider_ha.jobs.model import JobState, StandbyCount, Status
from airflow_provider_ha.jobs.observe import in_one_session, run_steps
from airflow_provider_ha.jobs.runs.run_store import decode
from airflow_provider_ha.jobs.status import JobStatus, RunDepth
from airflow_provider_ha.names import short_name


# Type checkers see the newest release.
if TYPE_CHECKING or AIRFLOW_V_3_2_PLUS:
    from airflow.observability.stats import Stats
else:
    from airflow.stats import Stats

if TYPE_CHECKING:
    from airflow_provider_ha.fleet.notify.session import Session


class Carrier(Enum):
    """Airflow's channel for metrics."""

    NOTHING = "nothing"  # Airflow sends no metrics
    NAMES = "names"  # StatsD without tags
    TAGS = "tags"  # StatsD with the tags of Datadog or InfluxDB
    ATTRIBUTES = "attributes"  # OpenTelemetry


def carrier() -> Carrier:
    """Return the channel, checked in Airflow's order."""
    if _on("statsd_datadog_enabled"):
        return Carrier.TAGS if _on("statsd_datadog_metrics_tags", unset=True) else Carrier.NAMES
    if _on("statsd_on"):
        return Carrier.TAGS if _on("statsd_influxdb_enabled") else Carrier.NAMES
    return Carrier.ATTRIBUTES if _on("otel_on") else Carrier.NOTHING


def _on(option: str, *, unset: bool = False) -> bool:
    return conf.getboolean("metrics", option, fallback=unset)


JOB_TAG = "spark_job"
_LONGEST = 240  # Airflow refuses names of more than 250 characters, with a stack trace for each


@dataclass(frozen=True, slots=True)
class Sample:
    """Value of a metric.

    :param job_id: Empty for a metric of the cluster.
    :param labels: Values of the metric's own labels.
    """

    metric: Metric
    value: float
    job_id: str = ""
    labels: tuple[str, ...] = ()


def stat_of(sample: Sample, cluster: str, carrier: Carrier) -> tuple[str, Mapping[str, str]]:
    """Return the name and the tags of a value."""
    name, labels = sample.metric.stats_name, sample.metric.label_names
    values = ((cluster,) if sample.metric.of_cluster else (cluster, sample.job_id)) + sample.labels
    if carrier is Carrier.ATTRIBUTES:
        return name, dict(zip(labels, values, strict=True))
    if len(name) + sum(map(len, labels)) + sum(map(len, values)) > _LONGEST:
        values = tuple(map(short_name, values))
    if carrier is Carrier.TAGS:
        tags = (JOB_TAG if label == "job_id" else label for label in labels)
        return name, dict(zip(tags, values, strict=True))
    # A dot separates the parts of a name.
    return ".".join((name, *(value.replace(".", "__") for value in values))), {}


def gauge(name: str, value: float, tags: Mapping[str, str]) -> None:
    """Set a gauge. Raises the errors of the receiver's client."""
    Stats.gauge(name, value, tags=dict(tags))


INTERVAL = 60.0  # seconds between two reports of a job
_TICK = 1.0  # seconds between two turns
_AT_LEAST = 100  # jobs of one turn, if so many are due: a triggerer that starts has thousands
_AT_ONCE = 250  # jobs in one round trip
_LAST = 2.0  # seconds for the last turn: its trigger waits for it
_LOG_EVERY = 600.0  # seconds between two warnings about a receiver

Alert = tuple[str, str]
"""Job, empty for the cluster, and kind of event."""

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class ReportedJobs:
    """Jobs of one trigger, with their alerts. The trigger replaces both."""

    jobs: frozenset[str] = frozenset()
    alerts: frozenset[Alert] = frozenset()


@dataclass(frozen=True, slots=True)
class _LedJob:
    """A led job: while its leader stays, only status and result can change its state.

    :param leader_zxid: Transaction that wrote the leader node.
    """

    job: JobStatus[RunDepth]
    leader_zxid: int
    run: int


@dataclass(frozen=True, slots=True)
class _Figures:
    """What is sent of a job.

    :param state: ``None`` for a deleted job.
    :param standbys: Standby drivers, as the leader of the job counts them; ``None`` without a leader, or any request.
    """

    state: JobState | None = None
    standbys: StandbyCount | None = None


class JobStats:
    """Sender of one session. For the thread of its loop.

    :param session: Returns the session; ``None`` without one.
    """

    def __init__(self, cluster: ClusterPaths, session: Callable[[], Session | None]) -> None:
        self._cluster = cluster
        self._session = session
        self._carrier = carrier()
        self._reports: set[ReportedJobs] = set()
        self._due: dict[str, float] = {}
        self._alerts: dict[Alert, float] = {}  # when each is sent again
        self._sent: dict[str, tuple[_Figures, float]] = {}  # this and the next one: for the executor's thread
        self._led: dict[str, _LedJob] = {}
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="spark-ha-hub-stats")
        self._turn: Future[None] | None = None
        self._warned = float("-inf")
        is_on = self._carrier is not Carrier.NOTHING
        self._task = asyncio.ensure_future(self._send_repeatedly()) if is_on else None

    @contextmanager
    def reporting(self, job_ids: Iterable[str] = ()) -> Iterator[ReportedJobs]:
        """Report jobs and alerts for the duration of the block."""
        report = ReportedJobs(frozenset(job_ids))
        self._reports.add(report)
        try:
            yield report
        finally:
            self._reports.discard(report)
            for alert in report.alerts:  # its end is unknown: no zero is sent
                self._alerts.pop(alert, None)

    def changed(self, path: str) -> None:
        """Read the job of a node again in the next turn."""
        job_id = path.removeprefix(f"{self._cluster.base}/").partition("/")[0]
        if job_id in self._due:
            self._due[job_id] = 0.0

    async def close(self) -> None:
        """Send the last states, if the session answers within seconds."""
        if self._task is not None:
            self._task.cancel()
            if (session := self._session()) is not None and self._due:
                turn = self._executor.submit(self._send, session, *self._next(time.monotonic()))
                await asyncio.wait({asyncio.wrap_future(turn)}, timeout=_LAST)
        self._executor.shutdown(wait=False)

    async def _send_repeatedly(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            session = self._session()
            if session is not None and (self._turn is None or self._turn.done()):
                self._turn = self._executor.submit(self._send, session, *self._next(time.monotonic()))

    def _next(self, now: float) -> tuple[Sequence[str], Sequence[str], Sequence[Sample]]:
        """Return a share of the due jobs, the jobs without a trigger, and the alerts to send."""
        jobs = {job_id for report in self._reports for job_id in report.jobs}
        left = [job_id for job_id in self._due if job_id not in jobs]
        for job_id in left:
            del self._due[job_id]
        for job_id in jobs:
            self._due.setdefault(job_id, 0.0)
        share = max(_AT_LEAST, ceil(len(jobs) * _TICK / INTERVAL))
        due = [job_id for job_id, at in self._due.items() if at <= now][:share]
        self._due.update(dict.fromkeys(due, now + INTERVAL))
        alerts = {alert for report in self._reports for alert in report.alerts}
        samples = [_of_alert(alert, 0.0) for alert in self._alerts if alert not in alerts]
        samples += [_of_alert(alert, 1.0) for alert in alerts if self._alerts.get(alert, 0.0) <= now]
        self._alerts = {alert: at if (at := self._alerts.get(alert, 0.0)) > now else now + INTERVAL for alert in alerts}
        return due, left, samples

    def _send(self, session: Session, due: Sequence[str], left: Sequence[str], alerts: Sequence[Sample]) -> None:
        """Send alerts and the states of jobs. Called in the thread. Raises nothing."""
        try:
            for sample in alerts:
                self._set(sample)
            jobs = [*left, *due]
            for start in range(0, len(jobs), _AT_ONCE):
                for job_id, figures in self._read(session, jobs[start : start + _AT_ONCE]):
                    self._set_figures(job_id, figures)
        except HaError as error:
            _log.debug("the states of %d jobs are left out: %s", len(due), error)  # triggers report an outage
        except Exception:  # noqa: BLE001  # logged: the next turn has to come
            if time.monotonic() - self._warned >= _LOG_EVERY:
                self._warned = time.monotonic()
                _log.warning("Airflow's Stats refuses the metrics of jobs", exc_info=True)
        for job_id in left:
            self._sent.pop(job_id, None)
            self._led.pop(job_id, None)

    def _set_figures(self, job_id: str, figures: _Figures) -> None:
        before, sent_at = self._sent.get(job_id, (_Figures(), float("-inf")))
        is_same, now, state = figures == before, time.monotonic(), figures.state
        if is_same and (state is None or now - sent_at < INTERVAL):
            return
        self._sent[job_id] = figures, now
        for each in [state] if is_same and state is not None else list(JobState):
            self._set(Sample(metric_names.JOB_STATE, float(each is state), job_id, (each.value,)))
        self._set(Sample(metric_names.JOB_STALLED, float(state is JobState.STALLED), job_id))
        if figures.standbys is not None or before.standbys is not None:
            standbys = figures.standbys or StandbyCount(requested=0)  # its last leader has gone
            self._set(Sample(metric_names.STANDBYS_READY, standbys.ready, job_id))
            self._set(Sample(metric_names.STANDBYS_REQUESTED, standbys.requested, job_id))

    def _set(self, sample: Sample) -> None:
        name, tags = stat_of(sample, self._cluster.cluster_id, self._carrier)
        gauge(name, sample.value, tags)

    def _read(self, session: Session, job_ids: Sequence[str]) -> Iterator[tuple[str, _Figures]]:
        """Yield the figures of the readable jobs.

        :raises NotConnectedError: They could not be read.
        """
        coordinator, jobs = session.client.coordinator, [self._cluster.job(job_id) for job_id in job_ids]
        watched = session.nodes.kept(path for job in jobs for path in _watched(job, self._led.get(job.job_id)))

        def read() -> list[JobStatus[RunDepth] | HaError | None]:
            steps = [or_error(_steps(job, self._led.get(job.job_id), watched)) for job in jobs]
            return follow_all(coordinator, steps)

        for paths, job in zip(jobs, in_one_session(coordinator, f"{len(jobs)} jobs", read), strict=True):
            self._led.pop(paths.job_id, None)
            if isinstance(job, HaError) or (job is not None and job.broken):
                continue  # `job show` has the reason
            leader = watched.get(paths.leader)
            if job is not None and job.newest is not None and job.is_led and leader is not None:
                kept = replace(job, graph=None, status=None)
                self._led[paths.job_id] = _LedJob(kept, leader.modified_zxid, job.newest.number)
            if job is None or job.newest is None:
                yield paths.job_id, _Figures()
            else:
                yield paths.job_id, _Figures(job.state, job.of_leader.standbys if job.of_leader is not None else None)


def _of_alert(alert: Alert, value: float) -> Sample:
    job_id, kind = alert
    if not job_id:
        return Sample(metric_names.NOT_INSPECTED, value)
    return Sample(metric_names.JOB_ALERT, value, job_id, (kind,))


def _watched(paths: JobPaths, led: _LedJob | None) -> Iterator[str]:
    yield paths.leader
    if led is not None:
        yield paths.run_result(led.run)


def _steps(paths: JobPaths, led: _LedJob | None, watched: Nodes) -> Steps[JobStatus[RunDepth] | None]:
    """Read the state of a job; ``None`` for a deleted job."""
    leader = watched.get(paths.leader)
    if led is not None and leader is not None and leader.modified_zxid == led.leader_zxid:
        result = paths.run_result(led.run)
        unwatched = () if result in watched else (result,)
        seen = (yield Reads((paths.status, *unwatched))).nodes
        if {**seen, **watched}[result] is None:
            return replace(led.job, status=decode(seen[paths.status], Status))
    base = (yield Reads((paths.base,))).nodes[paths.base]
    if base is None or base.data:
        return None
    return (yield from run_steps(paths))
