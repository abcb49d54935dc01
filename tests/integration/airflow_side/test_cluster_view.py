"""Reads of a watcher of a whole cluster, also of nodes that do not exist yet."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Reads, SetData
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.errors import StorageUnavailableError
from airflow_provider_ha.fleet import observations
from airflow_provider_ha.fleet.notify import leadership as module
from airflow_provider_ha.fleet.notify.leadership import ClusterView
from airflow_provider_ha.fleet.notify.notices import GRANTED, INTERIM, NO_LEADER, QUARANTINED, UNKNOWN, Condition
from airflow_provider_ha.fleet.notify.session import WatchedNodes
from airflow_provider_ha.fleet.observations import Quarantine, quarantine_op, release_quarantine
from airflow_provider_ha.jobs.recovery.transactions import take_lock
from airflow_provider_ha.testing.waiting import wait_until
from airflow_provider_ha.triggers.cluster import SparkHaClusterTrigger
from airflow_provider_ha.triggers.job import SparkHaJobTrigger
from tests.support.clusters.cluster_helpers import Cluster
from tests.support.clusters.trigger_helpers import NEVER, cancelled, told_by, until


@pytest.fixture
def watcher(cluster: Cluster) -> Iterator[Watcher]:
    made = Watcher(cluster)
    yield made
    made.view.close()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which jobs were looked at as a whole."""
    seen, real = list[str](), observations.look

    def noted(coordinator: Any, store: Any, paths: Any, job_id: str) -> Any:
        seen.append(job_id)
        return real(coordinator, store, paths, job_id)

    monkeypatch.setattr(module, "look", noted)
    return seen


class Watcher:
    """A view of a cluster whose nodes are read anew for each look; that goes on until its threads have answered."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.view = ClusterView(grace=1.0, start_timeout=60.0, look_again=NEVER)

    def sees(self) -> dict[str, Condition]:
        self.sees_now()
        wait_until(self._has_looked, timeout=20, what="the looks")
        return self.sees_now()

    def _has_looked(self) -> bool:
        looks = self.view._looks
        return not looks._due and looks._current is None

    def sees_now(self) -> dict[str, Condition]:
        """Return what is known without waiting for looks."""
        client = self._cluster.client
        jobs = client.list_jobs()
        found = client.coordinator.read(Reads(tuple(self.view.nodes(client.paths, jobs)))).nodes
        return self.view.leadership(client, jobs, found)


def again(cluster: Cluster, job_id: str) -> None:
    """Submit a lost job again, and lose the leader of that attempt."""
    assert cluster.client.job(job_id).recover(by="test").attempt == 2
    cluster.led(job_id, cluster.coordinator).release()


def unclear(cluster: Cluster, job_id: str) -> None:
    """Damage the pointer of a job: only a look at all of it tells how it stands."""
    cluster.coordinator.commit(SetData(cluster.paths(job_id).job_graph, b"garbage"))


def test_a_job_that_is_lost_again_is_told_with_its_new_attempt(cluster: Cluster, watcher: Watcher) -> None:
    cluster.lost("flights")
    first = watcher.sees()["flights"]
    again(cluster, "flights")

    second = watcher.sees()["flights"]

    assert first.kind == second.kind == NO_LEADER
    assert first.facts == {"reason": "run 1 has lost its driver, epoch 1", "run": 1, "attempt": 1, "epoch": 1}
    assert second.facts == {"reason": "run 1 has lost its driver, epoch 2", "run": 1, "attempt": 2, "epoch": 2}


def test_a_process_that_ends_a_lost_run_is_no_leader_and_no_end_of_the_outage(
    cluster: Cluster, watcher: Watcher
) -> None:
    job = cluster.lost("flights")

    with take_lock(job, 1):
        seen = watcher.sees()["flights"]

    assert seen == INTERIM


def test_a_submission_is_given_its_start_timeout_before_it_has_no_leader(cluster: Cluster, watcher: Watcher) -> None:
    cluster.submitted("flights")

    seen = watcher.sees()["flights"]

    assert (seen.kind, seen.lasting) == (NO_LEADER, 60.0)
    assert seen.facts is not None
    assert seen.facts["reason"] == "attempt 1 of run 1 was submitted and has no leader yet"


def test_a_job_that_a_survey_cannot_tell_is_looked_at_once_until_it_changes(
    cluster: Cluster, watcher: Watcher, looks: list[str]
) -> None:
    job = cluster.lost("flights")
    cluster.coordinator.commit(SetData(job.paths.job_graph, b"garbage"))

    seen = [watcher.sees()["flights"] for _ in range(3)]
    cluster.coordinator.commit(SetData(job.paths.job_graph, b"rubbish"))
    watcher.sees()

    assert seen[0] == seen[1] == seen[2]
    assert seen[0].kind == NO_LEADER
    assert looks == ["flights", "flights"]


def test_nothing_is_known_of_an_unclear_job_until_its_look_has_an_answer(
    cluster: Cluster, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    for job_id in ("first", "flights", "second"):
        cluster.lost(job_id)
    unclear(cluster, "first")
    unclear(cluster, "second")
    answers, real, calls = threading.Event(), observations.look, list[str]()

    def slow(*args: Any) -> Any:
        calls.append(args[-1])
        answers.wait()
        return real(*args)

    monkeypatch.setattr(module, "look", slow)
    monkeypatch.setattr(module, "_LONG", -1.0)

    early = [watcher.sees_now() for _ in range(3)]
    wait_until(lambda: calls, timeout=20, what="the first look")
    trouble, begun = watcher.view.trouble, list(calls)
    answers.set()
    known = watcher.sees()

    assert [seen["flights"].kind for seen in early] == [NO_LEADER] * 3
    assert [(seen["first"], seen["second"]) for seen in early] == [(UNKNOWN, UNKNOWN)] * 3
    assert trouble is not None
    assert "'first'" in trouble
    assert begun == ["first"], "one look at a time"
    assert {condition.kind for condition in known.values()} == {NO_LEADER}
    assert calls == ["first", "second"]
    assert watcher.view.trouble is None


def test_what_was_known_of_a_job_holds_until_its_look_has_an_answer(
    cluster: Cluster, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    leadership, answers, real = cluster.led("flights", cluster.coordinator), threading.Event(), observations.look

    def slow(*args: Any) -> Any:
        answers.wait()
        return real(*args)

    monkeypatch.setattr(module, "look", slow)
    before = watcher.sees()["flights"]
    leadership.release()
    unclear(cluster, "flights")

    early = watcher.sees_now()["flights"]
    answers.set()

    assert early == before
    assert early.kind == GRANTED
    assert watcher.sees()["flights"].kind == NO_LEADER


def test_a_look_that_fails_does_not_hide_the_other_jobs_and_is_tried_again(
    cluster: Cluster, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    for job_id in ("broken", "flights"):
        cluster.lost(job_id)
        unclear(cluster, job_id)
    real = observations.look

    def refused(*args: Any) -> Any:
        if args[-1] == "broken":
            raise StorageUnavailableError("access is denied")
        return real(*args)

    monkeypatch.setattr(module, "look", refused)
    seen, trouble = watcher.sees(), watcher.view.trouble
    monkeypatch.setattr(module, "look", real)
    later = watcher.sees()

    assert (seen["broken"], seen["flights"].kind) == (UNKNOWN, NO_LEADER)
    assert trouble is not None
    assert "access is denied" in trouble
    assert later["broken"].kind == NO_LEADER
    assert watcher.view.trouble is None


def test_a_job_that_is_led_or_idle_or_in_quarantine_is_never_looked_at(
    cluster: Cluster, watcher: Watcher, looks: list[str]
) -> None:
    cluster.led("running", cluster.coordinator)
    cluster.ended("over")
    cluster.lost("apart")
    cluster.coordinator.ensure(cluster.client.paths.quarantined("apart"))

    seen = watcher.sees()

    assert {job_id: condition.kind for job_id, condition in seen.items()} == {
        "apart": QUARANTINED,
        "over": "",
        "running": GRANTED,
    }
    assert looks == []


def test_a_job_in_quarantine_is_told_with_why_until_it_is_released(cluster: Cluster, watcher: Watcher) -> None:
    cluster.lost("flights")
    paths = cluster.client.paths
    lost = watcher.sees()["flights"]
    held = Quarantine(job_id="flights", reason="its graph is torn", by="test", cluster_epoch=1, at=SystemClock().now())
    cluster.coordinator.ensure(paths.quarantine)
    cluster.coordinator.commit(quarantine_op(paths, held))

    apart = watcher.sees()["flights"]
    release_quarantine(cluster.coordinator, paths, "flights")

    assert (apart.kind, apart.lasting) == (QUARANTINED, 1.0)
    assert apart.facts == {"reason": "its graph is torn", "run": 1, "attempt": 1, "epoch": 1}
    assert watcher.sees()["flights"] == lost


def test_a_job_in_quarantine_whose_run_is_over_needs_nothing(cluster: Cluster, watcher: Watcher) -> None:
    cluster.ended("over")
    cluster.led("running", cluster.coordinator)
    for job_id in ("over", "running"):
        cluster.coordinator.ensure(cluster.client.paths.quarantined(job_id))

    assert {job_id: condition.kind for job_id, condition in watcher.sees().items()} == {"over": "", "running": GRANTED}


def test_a_look_that_ends_after_its_job_is_clear_again_is_dropped(
    cluster: Cluster, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.lost("flights")
    pointer = cluster.coordinator.get(cluster.paths("flights").job_graph).data
    begun, answers, real = threading.Event(), threading.Event(), observations.look

    def slow(*args: Any) -> Any:
        begun.set()
        answers.wait()
        return real(*args)

    monkeypatch.setattr(module, "look", slow)
    unclear(cluster, "flights")
    watcher.sees_now()
    begun.wait(20)
    cluster.coordinator.commit(SetData(cluster.paths("flights").job_graph, pointer))
    watcher.sees_now()
    answers.set()
    wait_until(watcher._has_looked, timeout=20, what="the end of the look")

    assert watcher.view._looks.of("flights") is None


def test_a_leader_that_a_release_without_attempts_in_its_pointer_made_is_seen(
    cluster: Cluster, watcher: Watcher
) -> None:
    cluster.led("flights", cluster.coordinator)
    job = cluster.context("flights")
    pointer = job.graphs.pointer()
    assert pointer is not None
    cluster.coordinator.commit(
        SetData(job.paths.job_graph, pointer.model_copy(update={"attempt": 0}).to_bytes()),
    )

    assert watcher.sees()["flights"].kind == GRANTED


@pytest.mark.usefixtures("airflow_connection", "opened")
def test_what_a_look_shows_is_told_without_a_poll(cluster: Cluster) -> None:
    cluster.lost("flights")
    unclear(cluster, "flights")

    assert told_by(1, emit=["no_leader"], poll_interval=NEVER)[0]["job_id"] == "flights"


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


SOME = 50  # less than what is worth a request for all
ALL = 200


def test_to_watch_a_node_that_is_likely_to_be_absent_costs_one_request(
    config: HaConfig, coordinator: Coordinator, paths: JobPaths
) -> None:
    nodes = [f"{paths.base}/never-{number}" for number in range(SOME)]
    watched, before = WatchedNodes(coordinator, lambda _: None), received(config)

    found = watched.read(nodes, absent=nodes)

    assert set(found.values()) == {None}
    assert SOME <= received(config) - before < 1.5 * SOME


def test_to_watch_many_nodes_costs_a_request_for_all(
    config: HaConfig, coordinator: Coordinator, paths: JobPaths
) -> None:
    watched = WatchedNodes(coordinator, lambda _: None)
    watched.read([f"{paths.base}/first-{number}" for number in range(ALL)])  # asks the servers what they know
    before = received(config)

    found = watched.read([f"{paths.base}/never-{number}" for number in range(ALL)])

    assert set(found.values()) == {None}
    assert received(config) - before < 10


def test_a_task_that_follows_a_job_takes_its_result_for_absent(paths: JobPaths) -> None:
    trigger = SparkHaJobTrigger(job_id=paths.job_id, run=1)

    assert list(trigger.absent(paths)) == [paths.run_result(1)]
    assert set(trigger.absent(paths)) < set(trigger.nodes(paths))


def received(config: HaConfig) -> int:
    """Return how many packets the server has received."""
    host, _, port = config.zookeeper.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(b"srvr")
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    return next(int(line.split()[1]) for line in answer.splitlines() if line.startswith(b"Received"))
