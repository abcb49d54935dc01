"""What an idle job costs a triggerer: its nodes are watched, and the job is read as a whole when they say so."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, ReadResponse, Reads, SetData
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.fleet.notify.leadership import ClusterView
from airflow_provider_ha.fleet.notify.session import WatchedNodes
from airflow_provider_ha.hooks.spark_ha import SparkHaHook
from airflow_provider_ha.testing.waiting import wait_until
from airflow_provider_ha.triggers import _base as base
from airflow_provider_ha.triggers import _hub as hub
from airflow_provider_ha.triggers._base import config_of
from airflow_provider_ha.triggers.cluster import SparkHaClusterTrigger
from airflow_provider_ha.triggers.job import SparkHaJobTrigger
from airflow_provider_ha.triggers.live_fact import SparkHaCheckpointTrigger, SparkHaLeaderTrigger
from tests.support.clusters.cluster_helpers import Cluster
from tests.support.clusters.jobs_helpers import lead, submit
from tests.support.clusters.trigger_helpers import NEVER, cancelled, first_event, looks_of, until


pytestmark = pytest.mark.usefixtures("airflow_connection", "opened")


def follower(**kwargs: Any) -> SparkHaJobTrigger:
    return SparkHaJobTrigger(job_id="flights", run=1, attempt=1, wait_for="finished", **kwargs)


def reads_of(opened: list[Any]) -> list[str]:
    """Return the nodes that the newest session reads from now on, in one list."""
    client, read = opened[-1].coordinator, list[str]()
    real = client.read

    def noted(reads: Reads, **options: Any) -> ReadResponse:
        seen: ReadResponse = real(reads, **options)
        read.extend(reads.nodes)
        return seen

    client.read = noted
    return read


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare each node every fraction of a second."""
    monkeypatch.setattr(hub, "_TICK", 0.02)
    monkeypatch.setattr(hub, "POLL", 0.04)


@pytest.mark.usefixtures("often")
def test_a_job_that_is_led_is_not_read_as_a_whole_until_its_leader_is_gone(
    cluster: Cluster, paths: JobPaths, opened: list[Any]
) -> None:
    leadership = cluster.led("flights", cluster.coordinator, restart_delay=500.0)
    trigger = follower(poll_interval=0.05)
    looks = looks_of(trigger)

    async def watch() -> None:
        waiting = asyncio.ensure_future(first_event(trigger))
        await until(lambda: opened, "a session")
        read = reads_of(opened)
        await until(lambda: read.count(paths.leader) > 10, "ten comparisons")
        assert looks == []
        await asyncio.to_thread(leadership.release)
        await until(lambda: looks, "a look at the job without a leader")
        await cancelled(waiting)

    asyncio.run(watch())


@pytest.mark.usefixtures("often")
def test_a_job_is_read_again_after_a_while_although_its_nodes_stay_as_they_are(
    config: HaConfig, coordinator: Coordinator, paths: JobPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "FULL_LOOK", 0.1)
    submit(coordinator, paths)
    leadership = lead(coordinator, paths, config)
    trigger = follower(poll_interval=NEVER)
    looks = looks_of(trigger)

    async def watch() -> None:
        waiting = asyncio.ensure_future(first_event(trigger))
        await until(lambda: len(looks) > 2, "three looks")
        await cancelled(waiting)

    asyncio.run(watch())
    leadership.release()


def test_a_job_that_is_led_by_an_attempt_that_the_log_does_not_know_is_read_once(
    config: HaConfig, coordinator: Coordinator, paths: JobPaths, opened: list[Any]
) -> None:
    submit(coordinator, paths)
    submit(coordinator, paths, attempt=2)
    leadership = lead(coordinator, paths, config, attempt=2)
    trigger = follower(poll_interval=0.01)
    looks = looks_of(trigger)

    async def watch() -> None:
        waiting = asyncio.ensure_future(first_event(trigger))
        await until(lambda: looks, "a look")
        read = reads_of(opened)
        node = await asyncio.to_thread(coordinator.get, paths.leader)
        await asyncio.to_thread(coordinator.commit, SetData(paths.leader, node.data))
        await until(lambda: paths.leader in read, "the node to be read again")
        await cancelled(waiting)

    asyncio.run(watch())
    leadership.release()

    assert looks == [None]
    assert trigger.attempt == 2


def test_a_job_without_a_leader_is_read_at_each_poll(coordinator: Coordinator, paths: JobPaths) -> None:
    submit(coordinator, paths)
    trigger = SparkHaCheckpointTrigger(job_id="flights", poll_interval=0.02)
    looks = looks_of(trigger)

    async def watch() -> None:
        waiting = asyncio.ensure_future(first_event(trigger))
        await until(lambda: len(looks) > 3, "four looks")
        await cancelled(waiting)

    asyncio.run(watch())


def test_a_job_that_loses_its_leader_again_has_its_whole_start_timeout_again(cluster: Cluster, paths: JobPaths) -> None:
    """The time without a leader counts from the loss, also when the job was led for hours without a look."""
    leadership = cluster.led("flights", cluster.coordinator, restart_delay=500.0)
    trigger = follower(poll_interval=0.02, start_timeout=3.0)
    trigger._unled = trigger._created = trigger._created - 3600
    looks = looks_of(trigger)

    async def watch() -> None:
        waiting = asyncio.ensure_future(first_event(trigger))
        await until(lambda: trigger._unled is None, "the leader to be seen")
        await asyncio.to_thread(submit, cluster.coordinator, paths, attempt=2)
        await asyncio.to_thread(leadership.release)
        await until(lambda: looks, "a look at the attempt that does not lead yet")
        await cancelled(waiting)

    asyncio.run(watch())

    assert looks[0] is None


def deaf(opened: list[Any]) -> Callable[[], None]:
    """Keep every watch of the newest session from firing; return what ends it."""
    client = opened[-1].coordinator
    real = client.read
    client.read = lambda reads, **_: real(reads)

    def hear() -> None:
        client.read = real

    return hear


@pytest.mark.usefixtures("often")
def test_a_change_whose_watch_was_lost_is_noticed_by_the_poll(
    cluster: Cluster, paths: JobPaths, opened: list[Any]
) -> None:
    leadership = cluster.led("flights", cluster.coordinator, restart_delay=500.0)
    other, trigger = SparkHaLeaderTrigger(job_id="later", poll_interval=NEVER), follower(poll_interval=NEVER)
    looks = looks_of(trigger)

    async def watch() -> None:
        first = asyncio.ensure_future(first_event(other))
        await until(lambda: opened, "a session")
        hear, read = deaf(opened), reads_of(opened)
        waiting = asyncio.ensure_future(first_event(trigger))
        await until(lambda: paths.leader in read, "the node to be read")
        hear()
        await asyncio.to_thread(leadership.release)
        await until(lambda: looks, "a look")
        await cancelled(first, waiting)

    asyncio.run(watch())


def test_an_event_that_overtakes_the_answer_leaves_no_old_answer_behind(
    coordinator: Coordinator, paths: JobPaths
) -> None:
    node = f"{paths.base}/late"
    coordinator.ensure(node)
    woken: list[str] = []

    class Overtaken:
        """A session whose answer arrives after the event of the next change."""

        def read(self, reads: Reads, **options: Any) -> ReadResponse:
            seen = coordinator.read(reads, **options)
            if not woken:
                coordinator.commit(SetData(node, b"new"))
                wait_until(lambda: woken, timeout=20, what="the event")
            return seen

    nodes = WatchedNodes(Overtaken(), woken.append)  # type: ignore[arg-type]  # what is needed of a session

    first, second = nodes.read([node])[node], nodes.read([node])[node]

    assert first is not None
    assert second is not None
    assert (first.data, second.data) == (b"", b"new")


def test_a_watcher_of_a_cluster_in_which_nothing_happens_reads_nothing(
    cluster: Cluster, opened: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    leadership = cluster.led("flights", cluster.coordinator)
    cluster.ended("over")
    trigger, polls, real = SparkHaClusterTrigger(poll_interval=0.01, grace=NEVER), list[str](), ClusterView.leadership

    def noted(view: ClusterView, *args: Any, **options: Any) -> Any:
        polls.append("poll")
        return real(view, *args, **options)

    monkeypatch.setattr(ClusterView, "leadership", noted)

    async def watch() -> list[str]:
        waiting = asyncio.ensure_future(first_event(trigger))
        await until(lambda: len(polls) > 3, "the jobs to be known")
        coordinator, asked = opened[-1].coordinator, list[str]()
        for name in ("get", "find", "children", "read"):
            setattr(coordinator, name, partial(asked_of, getattr(coordinator, name), name, asked))
        seen = len(polls)
        await until(lambda: len(polls) > seen + 5, "five polls")
        await cancelled(waiting)
        return asked

    asked = asyncio.run(watch())
    leadership.release()

    assert asked == []


def asked_of(real: Any, name: str, asked: list[str], *args: Any, **options: Any) -> Any:
    """Read, and note that; a read of nothing asks no server."""
    if args != (Reads(),):
        asked.append(name)
    return real(*args, **options)


@pytest.fixture
def lookups(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The connections that were read."""
    read, real = [], SparkHaHook.aget_config

    async def noted(hook: SparkHaHook) -> HaConfig:
        read.append(hook.spark_ha_conn_id)
        return await real(hook)

    monkeypatch.setattr(SparkHaHook, "aget_config", noted)
    return read


def test_triggers_that_start_together_read_their_connection_once(config: HaConfig, lookups: list[str]) -> None:
    async def start() -> list[HaConfig]:
        return await asyncio.gather(*(config_of("spark_ha_default") for _ in range(100)))

    found = asyncio.run(start())

    assert lookups == ["spark_ha_default"]
    assert {each.zookeeper for each in found} == {config.zookeeper}


def test_a_connection_that_could_not_be_read_is_read_again(
    config: HaConfig, lookups: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    good = "AIRFLOW_CONN_SPARK_HA_DEFAULT"
    monkeypatch.setenv("AIRFLOW_CONN_BAD", '{"conn_type": "spark_ha"}')

    async def start() -> HaConfig:
        with pytest.raises(ConfigurationError):
            await config_of("bad")
        monkeypatch.setenv("AIRFLOW_CONN_BAD", os.environ[good])
        return await config_of("bad")

    assert asyncio.run(start()).zookeeper == config.zookeeper
    assert lookups == ["bad", "bad"]
