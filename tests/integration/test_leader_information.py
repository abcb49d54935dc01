"""What a leader publishes of itself, how it stays true, and who hears of it; on a real ZooKeeper."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Create, Delete, Node, SetData
from airflow_provider_ha.coordination.election import acquire
from airflow_provider_ha.coordination.leader_information import LeaderRetrieval
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.coordination.raw_socket import close_session
from airflow_provider_ha.errors import LeadershipLostError, LeadershipUnavailableError
from airflow_provider_ha.testing.proxy import FaultProxy
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.coordination_helpers import HeldClock, ignore, job_paths, lead, session_through


class Heard:
    """A listener that remembers what it was told."""

    def __init__(self) -> None:
        self.leaders: list[bytes | None] = []
        self.threads: set[str] = set()

    def __call__(self, node: Node | None) -> None:
        self.leaders.append(node.data if node is not None else None)
        self.threads.add(threading.current_thread().name)

    def times(self, data: bytes | None) -> int:
        return self.leaders.count(data)


@pytest.fixture
def heard() -> Heard:
    return Heard()


def test_the_cluster_has_a_lock_of_its_own_with_epochs_of_its_own(
    config: HaConfig, coordinator: KazooCoordinator, rival: KazooCoordinator, cluster_paths: ClusterPaths
) -> None:
    job = lead(config, coordinator)
    options: dict[str, Any] = {"timings": config.timings, "clock": HeldClock(), "timeout": 0}
    cluster = acquire(coordinator, cluster_paths.lock, describe=lambda epoch: b"recoverer", **options)

    with pytest.raises(LeadershipUnavailableError, match=r"^cluster 'c-.*' is still led by session 0x"):
        acquire(rival, cluster_paths.lock, describe=lambda epoch: b"rival", **options)

    assert (job.epoch, cluster.epoch) == (1, 1)
    assert coordinator.get(f"{cluster_paths.base}/resource_manager_lock/leader").data == b"recoverer"
    assert coordinator.get(f"{cluster_paths.base}/resource_manager_lock/epoch").version == 1


@pytest.mark.flink(
    "DefaultLeaderElectionServiceTest#testSingleLeaderInformationChangedAndShouldBeCorrected",
    entry=45,
    mutant="information-corrected",
)
@pytest.mark.flink(
    "ZooKeeperLeaderElectionTest#testLeaderChangeWriteLeaderInformationOnlyOnce", entry=46, mutant="information-once"
)
def test_information_that_somebody_changed_is_written_again_once(
    config: HaConfig, coordinator: KazooCoordinator, rival: KazooCoordinator, paths: JobPaths
) -> None:
    """ZooKeeperLeaderElectionTest#testLeaderChangeWriteLeaderInformationOnlyOnce: Flink answered its own writes."""
    leadership = lead(config, coordinator)
    leadership.start_heartbeats(ignore)

    rival.commit(SetData(paths.leader, b"another"))

    wait_until(lambda: coordinator.get(paths.leader).data == b"epoch 1", timeout=10, what="the correction")
    beats = coordinator.get(paths.heartbeat).version
    wait_until(lambda: coordinator.get(paths.heartbeat).version >= beats + 4, timeout=10, what="four more heartbeats")
    assert coordinator.get(paths.leader).version == 2, "one foreign write and one correction"
    assert not leadership.lost.is_set()
    leadership.release()


def test_information_is_put_right_as_often_as_it_is_changed(
    config: HaConfig, coordinator: KazooCoordinator, rival: KazooCoordinator, paths: JobPaths
) -> None:
    leadership = lead(config, coordinator)
    leadership.start_heartbeats(ignore)

    for turn in range(5):
        rival.commit(SetData(paths.leader, f"another process, {turn}".encode()))

    wait_until(lambda: coordinator.get(paths.leader).data == b"epoch 1", timeout=10, what="the correction")
    assert not leadership.lost.is_set(), "a race with the meddler is no loss"
    leadership.release()


def test_a_leader_node_that_is_removed_ends_the_leadership_and_is_not_made_again(
    config: HaConfig, coordinator: KazooCoordinator, rival: KazooCoordinator, paths: JobPaths
) -> None:
    """Deliberately not as in Flink, which writes it again: the node is the fence, so its removal is a revocation."""
    leadership = lead(config, coordinator)
    leadership.start_heartbeats(ignore)

    rival.commit(Delete(paths.leader))

    wait_until(leadership.lost.is_set, timeout=10, what="the loss")
    assert coordinator.find(paths.leader) is None


def test_a_leader_node_of_another_session_ends_the_leadership(
    config: HaConfig, coordinator: KazooCoordinator, rival: KazooCoordinator, paths: JobPaths
) -> None:
    """Fails without comparing the owner: epoch and leader node are both there, so every guarded write passes."""
    leadership = lead(config, coordinator)
    leadership.start_heartbeats(ignore)

    rival.commit(Delete(paths.leader), Create(paths.leader, b"epoch 1", ephemeral=True))

    wait_until(leadership.lost.is_set, timeout=10, what="the loss")
    with pytest.raises(LeadershipLostError, match="belongs to session"):
        leadership.commit(SetData(paths.epoch, b"never"))
    assert coordinator.get(paths.leader).ephemeral_owner == rival.session.session_id  # type: ignore[union-attr]


@pytest.mark.flink(
    "ZooKeeperLeaderElectionConnectionHandlingTest#testLoseLeadershipOnConnectionSuspended",
    entry=34,
)
def test_in_strict_mode_an_interruption_of_any_length_ends_the_leadership(config: HaConfig) -> None:
    """ZooKeeperLeaderElectionConnectionHandlingTest#testLoseLeadershipOnConnectionSuspended."""
    strict = config.model_copy(update={"timings": config.timings.model_copy(update={"tolerate_suspended": False})})
    with FaultProxy(config.zookeeper) as proxy:
        session = session_through(strict, proxy.hosts)
        leadership = lead(strict, session)
        reasons: list[str] = []
        leadership.start_heartbeats(reasons.append)

        proxy.cut()
        proxy.heal()

        wait_until(lambda: reasons, timeout=10, what="the loss")
        assert "strict mode" in reasons[0]
        session.close()


@pytest.mark.flink(
    "ZooKeeperLeaderElectionConnectionHandlingTest"
    "#testKeepLeadershipOnSuspendedConnectionIfTolerateSuspendedConnectionsIsEnabled",
    entry=35,
    mutant="tolerant-mode",
)
def test_by_default_a_short_interruption_leaves_the_leadership(config: HaConfig) -> None:
    """#testKeepLeadershipOnSuspendedConnectionIfTolerateSuspendedConnectionsIsEnabled."""
    with FaultProxy(config.zookeeper) as proxy:
        session = session_through(config, proxy.hosts)
        leadership = lead(config, session)
        leadership.start_heartbeats(ignore)
        beats = session.get(job_paths(config).heartbeat).version

        proxy.cut()
        proxy.heal()

        def went_on() -> bool:
            return session.get(job_paths(config).heartbeat).version > beats + 1

        wait_until(went_on, timeout=10, what="heartbeats after the cut")
        assert not leadership.lost.is_set()
        leadership.release()
        session.close()


def test_every_change_of_the_leader_is_announced_in_order(
    config: HaConfig, coordinator: KazooCoordinator, rival: KazooCoordinator, paths: JobPaths, heard: Heard
) -> None:
    with LeaderRetrieval(rival, paths, heard, poll=600):
        wait_until(lambda: heard.leaders == [None], timeout=10, what="that no process leads")
        for epoch in (1, 2):
            leadership = lead(config, coordinator)
            wait_until(lambda: heard.leaders[-1] == f"epoch {epoch}".encode(), timeout=10, what="the leader")  # noqa: B023
            leadership.release()
            wait_until(lambda: heard.leaders[-1] is None, timeout=10, what="that no process leads")

    assert heard.leaders == [None, b"epoch 1", None, b"epoch 2", None]
    assert len(heard.threads) == 1


@pytest.mark.flink(
    "ZooKeeperLeaderRetrievalConnectionHandlingTest#testSameLeaderAfterReconnectTriggersListenerNotification",
    entry=111,
    mutant="retrieval-again",
)
def test_the_same_leader_is_announced_again_after_a_reconnect(
    config: HaConfig, coordinator: KazooCoordinator, paths: JobPaths, heard: Heard
) -> None:
    """ZooKeeperLeaderRetrievalConnectionHandlingTest#testSameLeaderAfterReconnectTriggersListenerNotification."""
    lead(config, coordinator)
    with FaultProxy(config.zookeeper) as proxy:
        session = session_through(config, proxy.hosts)
        with LeaderRetrieval(session, paths, heard, poll=600):
            wait_until(lambda: heard.leaders == [b"epoch 1"], timeout=10, what="the leader")

            proxy.cut()
            proxy.heal()

            wait_until(lambda: heard.times(b"epoch 1") == 2, timeout=10, what="the leader again")
        session.close()

    assert heard.leaders == [b"epoch 1", b"epoch 1"], "a short interruption does not make the leader unknown"


@pytest.mark.flink(
    "ZooKeeperLeaderRetrievalConnectionHandlingTest#testNewLeaderAfterReconnectTriggersListenerNotification",
    entry=112,
    mutant="retrieval-looks",
)
def test_a_leader_that_changed_during_an_interruption_is_announced(
    config: HaConfig, coordinator: KazooCoordinator, paths: JobPaths, heard: Heard
) -> None:
    """#testNewLeaderAfterReconnectTriggersListenerNotification."""
    first = lead(config, coordinator)
    with FaultProxy(config.zookeeper) as proxy:
        session = session_through(config, proxy.hosts)
        with LeaderRetrieval(session, paths, heard, poll=600):
            wait_until(lambda: heard.leaders == [b"epoch 1"], timeout=10, what="the leader")
            proxy.cut()
            first.release()
            lead(config, coordinator)

            proxy.heal()

            wait_until(lambda: heard.leaders[-1] == b"epoch 2", timeout=10, what="the new leader")
        session.close()


def test_in_strict_mode_a_leader_is_unknown_as_soon_as_the_connection_is_interrupted(
    config: HaConfig, coordinator: KazooCoordinator, paths: JobPaths, heard: Heard
) -> None:
    lead(config, coordinator)
    with FaultProxy(config.zookeeper) as proxy:
        session = session_through(config, proxy.hosts)
        with LeaderRetrieval(session, paths, heard, tolerate_suspended=False, poll=600):
            wait_until(lambda: heard.leaders == [b"epoch 1"], timeout=10, what="the leader")

            proxy.cut()

            wait_until(lambda: heard.leaders == [b"epoch 1", None], timeout=10, what="that nothing is known")
            proxy.heal()
            wait_until(lambda: heard.leaders[-1] == b"epoch 1", timeout=10, what="the leader again")
        session.close()


def test_a_leader_is_unknown_when_the_session_is_lost(
    config: HaConfig, coordinator: KazooCoordinator, rival: KazooCoordinator, paths: JobPaths, heard: Heard
) -> None:
    lead(config, coordinator)
    assert rival.session is not None
    with LeaderRetrieval(rival, paths, heard, poll=600):
        wait_until(lambda: heard.leaders == [b"epoch 1"], timeout=10, what="the leader")

        close_session(config, rival.session)

        wait_until(lambda: heard.leaders == [b"epoch 1", None, b"epoch 1"], timeout=10, what="None, and it again")


def test_what_a_listener_raises_does_not_end_the_announcements(
    config: HaConfig, coordinator: KazooCoordinator, rival: KazooCoordinator, paths: JobPaths, heard: Heard
) -> None:
    def clumsy(node: Node | None) -> None:
        heard(node)
        raise RuntimeError("a mistake")

    with LeaderRetrieval(rival, paths, clumsy, poll=600):
        lead(config, coordinator)
        wait_until(lambda: heard.times(b"epoch 1") == 1, timeout=10, what="the leader")
