"""What a triggerer sends to Airflow's Stats: real triggers of real records, real clients, and a receiver for each.

Airflow is configured by the lines of docs/how-to/metrics.md.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.airflow_side import job_samples, job_stats
from airflow_provider_ha.airflow_side.job_stats import JobMetricsReader
from airflow_provider_ha.cli.metrics import MONITORING
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Create, Delete, Reads, SetData
from airflow_provider_ha.errors import StorageUnavailableError
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.metric_names import METRICS, Emitter
from airflow_provider_ha.jobs.model import JobState, QueryStatus, Status
from airflow_provider_ha.jobs.runs.submissions import SubmissionExit
from airflow_provider_ha.jobs.runs.watchers import ClusterLeaderInfo
from airflow_provider_ha.storage.open_storage import open_store
from airflow_provider_ha.triggers import _hub as hub
from airflow_provider_ha.triggers import _lasting_objects
from airflow_provider_ha.triggers.cluster import SparkHaClusterTrigger
from airflow_provider_ha.triggers.job import SparkHaJobTrigger
from airflow_provider_ha.triggers.leader import SparkHaLeaderTrigger
from tests.support.airflow_stats import PROTOCOLS, received_by, sent_to
from tests.support.clusters.airflow_helpers import storage_path
from tests.support.clusters.shown_cluster import ShownJob, now
from tests.support.clusters.trigger_helpers import cancelled, first_event, until
from tests.support.receivers import Received
from tests.support.statsd_exporter import statsd_exporter


pytestmark = pytest.mark.usefixtures("airflow_connection", "opened")

HOUR = timedelta(hours=1)
LISTED = {metric.stats_name for metric in METRICS if Emitter.AIRFLOW in metric.emitters}


@pytest.fixture
def receiver(request: pytest.FixtureRequest) -> Iterator[Received]:
    """A receiver that Airflow is configured for. Plain StatsD if nothing else is asked."""
    with received_by(getattr(request, "param", "statsd")) as received:
        yield received


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report every fraction of a second."""
    monkeypatch.setattr(job_stats, "_TICK", 0.02)
    monkeypatch.setattr(job_stats, "INTERVAL", 0.1)


@pytest.fixture
def job(config: HaConfig, coordinator: KazooCoordinator, cluster_paths: Any) -> ShownJob:
    """A job that has recovered a loss a minute ago, with a checkpoint, and with a query that tells its lag.

    The leader of its cluster has inspected it half an hour ago.
    """
    at = now()
    store = open_store(config)
    shown = ShownJob(coordinator, store, cluster_paths, "flights").submit(at - HOUR).lead(at - HOUR)
    shown.lose(at - timedelta(seconds=70)).recover(at - timedelta(seconds=66)).lead(at - timedelta(seconds=60))
    shown.take_checkpoint(at - timedelta(seconds=30))
    write_status(shown)
    recoverer = ClusterLeaderInfo(epoch=1, host="h", pid=1, address="h:1", since=at - HOUR, inspected_at=at - HOUR / 2)
    coordinator.ensure(cluster_paths.lock.leader.rpartition("/")[0])
    coordinator.commit(Create(cluster_paths.lock.leader, recoverer.to_bytes()))
    return shown


def write_status(job: ShownJob, *, checkpoint: int = 1, stalled: str = "", committed: int = 310) -> None:
    query = QueryStatus(
        planned=committed,
        committed=committed,
        batch_at=now(),
        batch_seconds=2.5,
        input_rows=60,
        input_rate=6.0,
        processed_rate=24.0,
        lag=4,
        committed_at=now(),
    )
    status = Status(
        state=JobState.RUNNING,
        run=job.run,
        epoch=job.epoch,
        queries={"revenue": query},
        checkpoint=checkpoint,
        stalled=stalled,
        at=now(),
    )
    if job.coordinator.find(job.paths.status) is None:
        job.status(now())
    job.coordinator.commit(SetData(job.paths.status, status.to_bytes()))


def follower(job: ShownJob) -> SparkHaJobTrigger:
    return SparkHaJobTrigger(job_id=job.job_id, run=1, attempt=2, wait_for="finished")


def reads_of(opened: list[Any]) -> list[str]:
    """Return what the newest session reads from now on, in one list."""
    read, real = list[str](), opened[-1].coordinator.read

    def noted(reads: Reads, **options: Any) -> Any:
        read.extend((*reads.nodes, *reads.lists))
        return real(reads, **options)

    opened[-1].coordinator.read = noted
    return read


def watched(*triggers: Any, until_true: Callable[[], Any], what: str = "what is sent") -> None:
    """Have triggers wait until something is so."""

    async def watch() -> None:
        waiting = [asyncio.ensure_future(anext(trigger.run())) for trigger in triggers]
        await until(until_true, what)
        assert not any(each.done() for each in waiting)
        await cancelled(*waiting)

    asyncio.run(watch())


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("receiver", PROTOCOLS, indirect=True)
def test_every_metric_of_the_list_arrives_and_no_other_one(receiver: Received, job: ShownJob) -> None:
    def listed_names() -> set[str]:
        """Return the names that arrived, without the values that follow the name where there are no tags."""
        ours = {name for name in receiver.names() if name.startswith("airflow.spark_ha.")}
        return {".".join(name.split(".")[1:3]) for name in ours}

    watched(follower(job), until_true=lambda: listed_names() >= LISTED, what="every metric")

    assert listed_names() == LISTED


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize(
    ("receiver", "tag"),
    [("opentelemetry", "job_id"), ("datadog", "spark_job"), ("influxdb", "spark_job")],
    indirect=["receiver"],
)
def test_labels_are_tags_also_with_what_airflow_drops_by_default(
    receiver: Received, tag: str, job: ShownJob, config: HaConfig
) -> None:
    common = {"cluster": config.cluster_id, tag: "flights"}

    def lags() -> list[float]:
        return receiver.values("airflow.spark_ha.lag_rows", **common, query="revenue")

    watched(follower(job), until_true=lags)

    assert set(lags()) == {4.0}
    assert set(receiver.values("airflow.spark_ha.job_state", **common, state="RUNNING")) == {1.0}
    assert set(receiver.values("airflow.spark_ha.job_state", **common, state="LOST")) == {0.0}


@pytest.mark.usefixtures("often")
def test_without_tags_the_name_says_which_job(receiver: Received, job: ShownJob, config: HaConfig) -> None:
    begin = f"{config.cluster_id}.flights"

    watched(follower(job), until_true=lambda: receiver.values(f"airflow.spark_ha.lag_rows.{begin}.revenue"))

    def value(name: str, *labels: str) -> float:
        return receiver.values(".".join((f"airflow.spark_ha.{name}.{begin}", *labels)))[-1]

    assert value("job_state", "RUNNING") == 1.0
    assert value("job_stalled") == 0.0
    assert value("leader_epoch") == 2.0
    assert value("checkpoint_number") == 1.0
    assert 29.0 < value("checkpoint_age_seconds") < 600.0
    assert value("batch_duration_seconds", "revenue") == 2.5
    assert value("restarts_day", "killed") == 1.0
    assert value("restarts_day", "outage") == 0.0
    assert value("restart_attempts_used") == 1.0
    assert value("restart_attempts_limit") == -1.0
    assert 1800.0 <= receiver.values(f"airflow.spark_ha.inspection_age_seconds.{config.cluster_id}")[-1] < 2400.0
    assert value("recovery_seconds", "submit") == 4.0
    assert value("recovery_seconds", "lead") == 6.0


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("often")
def test_the_real_statsd_exporter_serves_what_a_driver_serves_with_the_mappings_that_we_ship(
    job: ShownJob, config: HaConfig
) -> None:
    told = {metric.name: set(metric.label_names) for metric in METRICS if Emitter.AIRFLOW in metric.emitters}
    common = {"cluster": config.cluster_id, "job_id": "flights"}

    with statsd_exporter(MONITORING) as exporter, sent_to("statsd", exporter):
        watched(
            follower(job),
            until_true=lambda: {name for name, _ in exporter.gauges("spark_ha")} >= set(told),
            what="every metric",
        )
        served = exporter.gauges("spark_ha")

    def value(name: str, **labels: str) -> float:
        return served[name, frozenset((common | labels).items())]

    assert {(name, frozenset(dict(labels))) for name, labels in served} == {
        (name, frozenset(labels)) for name, labels in told.items()
    }
    assert value("spark_ha_lag_rows", query="revenue") == 4.0
    assert value("spark_ha_job_state", state="RUNNING") == 1.0
    assert value("spark_ha_job_state", state="LOST") == 0.0
    assert value("spark_ha_leader_epoch") == 2.0
    assert value("spark_ha_recovery_seconds", phase="lead") == 6.0


@pytest.mark.usefixtures("often")
def test_news_of_a_job_that_is_led_are_sent_without_reading_it_as_a_whole(
    receiver: Received, job: ShownJob, config: HaConfig, opened: list[Any]
) -> None:
    begin = f"{config.cluster_id}.flights"

    def number() -> float:
        return (receiver.values(f"airflow.spark_ha.checkpoint_number.{begin}") or [0.0])[-1]

    def seen(state: str) -> bool:
        return (receiver.values(f"airflow.spark_ha.job_state.{begin}.{state}") or [0.0])[-1] == 1.0

    async def watch() -> set[str]:
        waiting = asyncio.ensure_future(anext(follower(job).run()))
        await until(lambda: number() == 1.0, "the first report")
        read = reads_of(opened)
        job.take_checkpoint(now())
        write_status(job, checkpoint=2, stalled="revenue hangs")
        await until(lambda: number() == 2.0 and seen("STALLED"), "the second report")
        await cancelled(waiting)
        return set(read)

    read = asyncio.run(watch())

    polled = {job.paths.leader, job.paths.run_result(1)}  # once a minute, by the session
    assert read - polled == {job.paths.status, job.paths.checkpoint(2)}


@pytest.mark.usefixtures("often")
def test_a_zero_that_was_sent_is_not_sent_with_each_report(receiver: Received, job: ShownJob, config: HaConfig) -> None:
    def arrived(name: str) -> list[float]:
        return receiver.values(f"airflow.spark_ha.{name}".format(f"{config.cluster_id}.flights"))

    watched(follower(job), until_true=lambda: len(arrived("leader_epoch.{}")) >= 3)

    assert 0 < len(arrived("job_state.{}.LOST")) < 3
    assert len(arrived("job_state.{}.RUNNING")) >= 3


@pytest.mark.usefixtures("often")
def test_the_next_leader_is_reported(receiver: Received, job: ShownJob, config: HaConfig) -> None:
    begin = f"{config.cluster_id}.flights"

    def newest(name: str) -> float:
        return (receiver.values(f"airflow.spark_ha.{name}.{begin}") or [0.0])[-1]

    async def watch() -> None:
        waiting = asyncio.ensure_future(anext(SparkHaClusterTrigger().run()))
        await until(lambda: newest("leader_epoch") == 2.0, "the first report")
        job.lose(now(), proven=False)
        await until(lost, "the loss")
        job.recover(now()).lead(now())
        write_status(job)
        await until(lambda: newest("leader_epoch") == 3.0, "the next leader")
        await cancelled(waiting)

    def lost() -> bool:
        return receiver.values(f"airflow.spark_ha.job_state.{begin}.LOST")[-1] == 1.0

    asyncio.run(watch())

    assert receiver.values(f"airflow.spark_ha.restarts_day.{begin}.host")[-1] == 1.0


def test_a_run_that_ends_is_reported_once_more_when_its_trigger_is_gone(
    receiver: Received, job: ShownJob, config: HaConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_stats, "_TICK", 0.02)
    begin = f"airflow.spark_ha.job_state.{config.cluster_id}.flights"

    async def watch() -> dict[str, Any]:
        waiting = asyncio.ensure_future(first_event(follower(job)))
        await until(lambda: receiver.values(f"{begin}.RUNNING"), "the first report")
        job.end(now(), JobState.FAILED, "the same error came 3 times")
        return await waiting

    assert asyncio.run(watch())["state"] == "FAILED"

    assert receiver.values(f"{begin}.RUNNING") == [1.0, 0.0]
    assert receiver.values(f"{begin}.FAILED") == [0.0, 1.0]


def test_many_triggers_send_a_job_once_in_an_interval(
    receiver: Received, job: ShownJob, config: HaConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_stats, "_TICK", 0.02)
    begin = f"{config.cluster_id}.flights"
    triggers = [
        follower(job),
        follower(job),
        SparkHaLeaderTrigger(job_id="flights", min_epoch=9),
        SparkHaClusterTrigger(),
    ]
    other = ShownJob(job.coordinator, job.store, job.cluster, "later")

    async def watch() -> None:
        waiting = [asyncio.ensure_future(anext(trigger.run())) for trigger in triggers]
        await until(lambda: receiver.values(f"airflow.spark_ha.leader_epoch.{begin}"), "the first report")
        other.submit(now()).lead(now())  # makes the cluster's watcher begin anew
        later = f"airflow.spark_ha.leader_epoch.{config.cluster_id}.later"
        await until(lambda: receiver.values(later), "another job")
        assert receiver.values(f"airflow.spark_ha.leader_epoch.{begin}") == [2.0]
        await cancelled(*waiting)

    asyncio.run(watch())


@pytest.mark.usefixtures("often")
@pytest.mark.usefixtures("receiver", "searched")
def test_what_is_kept_of_a_reported_job_is_left_out_of_the_search_for_cycles(
    job: ShownJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_lasting_objects, "_MORE", 1)
    monkeypatch.setattr(hub, "_TICK", 0.02)
    kept = JobMetricsReader()
    monkeypatch.setattr(job_stats, "JobMetricsReader", lambda: kept)

    def left_out() -> bool:
        return bool(kept) and not any(each is kept._known.get(job.job_id) for each in gc.get_objects())

    watched(follower(job), until_true=left_out, what="the search to leave it out")


@pytest.mark.usefixtures("often")
def test_a_job_that_is_deleted_is_in_no_state(receiver: Received, job: ShownJob, config: HaConfig) -> None:
    begin = f"airflow.spark_ha.job_state.{config.cluster_id}.flights"
    job.end(now(), JobState.CANCELED)

    async def watch() -> None:
        waiting = asyncio.ensure_future(anext(SparkHaClusterTrigger().run()))
        await until(lambda: 1.0 in receiver.values(f"{begin}.CANCELED"), "its end")
        job.coordinator.commit(*_all_of(job))
        await until(lambda: receiver.values(f"{begin}.CANCELED")[-1] == 0.0, "its deletion")
        await cancelled(waiting)

    asyncio.run(watch())


def _all_of(job: ShownJob) -> list[Delete]:
    def below(path: str) -> Iterator[str]:
        for name in job.coordinator.children(path):
            yield from below(f"{path}/{name}")
        yield path

    return [Delete(path) for path in below(job.paths.base)]


@pytest.mark.usefixtures("often")
def test_a_driver_that_is_proven_dead_is_reported_although_no_leader_changes(
    receiver: Received, config: HaConfig, job: ShownJob
) -> None:
    begin = f"airflow.spark_ha.job_state.{config.cluster_id}.later"
    later = ShownJob(job.coordinator, job.store, job.cluster, "later").submit(now())

    async def watch() -> None:
        waiting = asyncio.ensure_future(anext(SparkHaClusterTrigger().run()))
        await until(lambda: receiver.values(f"{begin}.SUBMITTED"), "the first report")
        gone = SubmissionExit(code=1, reason="no memory", at=now())
        later.coordinator.commit(Create(later.paths.submission_exit(1, 1), gone.to_bytes()))
        await until(lambda: receiver.values(f"{begin}.LOST")[-1] == 1.0, "the loss")
        await cancelled(waiting)

    asyncio.run(watch())


@pytest.mark.usefixtures("often")
def test_storage_that_is_away_is_asked_once_in_a_turn_and_hides_nothing_else(
    receiver: Received, job: ShownJob, config: HaConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = f"airflow.spark_ha.leader_epoch.{config.cluster_id}"
    ShownJob(job.coordinator, job.store, job.cluster, "later").submit(now()).lead(now())
    asked, turns, real = list[str](), list[int](), JobMetricsReader.read

    def away(self: JobContext, run: object) -> object:
        del run
        asked.append(self.job_id)
        raise StorageUnavailableError("storage hangs")

    def counted(self: JobMetricsReader, session: Any, job_ids: Any) -> Any:
        turns.append(len(job_ids))
        return real(self, session, job_ids)

    monkeypatch.setattr(JobContext, "graph_of", away)
    monkeypatch.setattr(JobMetricsReader, "read", counted)
    watched(
        SparkHaClusterTrigger(),
        until_true=lambda: all(len(receiver.values(f"{begin}.{each}")) > 2 for each in ("flights", "later")),
    )

    assert 2 in turns
    assert len(asked) <= len(turns)


@pytest.mark.usefixtures("often")
def test_the_options_of_a_run_are_read_once_and_their_absence_hides_nothing(
    receiver: Received, job: ShownJob, config: HaConfig
) -> None:
    begin = f"{config.cluster_id}.flights"
    for file in Path(storage_path(config)).rglob(job.graph.sha256):
        file.unlink()

    watched(follower(job), until_true=lambda: len(receiver.values(f"airflow.spark_ha.leader_epoch.{begin}")) > 2)

    assert not receiver.values(f"airflow.spark_ha.restart_attempts_limit.{begin}")


@pytest.mark.usefixtures("often")
def test_stats_that_refuse_disturb_no_trigger(
    receiver: Received, job: ShownJob, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    del receiver
    refused = list[str]()

    def refuse(name: str, value: float, tags: object) -> None:
        del value, tags
        refused.append(name)
        raise socket.gaierror("no such host")

    monkeypatch.setattr(job_samples, "gauge", refuse)
    with caplog.at_level(logging.WARNING):
        watched(follower(job), until_true=lambda: len(refused) > 2, what="turns that fail")

    assert [record.message for record in caplog.records if "Stats" in record.message] == [
        "Airflow's Stats refuses the metrics of jobs"
    ]


@pytest.mark.usefixtures("often")
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
    monkeypatch.setattr(job_samples, "gauge", hang)
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


@pytest.mark.usefixtures("often")
def test_without_a_receiver_nothing_is_read_for_metrics(job: ShownJob, opened: list[Any]) -> None:
    async def watch() -> None:
        waiting = asyncio.ensure_future(anext(follower(job).run()))
        await until(lambda: opened and job.coordinator.children(job.paths.watchers), "the trigger")
        assert [each._stats._task for each in hub._hubs.values()] == [None]
        await cancelled(waiting)

    asyncio.run(watch())
