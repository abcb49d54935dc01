"""Who leads a cluster, what it notices, and what one that was deposed can still do: nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Create, Delete, Op, SetData
from airflow_provider_ha.errors import (
    FencedError,
    JobStateError,
    LeadershipError,
    LeadershipLostError,
    LeadershipUnavailableError,
)
from airflow_provider_ha.fleet import observations
from airflow_provider_ha.fleet.cluster_leader import ClusterLeader
from airflow_provider_ha.fleet.reconciler import ReconcileResult, ReconcileTimings
from airflow_provider_ha.jobs.runs.watchers import read_cluster_leader
from airflow_provider_ha.storage import keys
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.cluster_helpers import AT_ONCE, Cluster
from tests.support.clusters.jobs_helpers import list_quarantined
from tests.support.specs import changed


NEVER_POLLED = ReconcileTimings(debounce=0.05, start_timeout=600.0, poll=600.0, backstop=600.0)


class Revoked:
    """A session in which the cluster's lock is taken away right before a certain write."""

    def __init__(self, inner: KazooCoordinator, before: Callable[[Op], bool], revoke: Callable[[], object]) -> None:
        self._inner = inner
        self._before = before
        self._revoke = revoke

    def commit(self, *ops: Op, timeout: float | None = None) -> list[int]:
        if any(map(self._before, ops)):
            self._revoke()
        return self._inner.commit(*ops, timeout=timeout)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.mark.parametrize("node", ["submissions/2", "quarantine/flights"])
def test_a_deposed_leader_writes_nothing(
    cluster: Cluster, coordinator: KazooCoordinator, rival: KazooCoordinator, node: str
) -> None:
    """Fails without the cluster's epoch in the transaction: it still believes that it leads when it writes."""
    cluster.lost("flights")
    if node.startswith("quarantine"):
        _break(cluster, "flights")
    lock = cluster.client.paths.lock

    def is_it(op: Op) -> bool:
        return isinstance(op, Create) and op.path.endswith(node)

    def revoke() -> None:
        coordinator.commit(Delete(lock.leader))
        coordinator.commit(SetData(lock.epoch, b"another"))

    session: Any = Revoked(rival, is_it, revoke)
    leader = ClusterLeader(cluster.open(session), by="test", patience=AT_ONCE)
    leader.lead(timeout=5)

    with pytest.raises(LeadershipError):
        leader.attend("flights")
    with pytest.raises(LeadershipLostError):
        leader.attend("flights")

    assert not leader.leads
    assert cluster.attempts("flights") == [1]
    assert coordinator.children(cluster.paths("flights").recoveries) == []
    assert list_quarantined(coordinator, cluster.client.paths) == {}


def _break(cluster: Cluster, job_id: str) -> None:
    cluster.coordinator.commit(SetData(cluster.paths(job_id).job_graph, b"garbage"))


def test_only_the_leader_takes_submissions_and_the_others_name_it(
    cluster: Cluster, coordinator: KazooCoordinator, leader: ClusterLeader
) -> None:
    other = ClusterLeader(cluster.client, by="test", address="host-b", patience=AT_ONCE)
    with pytest.raises(LeadershipUnavailableError, match=r"is led by host-a on .* \(pid \d+\), epoch 1") as refused:
        other.submit(cluster.request("flights"))
    with pytest.raises(LeadershipUnavailableError, match="is led by host-a"):
        other.lead(timeout=0)

    assert "Ask host-a" in str(refused.value)
    assert cluster.client.list_jobs() == []
    assert leader.submit(cluster.request("flights")).created
    assert cluster.attempts("flights") == [1]


def test_a_task_submits_beside_the_leader_and_the_leader_finds_its_run(cluster: Cluster, leader: ClusterLeader) -> None:
    """The lock is for recovery. A task never waits for it: the run node decides between all that submit."""
    request = cluster.request("flights")

    by_the_task = cluster.client.job("flights").submit(request)
    by_the_leader = leader.submit(request)

    assert (by_the_task.created, by_the_leader.created) == (True, False)
    assert by_the_leader.run == by_the_task.run
    assert cluster.attempts("flights") == [1]


def test_of_a_task_and_the_leader_that_submit_at_once_one_makes_the_run(
    cluster: Cluster, leader: ClusterLeader
) -> None:
    ours, theirs = (changed(cluster.request("flights"), request_id=name) for name in ("task", "leader"))
    doors = [partial(cluster.client.job("flights").submit, ours), partial(leader.submit, theirs)]

    with ThreadPoolExecutor(len(doors)) as pool:
        errors = [future.exception() for future in [pool.submit(door) for door in doors]]

    refused = [error for error in errors if error is not None]
    assert [type(error) for error in refused] == [JobStateError]
    assert cluster.context("flights").runs.numbers() == [1]
    assert cluster.attempts("flights") == [1]


def test_a_leader_that_is_deposed_takes_no_submission(
    cluster: Cluster, coordinator: KazooCoordinator, rival: KazooCoordinator
) -> None:
    """Fails without the cluster's epoch in the transaction that makes the run."""
    lock = cluster.client.paths.lock

    def is_it(op: Op) -> bool:
        return isinstance(op, Create) and op.path.endswith("runs/1")

    session: Any = Revoked(rival, is_it, lambda: coordinator.commit(SetData(lock.epoch, b"another")))
    leader = ClusterLeader(cluster.open(session), by="test", patience=AT_ONCE)
    leader.lead(timeout=5)

    with pytest.raises(FencedError):
        leader.submit(cluster.request("flights"))

    assert cluster.attempts("flights") == []
    assert cluster.engine.launches() == []


def test_the_cluster_goes_to_the_next_one_as_soon_as_it_is_given_up(
    cluster: Cluster, coordinator: KazooCoordinator, leader: ClusterLeader
) -> None:
    successor = ClusterLeader(cluster.client, by="test", address="host-b", patience=AT_ONCE)
    threading.Timer(0.2, leader.close).start()

    successor.lead(timeout=10)

    info = read_cluster_leader(coordinator, cluster.client.paths)
    assert info is not None
    assert (info.address, info.epoch, successor.epoch) == ("host-b", 2, 2)
    with pytest.raises(LeadershipError):
        leader.attend("flights")
    successor.close()


@pytest.fixture
def watching(cluster: Cluster, rival: KazooCoordinator) -> Iterator[list[ReconcileResult]]:
    """A leader that watches and would poll only every ten minutes; what it reported."""
    said: list[ReconcileResult] = []
    stop = threading.Event()
    leader = ClusterLeader(cluster.open(rival), by="test", patience=NEVER_POLLED)
    leader.lead(timeout=5)
    thread = threading.Thread(target=leader.watch, args=(stop, said.append))
    thread.start()
    yield said
    stop.set()
    thread.join(10)
    leader.close()
    assert not thread.is_alive()


def test_a_loss_is_noticed_by_a_watch(
    cluster: Cluster, coordinator: KazooCoordinator, watching: list[ReconcileResult]
) -> None:
    leadership = cluster.led("flights", coordinator)
    wait_until(lambda: any("led by epoch" in each.detail for each in watching), timeout=10, what="a look at the leader")

    leadership.release()

    wait_until(lambda: cluster.attempts("flights") == [1, 2], timeout=10, what="the recovery")


def test_a_release_from_quarantine_is_noticed_by_a_watch(cluster: Cluster, watching: list[ReconcileResult]) -> None:
    view = cluster.lost("broken").runs.latest()
    assert view is not None
    key = keys.blob(view.run.graph.sha256)
    graph = cluster.client.store.read(key)
    cluster.client.store.delete(key)
    wait_until(lambda: list_quarantined(cluster.coordinator, cluster.client.paths), timeout=10, what="a quarantine")
    cluster.client.store.write(key, graph)
    wait_until(lambda: any("in quarantine" in each.detail for each in watching), timeout=10, what="a look at it")

    observations.release_quarantine(cluster.coordinator, cluster.client.paths, "broken")

    wait_until(lambda: cluster.attempts("broken") == [1, 2], timeout=10, what="the recovery")


def test_a_watching_leader_that_is_deposed_stops(
    cluster: Cluster, coordinator: KazooCoordinator, rival: KazooCoordinator
) -> None:
    leader = ClusterLeader(cluster.open(rival), by="test", patience=AT_ONCE)
    leader.lead(timeout=5)
    coordinator.commit(Delete(cluster.client.paths.lock.leader))

    stop = threading.Event()
    deadline = threading.Timer(20, stop.set)  # one that does not stop by itself fails here, instead of going on
    deadline.start()
    with pytest.raises(LeadershipLostError, match="no longer leads cluster"):
        leader.watch(stop)
    deadline.cancel()
    with pytest.raises(LeadershipLostError, match="once"):
        leader.lead(timeout=5)

    cluster.lost("flights")
    assert cluster.attempts("flights") == [1]


def test_how_long_ago_the_leader_has_inspected_a_job_is_shown(
    cluster: Cluster, leader: ClusterLeader, spark_ha: Any
) -> None:
    cluster.submitted("flights")
    leader.attend("flights")

    def inspected() -> bool:
        found = read_cluster_leader(cluster.coordinator, cluster.client.paths)
        return found is not None and found.inspected_at is not None

    wait_until(inspected, timeout=10, what="the word of the leader")
    code, printed, _ = spark_ha("cluster", "show", "--json")

    shown = json.loads(printed)
    assert (code, shown["address"], shown["epoch"]) == (0, "host-a", leader.epoch)
    assert 0 <= shown["inspected_seconds_ago"] < 60
    leader.close()
    assert spark_ha("cluster", "show")[0] == 1
