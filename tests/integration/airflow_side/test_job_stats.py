"""States and alerts in Airflow's Stats: real triggers of real records, real clients, and a receiver for each protocol.

Airflow is configured by the lines of docs/how-to/metrics.md.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider_ha.airflow_side import job_stats
from airflow_provider_ha.cli.package_files import MONITORING
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Create, Delete, Reads, SetData
from airflow_provider_ha.jobs.metric_names import METRICS, Emitter
from airflow_provider_ha.jobs.model import JobState, StandbyCount, Status
from airflow_provider_ha.jobs.runs.watchers import ClusterLeaderInfo
from airflow_provider_ha.storage.open_storage import open_store
from airflow_provider_ha.triggers import _hub as hub
from airflow_provider_ha.triggers.cluster import SparkHaClusterTrigger
from airflow_provider_ha.triggers.job import SparkHaJobTrigger
from airflow_provider_ha.triggers.live_fact import SparkHaLeaderTrigger
from tests.support.airflow_stats import PROTOCOLS, received_by, sent_to
from tests.support.clusters.shown_cluster import ShownJob, now
from tests.support.clusters.trigger_helpers import cancelled, first_event, until
from tests.support.receivers import Received
from tests.support.statsd_exporter import statsd_exporter


pytestmark = pytest.mark.usefixtures("airflow_connection", "opened")

HOUR = timedelta(hours=1)
LISTED = {metric.stats_name for metric in METRICS if Emitter.AIRFLOW in metric.emitters}
MINUTE = job_stats.INTERVAL


@pytest.fixture
def receiver(request: pytest.FixtureRequest) -> Iterator[Received]:
    """A receiver that Airflow is configured for; plain StatsD by default."""
    with received_by(getattr(request, "param", "statsd")) as received:
        yield received


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns and repetitions come after fractions of a second."""
    monkeypatch.setattr(job_stats, "_TICK", 0.02)
    monkeypatch.setattr(job_stats, "INTERVAL", 0.1)


@pytest.fixture
def once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test sees the first report, and reports of changes only."""
    monkeypatch.setattr(job_stats, "INTERVAL", MINUTE)


@pytest.fixture
def job(config: HaConfig, coordinator: KazooCoordinator, cluster_paths: Any) -> ShownJob:
    """A job that is led again after a loss. The leader of its cluster inspected it half an hour ago."""
    at = now()
    shown = ShownJob(coordinator, open_store(config), cluster_paths, "flights").submit(at - HOUR).lead(at - HOUR)
    shown.lose(at - timedelta(seconds=70)).recover(at - timedelta(seconds=66)).lead(at - timedelta(seconds=60))
    shown.take_checkpoint(at - timedelta(seconds=30))
    write_status(shown)
    recoverer = ClusterLeaderInfo(epoch=1, host="h", pid=1, address="h:1", since=at - HOUR, inspected_at=at - HOUR / 2)
    coordinator.ensure(cluster_paths.lock.leader.rpartition("/")[0])
    coordinator.commit(Create(cluster_paths.lock.leader, recoverer.to_bytes()))
    return shown


def write_status(job: ShownJob, *, stalled: str = "", standbys: StandbyCount | None = None) -> None:
    status = Status(state=JobState.RUNNING, run=job.run, epoch=job.epoch, stalled=stalled, standbys=standbys, at=now())
    if job.coordinator.find(job.paths.status) is None:
        job.status(now())
    job.coordinator.commit(SetData(job.paths.status, status.to_bytes()))


def another_job(job: ShownJob) -> None:
    """Write another job of the cluster, which is led and requests a standby driver."""
    other = ShownJob(job.coordinator, job.store, job.cluster, "orders").submit(now()).lead(now())
    write_status(other, standbys=StandbyCount(requested=1))


def follower(job: ShownJob) -> SparkHaJobTrigger:
    return SparkHaJobTrigger(job_id=job.job_id, run=1, attempt=2, wait_for="finished")


def watcher() -> SparkHaClusterTrigger:
    """Return the trigger of the DAG alerts, which reports each condition soon."""
    return SparkHaClusterTrigger(grace=0.1, poll_interval=0.1, health_interval=0.1, recovers=False)


class Gauges:
    """Values of the job's gauges, without tags."""

    def __init__(self, receiver: Received, config: HaConfig, job_id: str = "flights") -> None:
        self._receiver, self._begin = receiver, f"{config.cluster_id}.{job_id}"

    def values(self, name: str, label: str = "") -> list[float]:
        """Return all values in the order of their arrival."""
        return self._receiver.values(".".join(filter(None, (f"airflow.spark_ha.{name}.{self._begin}", label))))

    def state(self) -> str | None:
        """Return the state whose newest value is 1; ``None`` without one, or with several."""
        found = [each.value for each in JobState if (self.values("job_state", each.value) or [0.0])[-1] == 1.0]
        return found[0] if len(found) == 1 else None

    def alert(self, event: str) -> float | None:
        """Return the newest value of an alert; ``None`` before the first one."""
        values = self.values("job_alert", event)
        return values[-1] if values else None


@pytest.fixture
def gauges(receiver: Received, config: HaConfig) -> Gauges:
    return Gauges(receiver, config)


def reads_of(opened: list[Any]) -> list[str]:
    """Return the paths that the newest session reads from now on, in one list."""
    read, real = list[str](), opened[-1].coordinator.read

    def noted(reads: Reads, **options: Any) -> Any:
        read.extend((*reads.nodes, *reads.lists))
        return real(reads, **options)

    opened[-1].coordinator.read = noted
    return read


async def consumed(trigger: SparkHaClusterTrigger) -> None:
    """Take the events of a trigger, as Airflow does."""
    async for _ in trigger.run():
        pass


def watched(*triggers: Any, until_true: Callable[[], Any], what: str = "the values") -> None:
    """Let triggers wait until a condition holds."""

    async def watch() -> None:
        waiting = [
            asyncio.ensure_future(
                consumed(trigger) if isinstance(trigger, SparkHaClusterTrigger) else anext(trigger.run())
            )
            for trigger in triggers
        ]
        await until(until_true, what)
        assert not any(each.done() for each in waiting)
        await cancelled(*waiting)

    asyncio.run(watch())


@pytest.mark.parametrize("receiver", PROTOCOLS, indirect=True)
def test_every_metric_of_airflow_arrives_and_no_other(receiver: Received, job: ShownJob) -> None:
    def listed_names() -> set[str]:
        """Return the names that arrived, without the values that follow a name without tags."""
        ours = {name for name in receiver.names() if name.startswith("airflow.spark_ha.")}
        return {".".join(name.split(".")[1:3]) for name in ours}

    another_job(job)
    job.lose(now())
    watched(watcher(), until_true=lambda: listed_names() >= LISTED, what="every metric")

    assert listed_names() == LISTED


@pytest.mark.parametrize(
    ("receiver", "tag"),
    [("opentelemetry", "job_id"), ("datadog", "spark_job"), ("influxdb", "spark_job")],
    indirect=["receiver"],
)
def test_labels_are_tags_that_airflow_keeps_by_default(
    receiver: Received, tag: str, job: ShownJob, config: HaConfig
) -> None:
    common = {"cluster": config.cluster_id, tag: "flights"}

    def states(state: str) -> list[float]:
        return receiver.values("airflow.spark_ha.job_state", **common, state=state)

    watched(follower(job), until_true=lambda: states("RUNNING") and states("LOST"))

    assert set(states("RUNNING")) == {1.0}
    assert set(states("LOST")) == {0.0}


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_real_statsd_exporter_serves_the_names_and_labels_of_our_mappings(job: ShownJob, config: HaConfig) -> None:
    told = {metric.name: set(metric.label_names) for metric in METRICS if Emitter.AIRFLOW in metric.emitters}
    common = {"cluster": config.cluster_id, "job_id": "flights"}
    another_job(job)
    job.lose(now())

    with statsd_exporter(MONITORING) as exporter, sent_to("statsd", exporter):
        watched(
            watcher(),
            until_true=lambda: {name for name, _ in exporter.gauges("spark_ha")} >= set(told),
            what="every metric",
        )
        served = exporter.gauges("spark_ha")

    def value(name: str, **labels: str) -> float:
        return served[name, frozenset((common | labels).items())]

    assert {(name, frozenset(dict(labels))) for name, labels in served} == {
        (name, frozenset(labels)) for name, labels in told.items()
    }
    assert value("spark_ha_job_state", state="LOST") == 1.0
    assert value("spark_ha_job_state", state="RUNNING") == 0.0
    assert value("spark_ha_job_alert", event="no_leader") == 1.0


def test_a_led_job_costs_one_read_until_its_state_changes(job: ShownJob, gauges: Gauges, opened: list[Any]) -> None:
    async def watch() -> set[str]:
        waiting = asyncio.ensure_future(anext(follower(job).run()))
        await until(lambda: len(gauges.values("job_state", "RUNNING")) > 3, "reports with a watched leader")
        read = reads_of(opened)
        write_status(job, stalled="revenue hangs")
        await until(lambda: gauges.state() == "STALLED", "the change")
        await cancelled(waiting)
        return set(read)

    read = asyncio.run(watch())

    polled = {job.paths.leader, job.paths.run_result(1)}  # once a minute, by the session
    assert read - polled == {job.paths.status}
    assert gauges.values("job_stalled")[-1] == 1.0


def test_the_standby_drivers_of_a_job_are_reported_until_its_leader_is_lost(job: ShownJob, gauges: Gauges) -> None:
    def sent() -> list[tuple[float, float]]:
        ready, requested = (gauges.values(f"standby_drivers_{each}") for each in ("ready", "requested"))
        return list(dict.fromkeys(zip(ready, requested, strict=False)))

    async def watch() -> None:
        waiting = asyncio.ensure_future(consumed(SparkHaClusterTrigger()))
        await until(lambda: gauges.state() == "RUNNING", "the first report")
        assert sent() == []
        write_status(job, standbys=StandbyCount(requested=2, ready=1))
        await until(lambda: sent() == [(1.0, 2.0)], "the numbers")
        job.lose(now())
        await until(lambda: sent() == [(1.0, 2.0), (0.0, 0.0)], "the loss")
        await cancelled(waiting)

    asyncio.run(watch())


@pytest.mark.usefixtures("once_a_minute")
def test_a_new_leader_is_reported_before_the_minute_is_over(job: ShownJob, gauges: Gauges) -> None:
    async def watch() -> None:
        waiting = asyncio.ensure_future(consumed(SparkHaClusterTrigger()))
        await until(lambda: gauges.state() == "RUNNING", "the first report")
        job.lose(now(), proven=False)
        await until(lambda: gauges.state() == "LOST", "the loss")
        job.recover(now()).lead(now())
        await until(lambda: gauges.state() == "STARTING", "the next leader")
        await cancelled(waiting)

    asyncio.run(watch())


@pytest.mark.usefixtures("once_a_minute")
def test_a_run_that_ends_is_reported_after_its_trigger_has_ended(job: ShownJob, gauges: Gauges) -> None:
    async def watch() -> dict[str, Any]:
        waiting = asyncio.ensure_future(first_event(follower(job)))
        await until(lambda: gauges.state() == "RUNNING", "the first report")
        job.end(now(), JobState.FAILED, "the same error came 3 times")
        return await waiting

    assert asyncio.run(watch())["state"] == "FAILED"

    assert gauges.values("job_state", "RUNNING") == [1.0, 0.0]
    assert gauges.values("job_state", "FAILED") == [0.0, 1.0]


def test_a_state_is_repeated_without_its_zeros(job: ShownJob, gauges: Gauges) -> None:
    watched(follower(job), until_true=lambda: len(gauges.values("job_state", "RUNNING")) >= 3)

    assert gauges.values("job_state", "LOST") == [0.0]


@pytest.mark.usefixtures("once_a_minute")
def test_many_triggers_send_a_job_once_in_an_interval(
    receiver: Received, job: ShownJob, gauges: Gauges, config: HaConfig
) -> None:
    triggers = [follower(job), follower(job), SparkHaLeaderTrigger(job_id="flights", min_epoch=9)]
    other, later = ShownJob(job.coordinator, job.store, job.cluster, "later"), Gauges(receiver, config, "later")

    async def watch() -> None:
        waiting: list[asyncio.Task[Any]] = [asyncio.ensure_future(anext(trigger.run())) for trigger in triggers]
        waiting.append(asyncio.ensure_future(consumed(SparkHaClusterTrigger())))
        await until(lambda: gauges.state() == "RUNNING", "the first report")
        other.submit(now()).lead(now())
        await until(lambda: later.state() == "STARTING", "another job")
        await cancelled(*waiting)

    asyncio.run(watch())

    assert gauges.values("job_state", "RUNNING") == [1.0]


def test_a_deleted_job_is_in_no_state(job: ShownJob, gauges: Gauges) -> None:
    job.end(now(), JobState.CANCELED)

    async def watch() -> None:
        waiting = asyncio.ensure_future(consumed(SparkHaClusterTrigger()))
        await until(lambda: gauges.state() == "CANCELED", "its end")
        job.coordinator.commit(*_all_of(job))
        await until(lambda: gauges.values("job_state", "CANCELED")[-1] == 0.0, "its deletion")
        await cancelled(waiting)

    asyncio.run(watch())


def _all_of(job: ShownJob) -> list[Delete]:
    def below(path: str) -> Iterator[str]:
        for name in job.coordinator.children(path):
            yield from below(f"{path}/{name}")
        yield path

    return [Delete(path) for path in below(job.paths.base)]


def test_an_alert_is_repeated_until_its_condition_ends(job: ShownJob, gauges: Gauges) -> None:
    async def watch() -> None:
        waiting = asyncio.ensure_future(consumed(watcher()))
        await until(lambda: gauges.state() == "RUNNING", "the first report")
        job.lose(now())
        await until(lambda: len(gauges.values("job_alert", "no_leader")) >= 3, "its repetition")
        job.recover(now()).lead(now())
        await until(lambda: gauges.alert("no_leader") == 0.0, "its end")
        await cancelled(waiting)

    asyncio.run(watch())

    *active, last = gauges.values("job_alert", "no_leader")
    assert set(active) == {1.0}
    assert last == 0.0


def test_the_end_of_a_trigger_ends_no_alert(job: ShownJob, gauges: Gauges) -> None:
    job.lose(now())

    async def watch() -> None:
        staying = asyncio.ensure_future(anext(SparkHaLeaderTrigger(job_id="flights", min_epoch=9).run()))
        waiting = asyncio.ensure_future(consumed(watcher()))
        await until(lambda: gauges.alert("no_leader") == 1.0, "the alert")
        await cancelled(waiting)
        before = len(gauges.values("job_state", "LOST"))
        await until(lambda: len(gauges.values("job_state", "LOST")) > before + 2, "later reports")
        await cancelled(staying)

    asyncio.run(watch())

    assert gauges.alert("no_leader") == 1.0


def test_a_cluster_that_nothing_inspects_is_an_alert_of_the_cluster(
    receiver: Received, job: ShownJob, config: HaConfig
) -> None:
    name = f"airflow.spark_ha.not_inspected.{config.cluster_id}"

    watched(watcher(), until_true=lambda: receiver.values(name))

    assert set(receiver.values(name)) == {1.0}


def test_stats_that_refuse_disturb_no_trigger(
    receiver: Received, job: ShownJob, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    del receiver
    refused = list[str]()

    def refuse(name: str, value: float, tags: object) -> None:
        del value, tags
        refused.append(name)
        raise socket.gaierror("no such host")

    monkeypatch.setattr(job_stats, "gauge", refuse)
    with caplog.at_level(logging.WARNING):
        watched(follower(job), until_true=lambda: len(refused) > 2, what="turns that fail")

    assert [record.message for record in caplog.records if "Stats" in record.message] == [
        "Airflow's Stats refuses the metrics of jobs"
    ]


def test_a_receiver_that_hangs_delays_no_event(
    receiver: Received, job: ShownJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    del receiver
    called, over = threading.Event(), threading.Event()
    ticks, turns, client, next_jobs = list[int](), list[int](), hub.Hub._opened, job_stats.JobStats._next

    def hang(name: str, value: float, tags: object) -> None:
        del name, value, tags
        called.set()
        over.wait(60)

    def tick(self: hub.Hub) -> Any:
        ticks.append(1)
        return client(self)

    def turn(self: job_stats.JobStats, now: float) -> Any:
        turns.append(1)
        return next_jobs(self, now)

    monkeypatch.setattr(hub.Hub, "_opened", tick)
    monkeypatch.setattr(job_stats.JobStats, "_next", turn)
    monkeypatch.setattr(job_stats, "gauge", hang)
    monkeypatch.setattr(job_stats, "_LAST", 0.1)

    async def watch() -> dict[str, Any]:
        waiting = asyncio.ensure_future(first_event(follower(job)))
        await until(called.is_set, "a call that hangs")
        before, begun = len(ticks), len(turns)
        await until(lambda: len(ticks) > before + 10, "its interval to be over")
        assert len(turns) == begun
        job.end(now(), JobState.FINISHED)
        return await asyncio.wait_for(waiting, 30)

    try:
        assert asyncio.run(watch())["state"] == "FINISHED"
        assert not over.is_set()
    finally:
        over.set()


def test_without_a_receiver_nothing_is_read_for_metrics(job: ShownJob, opened: list[Any]) -> None:
    async def watch() -> None:
        waiting = asyncio.ensure_future(anext(follower(job).run()))
        await until(lambda: opened and job.coordinator.children(job.paths.watchers), "the trigger")
        assert [each._stats._task for each in hub._hubs.values()] == [None]
        await cancelled(waiting)

    asyncio.run(watch())
