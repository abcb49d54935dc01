"""What a watcher of a whole cluster reads, and when it reads it again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import SetData
from airflow_provider_ha.coordination.reads import Reads
from airflow_provider_ha.jobs import recoverable
from airflow_provider_ha.jobs.quarantine import Quarantine, quarantine_op, release
from airflow_provider_ha.recovery.conclude import take_lock
from airflow_provider_ha.triggers import _cluster_view as module
from airflow_provider_ha.triggers._cluster_view import ClusterView
from airflow_provider_ha.triggers._notices import GRANTED, INTERIM, NO_LEADER, QUARANTINED, Condition
from airflow_provider_ha.triggers.cluster import SparkHaClusterTrigger
from tests.support.clusters.cluster_helpers import Cluster
from tests.support.clusters.trigger_helpers import NEVER, cancelled, until


@pytest.fixture
def cluster(config: HaConfig, coordinator: KazooCoordinator, tmp_path: Path) -> Cluster:
    return Cluster(config, coordinator, tmp_path)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which jobs were looked at as a whole."""
    seen, real = list[str](), recoverable.look

    def noted(coordinator: Any, store: Any, paths: Any, job_id: str) -> Any:
        seen.append(job_id)
        return real(coordinator, store, paths, job_id)

    monkeypatch.setattr(module, "look", noted)
    return seen


class Watcher:
    """A view of a cluster whose nodes are read anew for each look."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.view = ClusterView(grace=1.0, start_timeout=60.0, look_again=NEVER)

    def sees(self) -> dict[str, Condition]:
        client = self._cluster.client
        jobs = client.list_jobs()
        found = client.coordinator.read(Reads(tuple(self.view.nodes(client.paths, jobs)))).nodes
        seen = self.view.leadership(client, jobs, found)
        assert seen is not None
        return seen


def again(cluster: Cluster, job_id: str) -> None:
    """Submit a lost job again, and lose the leader of that attempt."""
    assert cluster.client.job(job_id).recover(by="test").attempt == 2
    cluster.led(job_id, cluster.coordinator).release()


def test_a_job_that_is_lost_again_is_told_with_its_new_attempt(cluster: Cluster) -> None:
    cluster.lost("flights")
    watcher = Watcher(cluster)
    first = watcher.sees()["flights"]
    again(cluster, "flights")

    second = watcher.sees()["flights"]

    assert first.kind == second.kind == NO_LEADER
    assert first.facts == {"reason": "run 1 has lost its driver, epoch 1", "run": 1, "attempt": 1, "epoch": 1}
    assert second.facts == {"reason": "run 1 has lost its driver, epoch 2", "run": 1, "attempt": 2, "epoch": 2}


def test_a_process_that_ends_a_lost_run_is_no_leader_and_no_end_of_the_outage(cluster: Cluster) -> None:
    job = cluster.lost("flights")

    with take_lock(job, 1):
        seen = Watcher(cluster).sees()["flights"]

    assert seen == INTERIM


def test_a_submission_is_given_its_start_timeout_before_it_has_no_leader(cluster: Cluster) -> None:
    cluster.submitted("flights")

    seen = Watcher(cluster).sees()["flights"]

    assert (seen.kind, seen.lasting) == (NO_LEADER, 60.0)
    assert seen.facts is not None
    assert seen.facts["reason"] == "attempt 1 of run 1 was submitted and has no leader yet"


def test_a_job_that_a_survey_cannot_tell_is_looked_at_once_until_it_changes(cluster: Cluster, looks: list[str]) -> None:
    job = cluster.lost("flights")
    cluster.coordinator.commit(SetData(job.paths.job_graph, b"garbage"))
    watcher = Watcher(cluster)

    seen = [watcher.sees()["flights"] for _ in range(3)]
    cluster.coordinator.commit(SetData(job.paths.job_graph, b"rubbish"))
    watcher.sees()

    assert seen[0] == seen[1] == seen[2]
    assert seen[0].kind == NO_LEADER
    assert looks == ["flights", "flights"]


def test_looks_that_take_long_are_made_in_turns(
    cluster: Cluster, looks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        job = cluster.lost(name)
        cluster.coordinator.commit(SetData(job.paths.job_graph, b"garbage"))
    monkeypatch.setattr(module, "_TURN", -1.0)
    watcher, client = Watcher(cluster), cluster.client
    jobs = client.list_jobs()
    found = client.coordinator.read(Reads(tuple(watcher.view.nodes(client.paths, jobs)))).nodes

    assert watcher.view.leadership(client, jobs, found) is None
    monkeypatch.setattr(module, "_TURN", 60.0)
    assert set(watcher.view.leadership(client, jobs, found) or {}) == {"first", "second"}
    assert looks == ["first", "second"]


def test_a_job_that_is_led_or_idle_or_in_quarantine_is_never_looked_at(cluster: Cluster, looks: list[str]) -> None:
    cluster.led("running", cluster.coordinator)
    cluster.ended("over")
    cluster.lost("apart")
    cluster.coordinator.ensure(cluster.client.paths.quarantined("apart"))

    seen = Watcher(cluster).sees()

    assert {job_id: condition.kind for job_id, condition in seen.items()} == {
        "apart": QUARANTINED,
        "over": "",
        "running": GRANTED,
    }
    assert looks == []


def test_a_job_in_quarantine_is_told_with_why_until_it_is_released(cluster: Cluster) -> None:
    cluster.lost("flights")
    paths, watcher = cluster.client.paths, Watcher(cluster)
    lost = watcher.sees()["flights"]
    held = Quarantine(job_id="flights", reason="its graph is torn", by="test", cluster_epoch=1, at=SystemClock().now())
    cluster.coordinator.ensure(paths.quarantine)
    cluster.coordinator.commit(quarantine_op(paths, held))

    apart = watcher.sees()["flights"]
    release(cluster.coordinator, paths, "flights")

    assert (apart.kind, apart.lasting) == (QUARANTINED, 1.0)
    assert apart.facts == {"reason": "its graph is torn", "run": 1, "attempt": 1, "epoch": 1}
    assert watcher.sees()["flights"] == lost


def test_a_leader_that_a_release_without_attempts_in_its_pointer_made_is_seen(cluster: Cluster) -> None:
    cluster.led("flights", cluster.coordinator)
    job = cluster.context("flights")
    pointer = job.graphs.pointer()
    assert pointer is not None
    cluster.coordinator.commit(
        SetData(job.paths.job_graph, pointer.model_copy(update={"attempt": 0}).to_bytes()),
    )

    assert Watcher(cluster).sees()["flights"].kind == GRANTED


@pytest.mark.usefixtures("airflow_connection")
def test_a_job_that_is_new_is_told_by_a_watch(cluster: Cluster, opened: list[Any]) -> None:
    """The poll would come in ten minutes."""
    cluster.led("other", cluster.coordinator)
    trigger, told = SparkHaClusterTrigger(grace=0.1, poll_interval=NEVER), list[str]()

    async def follow() -> None:
        async for event in trigger.run():
            payload: Any = event.payload
            told.append(payload["job_id"])

    async def watch() -> None:
        following = asyncio.ensure_future(follow())
        await until(lambda: opened, "a session")
        await asyncio.to_thread(cluster.lost, "flights")
        await until(lambda: told, "the loss")
        await cancelled(following)

    asyncio.run(watch())

    assert told[0] == "flights"
