"""The one object of the layer, and how everything is removed in the end. Real ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.api.ha_services import HaServices
from airflow_provider_ha.checkpoints.model import Savepoint
from airflow_provider_ha.checkpoints.store.savepoints.manifest import MANIFEST, write_manifest
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Node, Op, SessionState
from airflow_provider_ha.coordination.raw_socket import close_session
from airflow_provider_ha.coordination.reader_leases import hold
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    CoordinationError,
    JobStateError,
    LeadershipUnavailableError,
    NotConnectedError,
    StorageError,
)
from airflow_provider_ha.fleet.cluster_leader import ClusterLeader
from airflow_provider_ha.jobs.job_graph import Blob
from airflow_provider_ha.storage import keys
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.cluster_helpers import Cluster


@pytest.fixture
def services(cluster: Cluster) -> Iterator[HaServices]:
    with HaServices.zookeeper(cluster.config) as opened:
        yield opened


def blobs(cluster: Cluster) -> list[str]:
    return [found.key for found in cluster.client.store.list("blobs/")]


def below(coordinator: Coordinator, base: str) -> list[str]:
    """Return every node below *base*, relative to it."""
    found = []
    for name in coordinator.children(base):
        found += [name, *(f"{name}/{child}" for child in below(coordinator, f"{base}/{name}"))]
    return found


def test_one_object_gives_everything_that_a_leader_needs(cluster: Cluster, services: HaServices) -> None:
    cluster.submitted("flights")
    heard: list[Node | None] = []
    services.retrieve(services.job_lock("flights"), heard.append)

    with services.elect(services.job_lock("flights"), describe=lambda epoch: b"me", timeout=5) as leadership:
        wait_until(lambda: heard and heard[-1] is not None, timeout=10, what="the leader")
        assert leadership.epoch == 1
    pointer = services.graphs("flights").pointer()

    assert pointer is not None
    assert services.graphs("flights").read_graph(pointer.graph).job_id == "flights"
    assert services.checkpoints("flights").list().pointers == ()


@pytest.mark.flink("ClusterEntrypointTest#testCloseAsyncShouldNotCleanUpHAData", entry=30, mutant="close-keeps-data")
def test_what_was_closed_can_be_opened_again_and_nothing_is_gone(cluster: Cluster, services: HaServices) -> None:
    """AbstractHaServicesTest, and ClusterEntrypointTest#testCloseAsyncShouldNotCleanUpHAData."""
    cluster.submitted("flights")
    held = services.elect(services.cluster_lock, describe=lambda epoch: b"me", timeout=5)
    before = below(cluster.coordinator, cluster.paths("flights").base), blobs(cluster)

    services.close()
    services.close()

    wait_until(lambda: cluster.coordinator.find(services.cluster_lock.leader) is None, timeout=5, what="its lock")
    assert held.epoch == 1
    assert (below(cluster.coordinator, cluster.paths("flights").base), blobs(cluster)) == before


def test_the_session_ends_although_a_retrieval_cannot_be_stopped(
    cluster: Cluster, services: HaServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.submitted("flights")
    retrieval = services.retrieve(services.job_lock("flights"), lambda node: None)
    stop = retrieval.stop

    def fails() -> None:
        stop()
        raise RuntimeError("the listener is stuck")

    monkeypatch.setattr(retrieval, "stop", fails)

    with pytest.raises(RuntimeError, match="stuck"):
        services.close()

    assert services.client.coordinator.state is SessionState.LOST


@pytest.mark.timeout(120)
def test_an_embedded_cluster_finds_again_what_it_had(tmp_path: Path) -> None:
    with HaServices.embedded(tmp_path) as first:
        job = Cluster(first.client.config, first.client.coordinator, tmp_path)
        job.submitted("flights")
    with HaServices.embedded(tmp_path) as second:
        assert second.client.list_jobs() == ["flights"]
        assert second.graphs("flights").pointer() is not None


@pytest.mark.flink(
    "ClusterEntrypointTest#testClusterFinishedNormallyShouldDeregisterAppAndCleanupHAData",
    entry=31,
    mutant="erase-keeps-epochs",
)
def test_all_data_goes_but_epochs_stay(cluster: Cluster, services: HaServices) -> None:
    """AbstractHaServicesTest#testCloseAndCleanupAllData: Flink deletes its znodes, we keep what fences a sleeper."""
    cluster.ended("flights")
    cluster.ended("other")
    assert blobs(cluster)

    services.close_and_cleanup_all_data()

    assert blobs(cluster) == []
    assert [found.key for found in cluster.client.store.list("jobs/")] == []
    lock = ["job_manager_lock", "job_manager_lock/epoch", "job_manager_lock/heartbeat"]
    for job_id in ("flights", "other"):
        assert below(cluster.coordinator, cluster.paths(job_id).base) == [*lock, "savepoints"]
        assert cluster.coordinator.get(cluster.paths(job_id).epoch).version == 2, "its driver's, and the removal's own"
    assert cluster.coordinator.get(cluster.client.paths.lock.epoch).version == 1


def test_a_job_can_be_submitted_again_after_everything_was_removed(cluster: Cluster, services: HaServices) -> None:
    cluster.ended("flights")
    services.close_and_cleanup_all_data()

    leadership = cluster.led("flights", cluster.coordinator) if cluster.submitted("flights") else None

    assert leadership is not None
    assert leadership.epoch == 3, "an epoch never comes back"


def _led(cluster: Cluster) -> None:
    cluster.led("flights", cluster.coordinator)


def _lost(cluster: Cluster) -> None:
    cluster.lost("flights")


def _read_by_somebody(cluster: Cluster) -> None:
    job = cluster.ended("flights")
    hold(cluster.coordinator, job.paths, "checkpoint-1", holder="a copy", seconds=60, clock=SystemClock())


@pytest.mark.parametrize(
    ("condition", "reason"),
    [(_led, "is led by epoch 1"), (_lost, "is LOST and has no result"), (_read_by_somebody, "a reader holds")],
)
def test_a_job_that_is_not_over_refuses_the_removal_of_everything(
    cluster: Cluster, services: HaServices, condition: Any, reason: str
) -> None:
    cluster.ended("another")
    condition(cluster)
    before = below(cluster.coordinator, cluster.paths("another").base), blobs(cluster)

    with pytest.raises(JobStateError, match=reason):
        services.close_and_cleanup_all_data()

    assert (below(cluster.coordinator, cluster.paths("another").base), blobs(cluster)) == before
    assert_closed(services)


def test_a_cluster_that_is_led_refuses_the_removal_and_names_the_leader(cluster: Cluster, services: HaServices) -> None:
    cluster.ended("flights")
    recoverer = ClusterLeader(cluster.client, by="test", address="host-a")
    recoverer.lead(timeout=5)

    with pytest.raises(LeadershipUnavailableError, match="is led by host-a"):
        services.close_and_cleanup_all_data()

    assert blobs(cluster)
    recoverer.close()


class Refusing:
    """A session whose transactions of a certain kind fail."""

    def __init__(self, inner: KazooCoordinator, path: str) -> None:
        self._inner = inner
        self._path = path

    def commit(self, *ops: Op, timeout: float | None = None) -> list[int]:
        if any(op.path.endswith(self._path) and not isinstance(op, Create) for op in ops):
            raise NotConnectedError("the quorum is gone")
        return self._inner.commit(*ops, timeout=timeout)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.mark.flink(
    "AbstractHaServicesTest#testCloseAndCleanupAllDataDoesNotDeleteBlobsIfCleaningUpHADataFails",
    entry=32,
    mutant="blobs-go-first",
)
def test_a_pointer_that_cannot_be_removed_keeps_every_blob(cluster: Cluster) -> None:
    """A pointer that cannot be removed keeps every blob, and the removal can be repeated.

    Flink: AbstractHaServicesTest#testCloseAndCleanupAllDataDoesNotDeleteBlobsIfCleaningUpHADataFails [32].
    """
    cluster.ended("flights")
    session: Any = Refusing(KazooCoordinator.connect(cluster.config), "runs/1")
    services = HaServices(HaClient(cluster.config, session, owned=True))
    before = blobs(cluster)

    with pytest.raises(CoordinationError, match="the quorum is gone"):
        services.close_and_cleanup_all_data()

    assert blobs(cluster) == before
    assert_closed(services)
    HaServices.zookeeper(cluster.config).close_and_cleanup_all_data()
    assert blobs(cluster) == [], "it can be repeated"


@pytest.mark.flink(
    "AbstractHaServicesTest#testCloseAndCleanupAllDataDeletesBlobsAfterCleaningUpHAData",
    entry=33,
    mutant="blobs-go-first",
)
def test_blobs_go_after_the_pointers(cluster: Cluster, services: HaServices, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the first blob goes, no pointer is left.

    Flink: AbstractHaServicesTest#testCloseAndCleanupAllDataDeletesBlobsAfterCleaningUpHAData [33].
    """
    cluster.ended("flights")
    left: list[list[str]] = []

    def fail(key: str) -> None:
        left.append(cluster.coordinator.children(cluster.paths("flights").runs))
        raise StorageError(f"{key} cannot be removed")

    real = services.client.store.delete
    monkeypatch.setattr(
        services.client.store, "delete", lambda key: real(key) if key.startswith("erase-") else fail(key)
    )

    with pytest.raises(StorageError, match="cannot be removed"):
        services.close_and_cleanup_all_data()

    assert left == [[]], "no pointer was left when the first blob went"
    assert_closed(services)


def savepoint_of(cluster: Cluster, job_id: str) -> Path:
    job = cluster.context(job_id)
    view = job.runs.latest()
    assert view is not None
    directory = job.config.work_path / job.keys.savepoint("mine")
    directory.mkdir(parents=True)
    manifest = Savepoint(
        savepoint_id="mine",
        job_id=job_id,
        run=1,
        epoch=1,
        created_at=SystemClock().now(),
        queries={},
        files={},
        graph=view.run.graph.sha256,
        spark_version="4.2.0",
    )
    write_manifest(directory, manifest)
    cluster.coordinator.commit(Create(job.paths.savepoint("mine"), b"a pointer"))
    return directory


def test_what_users_own_stays_with_everything_that_it_needs(cluster: Cluster, services: HaServices) -> None:
    cluster.ended("flights")
    cluster.ended("other")
    directory = savepoint_of(cluster, "flights")

    services.close_and_cleanup_all_data()

    job = cluster.context("flights")
    manifest = Savepoint.from_bytes((directory / MANIFEST).read_bytes(), source="the manifest")
    graph = job.graphs.read_graph(Blob(sha256=manifest.graph, size=0))
    kept = {keys.blob(manifest.graph), keys.blob(graph.application.blob.sha256)}
    assert set(blobs(cluster)) == kept
    assert cluster.coordinator.children(job.paths.savepoints) == ["mine"]


def test_a_savepoint_that_cannot_be_read_stops_the_removal_before_it_begins(
    cluster: Cluster, services: HaServices
) -> None:
    cluster.ended("flights")
    (savepoint_of(cluster, "flights") / MANIFEST).write_bytes(b"garbage")
    before = below(cluster.coordinator, cluster.paths("flights").base), blobs(cluster)

    with pytest.raises(CheckpointCorruptError):
        services.close_and_cleanup_all_data()

    assert (below(cluster.coordinator, cluster.paths("flights").base), blobs(cluster)) == before


def test_who_loses_the_cluster_while_it_removes_everything_stops(cluster: Cluster, services: HaServices) -> None:
    """The removal holds the cluster's lock, so that no recoverer begins beside it; without it, it does not go on."""
    cluster.ended("flights")
    cluster.coordinator.ensure(f"{cluster.client.paths.to_delete}/something")
    real = services.client.coordinator.commit

    def expire_first(*ops: Op, timeout: float | None = None) -> list[int]:
        if any(op.path.endswith("to_delete/something") for op in ops):
            session = services.client.coordinator.session
            assert session is not None
            close_session(cluster.config, session)
        return real(*ops, timeout=timeout)

    services.client.coordinator.commit = expire_first  # type: ignore[method-assign]

    with pytest.raises(CoordinationError):
        services.close_and_cleanup_all_data()

    assert blobs(cluster)


def assert_closed(services: HaServices) -> None:
    with pytest.raises(CoordinationError, match="was closed"):
        services.client.coordinator.find("/")
