"""A leader of many jobs looks at those that need it: where all of them stand, five reads each say."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.fleet import cluster_leader as leading
from airflow_provider_ha.fleet import observations, reconciler
from airflow_provider_ha.fleet.cluster_leader import ClusterLeader
from airflow_provider_ha.fleet.reconciler import ReconcileOutcome, ReconcileResult
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.cluster_helpers import Cluster


MANY = [f"led-{number}" for number in range(leading._FEW)]


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The jobs that were looked at."""
    seen, real = list[str](), observations.look

    def noted(coordinator: Any, store: Any, cluster: Any, job_id: str) -> Any:
        seen.append(job_id)
        return real(coordinator, store, cluster, job_id)

    monkeypatch.setattr(reconciler, "look", noted)
    return seen


@pytest.fixture
def watched(leader: ClusterLeader) -> Iterator[Callable[[], list[ReconcileResult]]]:
    """Let the leader watch; return what begins that, and the list of what it reports."""
    stop, reported, threads = threading.Event(), list[ReconcileResult](), list[threading.Thread]()

    def begin() -> list[ReconcileResult]:
        threads.append(threading.Thread(target=leader.watch, args=(stop, reported.append)))
        threads[0].start()
        return reported

    yield begin
    stop.set()
    for thread in threads:
        thread.join(30)


def test_the_graph_pointer_names_the_newest_attempt_in_the_transaction_of_its_submission(cluster: Cluster) -> None:
    job = cluster.lost("flights")
    job_graph, first = job.paths.job_graph, job.graphs.pointer()
    cluster.client.job("flights").recover(by="test", wait=False)

    second, submission = job.graphs.pointer(), cluster.coordinator.get(job.paths.submission(1, 2))

    assert first is not None
    assert second is not None
    assert (first.attempt, second.attempt) == (1, 2)
    assert cluster.coordinator.get(job_graph).modified_zxid == submission.modified_zxid


def test_jobs_that_are_led_are_not_looked_at_to_be_left_alone(
    cluster: Cluster, coordinator: KazooCoordinator, leader: ClusterLeader, looked: list[str]
) -> None:
    cluster.led("led", coordinator)
    cluster.lost("lost")

    attended = {each.job_id: (each.outcome, each.detail) for each in leader.settle(5)}

    assert attended["led"] == (ReconcileOutcome.LEFT_ALONE, "led by epoch 1")
    assert attended["lost"][0] is ReconcileOutcome.RECOVERED
    assert set(looked) == {"lost"}


def test_a_watching_leader_looks_at_the_one_of_many_that_loses_its_driver(
    cluster: Cluster, coordinator: KazooCoordinator, watched: Callable[[], list[ReconcileResult]], looked: list[str]
) -> None:
    leaderships = {name: cluster.led(name, coordinator) for name in MANY}
    reported = watched()
    wait_until(lambda: {each.job_id for each in reported} >= set(MANY), timeout=20, what="all to be surveyed")
    assert looked == []

    leaderships[MANY[0]].release()
    wait_until(lambda: cluster.attempts(MANY[0]) == [1, 2], timeout=20, what="the recovery")

    assert set(looked) == {MANY[0]}


def test_a_watching_leader_cleans_up_after_the_one_of_many_that_has_ended(
    cluster: Cluster, coordinator: KazooCoordinator, watched: Callable[[], list[ReconcileResult]]
) -> None:
    for name in MANY:
        cluster.led(name, coordinator)
    cluster.ended("ended")
    reported = watched()

    wait_until(
        lambda: any(each.outcome is ReconcileOutcome.CLEANED_UP for each in reported), timeout=20, what="the clean-up"
    )


def test_jobs_that_need_no_look_are_looked_at_after_a_while(
    cluster: Cluster,
    coordinator: KazooCoordinator,
    watched: Callable[[], list[ReconcileResult]],
    looked: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leading, "_LOOK_SECONDS", 0.0)
    for name in MANY:
        cluster.led(name, coordinator)

    watched()

    wait_until(lambda: set(looked) == set(MANY), timeout=20, what="a look at each")
