"""Who watches job graphs hears of each change once, of nothing that it did itself, and of nothing after it stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Delete, SetData
from airflow_provider_ha.coordination.node import Node
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.errors import NotConnectedError
from airflow_provider_ha.jobs.graph_watcher import GraphListener, GraphWatcher
from airflow_provider_ha.jobs.model import GraphPointer
from airflow_provider_ha.testing.proxy import FaultProxy
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.coordination_helpers import session_through
from tests.support.clusters.jobs_helpers import BLOB


class Told:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self.fail = 0

    @property
    def listener(self) -> GraphListener:
        return GraphListener(
            added=lambda job, pointer: self._note("added", f"{job} {pointer.run}"),
            removed=lambda job: self._note("removed", job),
            unreadable=lambda job, reason: self._note("unreadable", f"{job}: {reason}"),
        )

    def _note(self, kind: str, what: str) -> None:
        if self.fail:
            self.fail -= 1
            raise ValueError("the listener is not well")
        self.events.append((kind, what))

    def wait_for(self, *events: tuple[str, str]) -> None:
        wait_until(lambda: len(self.events) >= len(events), timeout=10, what=f"{events}, told {self.events}")
        assert self.events == list(events)


class Deaf:
    """A session whose watches never fire, and that does not answer at first."""

    def __init__(self, inner: Coordinator) -> None:
        self._inner = inner
        self.asked = 0

    def find(self, path: str, **_: object) -> Node | None:
        return self._inner.find(path)

    def children(self, path: str, **_: object) -> list[str]:
        self.asked += 1
        if self.asked == 1:
            raise NotConnectedError("away")
        return self._inner.children(path)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def watch(coordinator: Coordinator, cluster_paths: ClusterPaths, told: Told) -> Iterator[Callable[..., GraphWatcher]]:
    """Start a watcher whose poll never comes in a test, so that only the watches tell."""
    started: list[GraphWatcher] = []

    def start(
        session: Coordinator = coordinator, *, known: Mapping[str, int] | None = None, poll_seconds: float = 600.0
    ) -> GraphWatcher:
        watcher = GraphWatcher(session, cluster_paths, told.listener, known=known, poll_seconds=poll_seconds)
        watcher.start()
        started.append(watcher)
        return watcher

    yield start
    for watcher in started:
        watcher.stop()


@pytest.fixture
def job(cluster_paths: ClusterPaths) -> JobPaths:
    return cluster_paths.job("flights")


def persist(coordinator: Coordinator, job: JobPaths, run: int = 1) -> None:
    coordinator.ensure(job.base)
    data = GraphPointer(graph=BLOB, run=run).to_bytes()
    node = coordinator.find(job.job_graph)
    coordinator.commit(Create(job.job_graph, data) if node is None else SetData(job.job_graph, data, node.version))


def test_added_and_removed_graphs_are_told_once(
    coordinator: Coordinator, job: JobPaths, told: Told, watch: Callable[..., GraphWatcher]
) -> None:
    watch()

    persist(coordinator, job)
    told.wait_for(("added", "flights 1"))
    coordinator.commit(Delete(job.job_graph))
    told.wait_for(("added", "flights 1"), ("removed", "flights"))


def test_what_is_there_at_the_start_is_told(
    coordinator: Coordinator, job: JobPaths, told: Told, watch: Callable[..., GraphWatcher]
) -> None:
    persist(coordinator, job, run=3)

    watch()

    told.wait_for(("added", "flights 3"))


def test_only_the_unknown_is_added_and_only_the_known_removed(
    coordinator: Coordinator, cluster_paths: ClusterPaths, job: JobPaths, told: Told, watch: Callable[..., GraphWatcher]
) -> None:
    """[J5, FLINK-10255] Fails when what the watcher's owner did itself is told to it."""
    persist(coordinator, job)
    other, third = cluster_paths.job("other"), cluster_paths.job("third")
    persist(coordinator, other)
    watcher = watch(known={"flights": 1})
    told.wait_for(("added", "other 1"))

    watcher.expect("third", 1)
    watcher.look()
    persist(coordinator, third)
    watcher.forget("other")
    coordinator.commit(Delete(other.job_graph))
    coordinator.commit(Delete(job.job_graph))

    told.wait_for(("added", "other 1"), ("removed", "flights"))
    watcher.look()
    told.wait_for(("added", "other 1"), ("removed", "flights"))


def test_the_graph_of_a_newer_run_is_another_graph(
    coordinator: Coordinator, job: JobPaths, told: Told, watch: Callable[..., GraphWatcher]
) -> None:
    persist(coordinator, job)
    watch()
    told.wait_for(("added", "flights 1"))

    persist(coordinator, job, run=2)

    told.wait_for(("added", "flights 1"), ("removed", "flights"), ("added", "flights 2"))


def test_a_graph_that_cannot_be_read_is_told_and_hides_no_other(
    coordinator: Coordinator, cluster_paths: ClusterPaths, told: Told, watch: Callable[..., GraphWatcher]
) -> None:
    """[FLINK-5193] Fails when it is skipped, or when it ends the watcher."""
    broken, whole = cluster_paths.job("a-broken"), cluster_paths.job("b-whole")
    coordinator.ensure(broken.base)
    coordinator.commit(Create(broken.job_graph, b"garbage"))
    persist(coordinator, whole)

    watcher = watch()
    wait_until(lambda: len(told.events) == 2, timeout=10, what="both")
    watcher.changed()
    watcher.look()

    assert [kind for kind, _ in told.events] == ["unreadable", "added"]
    assert "a-broken" in told.events[0][1]


def test_nothing_is_told_after_the_stop(
    coordinator: Coordinator, cluster_paths: ClusterPaths, job: JobPaths, told: Told, watch: Callable[..., GraphWatcher]
) -> None:
    """[J5] Not even when a process looks."""
    gone, broken = cluster_paths.job("gone"), cluster_paths.job("broken")
    persist(coordinator, gone)
    watcher = watch(known={"gone": 1})
    watcher.stop()

    persist(coordinator, job)
    coordinator.commit(Delete(gone.job_graph))
    coordinator.ensure(broken.base)
    coordinator.commit(Create(broken.job_graph, b"garbage"))
    watcher.changed()
    watcher.look()

    assert told.events == []


def test_a_listener_that_fails_is_told_again(
    coordinator: Coordinator, job: JobPaths, told: Told, watch: Callable[..., GraphWatcher]
) -> None:
    told.fail = 1
    persist(coordinator, job)

    watch(poll_seconds=0.2)

    told.wait_for(("added", "flights 1"))


def test_watches_that_went_with_the_connection_are_armed_again(
    config: HaConfig, coordinator: Coordinator, job: JobPaths, told: Told, watch: Callable[..., GraphWatcher]
) -> None:
    """Fails when what could not be read is not read again: kazoo arms no watch by itself."""
    with FaultProxy(config.zookeeper) as proxy:
        session = session_through(config, proxy.hosts)
        watch(session)
        persist(coordinator, job)
        told.wait_for(("added", "flights 1"))
        proxy.cut()
        wait_until(lambda: session.state.value == "suspended", timeout=5, what="the cut")
        coordinator.commit(Delete(job.job_graph))
        proxy.heal()

        told.wait_for(("added", "flights 1"), ("removed", "flights"))
        session.close()


def test_the_poll_finds_what_a_watch_did_not_tell(
    coordinator: Coordinator, job: JobPaths, told: Told, watch: Callable[..., GraphWatcher]
) -> None:
    """Fails without the poll, and when an error ends it."""
    session = Deaf(coordinator)
    watch(session, poll_seconds=0.2)
    wait_until(lambda: session.asked >= 2, timeout=10, what="a look that finds nothing")
    persist(coordinator, job)

    told.wait_for(("added", "flights 1"))


def test_what_could_not_be_read_stays_to_be_read(
    coordinator: Coordinator, cluster_paths: ClusterPaths, job: JobPaths, told: Told
) -> None:
    persist(coordinator, job)
    watcher = GraphWatcher(Deaf(coordinator), cluster_paths, told.listener)  # type: ignore[arg-type]  # it only reads

    with pytest.raises(NotConnectedError):
        watcher.look()
    watcher.look()

    assert told.events == [("added", "flights 1")]


def test_it_can_be_stopped_by_who_is_told(coordinator: Coordinator, cluster_paths: ClusterPaths, job: JobPaths) -> None:
    """Fails when the stop waits for the thread that it is called from, and when something is told after it."""
    seen: list[str] = []

    def removed(job_id: str) -> None:
        watcher.stop()
        seen.append(f"stopped by {job_id}")

    listener = GraphListener(lambda job_id, _: seen.append(job_id), removed, lambda *_: None)
    watcher = GraphWatcher(coordinator, cluster_paths, listener, known={"flights": 1}, poll_seconds=600.0)
    persist(coordinator, job, run=2)
    watcher.start()

    wait_until(lambda: seen and not watcher._thread.is_alive(), timeout=10, what="the end of the watcher")
    assert seen == ["stopped by flights"]
