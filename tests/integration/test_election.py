"""Taking, holding and giving up the lock of a job, on a real ZooKeeper."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Check, Create, Delete, SetData
from airflow_provider_ha.coordination.election import _Candidate
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.coordination.raw_socket import close_session
from airflow_provider_ha.errors import (
    FencedError,
    JobStateError,
    LeadershipLostError,
    LeadershipUnavailableError,
    NodeExistsError,
    OutcomeUnknownError,
    VersionConflictError,
)
from airflow_provider_ha.testing.proxy import FaultProxy
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.coordination_helpers import HeldClock, ignore, lead, session_through


def test_epochs_count_from_one_and_never_come_back(
    config: HaConfig, coordinator: KazooCoordinator, paths: JobPaths
) -> None:
    epochs = []
    for _ in range(3):
        with lead(config, coordinator) as leadership:
            epochs.append(leadership.epoch)
            assert coordinator.get(paths.leader).data == f"epoch {leadership.epoch}".encode()

    assert epochs == [1, 2, 3]
    assert coordinator.find(paths.leader) is None


def test_who_waits_gets_the_job_as_soon_as_it_is_released(config: HaConfig, coordinator: KazooCoordinator) -> None:
    first, second = lead(config, coordinator), KazooCoordinator.connect(config)
    threading.Timer(0.3, first.release).start()

    follower = lead(config, second)

    assert follower.epoch == 2
    second.close()


def test_a_job_that_is_led_is_not_given_away_and_its_epoch_stays(
    config: HaConfig, coordinator: KazooCoordinator, paths: JobPaths
) -> None:
    leader = lead(config, coordinator)
    rival = KazooCoordinator.connect(config)

    with pytest.raises(LeadershipUnavailableError, match=r"'flights' is still led by session 0x"):
        lead(config, rival, timeout=0)

    assert coordinator.get(paths.epoch).version == leader.epoch
    assert leader.commit(Check(paths.epoch)) == [-1]
    rival.close()


def test_one_session_does_not_lead_a_job_twice(config: HaConfig, coordinator: KazooCoordinator) -> None:
    """Fails without comparing the attempt: the leader node belongs to this session, but not to this candidate."""
    lead(config, coordinator)

    with pytest.raises(LeadershipUnavailableError):
        lead(config, coordinator, timeout=0)


@pytest.mark.flink(
    "DefaultDispatcherRunnerTest#grantLeadership_withExistingLeader_waitsForTerminationOfFirstLeader", entry=52
)
def test_of_many_candidates_one_leads_at_a_time(config: HaConfig) -> None:
    epochs: list[int] = []
    inside = threading.Semaphore(1)

    def contend() -> None:
        session = KazooCoordinator.connect(config)
        for _ in range(4):
            with lead(config, session, timeout=30) as leadership:
                assert inside.acquire(blocking=False), "two leaders at one time"
                epochs.append(leadership.epoch)
                inside.release()
        session.close()

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(contend) for _ in range(4)]:
            done.result()

    assert epochs == list(range(1, 17))


def test_who_finds_the_epoch_node_finds_everything_it_needs(
    config: HaConfig, coordinator: KazooCoordinator, paths: JobPaths
) -> None:
    """Two come to a new lock at one time: fails when the epoch node is made before the heartbeat's."""
    made: list[str] = []
    real = coordinator.ensure

    def in_between(*nodes: str) -> None:
        for node in nodes:
            real(node)
            made.append(node)
            if node == paths.epoch:
                assert paths.heartbeat in made, "a process that looks now would lead without it"

    coordinator.ensure = in_between  # type: ignore[method-assign]

    assert lead(config, coordinator).epoch == 1


def test_a_wait_can_be_called_off(config: HaConfig, coordinator: KazooCoordinator) -> None:
    lead(config, coordinator)
    rival, stop = KazooCoordinator.connect(config), threading.Event()
    threading.Timer(0.2, stop.set).start()

    with pytest.raises(LeadershipUnavailableError, match="called off"):
        lead(config, rival, timeout=None, stop=stop)

    rival.close()


def test_who_is_not_admitted_raises_no_epoch(config: HaConfig, coordinator: KazooCoordinator, paths: JobPaths) -> None:
    def refuse() -> None:
        raise JobStateError("run 1 has a result")

    with pytest.raises(JobStateError):
        lead(config, coordinator, admit=refuse)

    assert coordinator.get(paths.epoch).version == 0


def test_lost_answers_neither_lose_nor_double_an_epoch(config: HaConfig, paths: JobPaths) -> None:
    """Every acquisition is cut at a random place; each must still win, with exactly one epoch more than before."""
    chance = random.Random(20131)  # a seed, not a secret
    epochs = []
    with FaultProxy(config.zookeeper) as proxy:
        session = session_through(config, proxy.hosts)
        session.ensure(paths.epoch, paths.heartbeat)
        for _ in range(20):
            fault = chance.choice([proxy.cut_before_transaction, proxy.cut_after_transaction])
            fault(containing=chance.choice([paths.leader, paths.heartbeat]))
            leadership = lead(config, session)
            epochs.append(leadership.epoch)
            assert proxy.hit.is_set()
            leadership.release()
        session.close()

    assert epochs == list(range(1, 21))


def test_a_leader_of_another_epoch_is_fenced(config: HaConfig, coordinator: KazooCoordinator, paths: JobPaths) -> None:
    """Fails without the check of the epoch: the leader node exists, only it is another's."""
    old, rival = lead(config, coordinator), KazooCoordinator.connect(config)
    rival.commit(Delete(paths.leader))
    new = lead(config, rival)

    with pytest.raises(FencedError, match="taken from epoch 1"):
        old.commit(Create(paths.status))

    assert old.lost.is_set()
    assert coordinator.find(paths.status) is None
    assert new.commit(Create(paths.status)) == [0]
    rival.close()


def test_a_leader_without_its_node_is_fenced(config: HaConfig, coordinator: KazooCoordinator, paths: JobPaths) -> None:
    """Fails without the check of the leader node: the epoch is still ours."""
    leadership = lead(config, coordinator)
    coordinator.commit(Delete(paths.leader))

    with pytest.raises(FencedError):
        leadership.commit(Create(paths.status))

    assert coordinator.find(paths.status) is None


@pytest.mark.flink(
    "DefaultDispatcherRunnerTest#grantLeadership_oldLeader_doesNotConfirmLeaderSession",
    entry=53,
    mutant="owner-compared",
)
def test_a_node_of_another_session_is_not_taken_for_ours(
    config: HaConfig, coordinator: KazooCoordinator, paths: JobPaths
) -> None:
    """Fails without comparing the owner with the current session (CURATOR-498)."""
    coordinator.ensure(paths.epoch, paths.heartbeat)
    dying = KazooCoordinator.connect(config)
    dying.commit(SetData(paths.epoch, b"our attempt", 0), Create(paths.leader, ephemeral=True))
    candidate = _Candidate(coordinator, paths, config.timings, SystemClock(), lambda _: b"", attempt=b"our attempt")

    assert candidate.try_once(None) is None

    dying.close()
    leadership = wait_until(lambda: candidate.try_once(None), timeout=5, what="the job to be free")
    assert leadership.epoch == 2


def test_rejections_of_the_callers_own_operations_are_not_a_fence(
    config: HaConfig, coordinator: KazooCoordinator, paths: JobPaths
) -> None:
    leadership = lead(config, coordinator)
    leadership.commit(Create(paths.status))

    with pytest.raises(NodeExistsError):
        leadership.commit(Create(paths.status))
    with pytest.raises(VersionConflictError):
        leadership.commit(SetData(paths.status, b"", 7))

    assert not leadership.lost.is_set()


@pytest.mark.flink(
    "DefaultLeaderElectionServiceTest#testHasLeadershipAsyncWithLeadershipLostButNoRevokeEventProcessed",
    entry=39,
    mutant="lease-checked",
)
def test_nothing_is_sent_once_the_lease_is_over(
    config: HaConfig, coordinator: KazooCoordinator, paths: JobPaths
) -> None:
    """Fails without the check of the lease: the server would still accept the write."""
    clock = HeldClock()
    leadership = lead(config, coordinator, clock=clock)
    clock.time += config.timings.session_timeout

    with pytest.raises(LeadershipLostError, match="lease ran out"):
        leadership.commit(Create(paths.status))

    assert coordinator.find(paths.status) is None
    assert leadership.lease_left() == 0


@pytest.mark.flink(
    "ZooKeeperLeaderElectionConnectionHandlingTest"
    "#testLoseLeadershipOnLostConnectionIfTolerateSuspendedConnectionsIsEnabled",
    entry=36,
    mutant="loss-is-told",
)
def test_a_leadership_does_not_outlive_its_session(
    config: HaConfig, coordinator: KazooCoordinator, paths: JobPaths
) -> None:
    leadership = lead(config, coordinator)
    reasons: list[str] = []
    leadership.start_heartbeats(reasons.append)
    before = coordinator.session
    assert before is not None

    assert close_session(config, before)
    wait_until(lambda: reasons, timeout=3, what="the loss to be noticed")
    wait_until(lambda: coordinator.session, timeout=3, what="kazoo's next session")

    assert coordinator.session != before
    with pytest.raises(LeadershipLostError):
        leadership.commit(Create(paths.status))
    assert coordinator.find(paths.status) is None


def test_nothing_is_sent_under_another_session(config: HaConfig, coordinator: KazooCoordinator) -> None:
    """Fails without comparing the session: the write would be sent, and only fenced by the server."""
    leadership, before = lead(config, coordinator), coordinator.session
    assert before is not None
    close_session(config, before)
    wait_until(lambda: coordinator.session not in {None, before}, timeout=3, what="kazoo's next session")

    with pytest.raises(LeadershipLostError, match="has ended"):
        leadership.commit(Check("/"))


def test_heartbeats_prolong_the_lease(config: HaConfig, coordinator: KazooCoordinator) -> None:
    leadership = lead(config, coordinator)
    end = leadership._lease.deadline
    leadership.start_heartbeats(ignore)

    wait_until(lambda: leadership._lease.deadline > end + 0.5, timeout=3, what="two more heartbeats")

    leadership.release()


@pytest.mark.flink(
    "ZooKeeperLeaderElectionTest#testNotLeaderShouldNotCleanUpTheLeaderInformation", entry=50, mutant="release-guarded"
)
def test_the_release_of_a_deposed_leader_leaves_its_successor_alone(
    config: HaConfig, coordinator: KazooCoordinator, paths: JobPaths
) -> None:
    """Fails without the guard of the release."""
    old, rival = lead(config, coordinator), KazooCoordinator.connect(config)
    rival.commit(Delete(paths.leader))
    new = lead(config, rival)

    old.release()
    old.release()

    assert coordinator.get(paths.leader).data == f"epoch {new.epoch}".encode()
    rival.close()


def test_a_release_without_an_answer_is_not_repeated_into_an_error(config: HaConfig, paths: JobPaths) -> None:
    with FaultProxy(config.zookeeper) as proxy:
        session = session_through(config, proxy.hosts)
        leadership = lead(config, session)
        proxy.cut_after_transaction(containing=paths.leader)

        leadership.release()

        assert session.find(paths.leader) is None
        session.close()


def test_who_gives_up_unsure_does_not_block_the_job(config: HaConfig, paths: JobPaths) -> None:
    """Fails without the withdrawal: the session lives on, and with it a lock that no process knows of."""
    with FaultProxy(config.zookeeper) as proxy:
        session = session_through(config, proxy.hosts)
        session.ensure(paths.epoch, paths.heartbeat)
        proxy.cut_before_transaction(containing=paths.heartbeat)

        with pytest.raises(OutcomeUnknownError):
            lead(config, session, timeout=0)

        assert session.find(paths.leader) is None
        session.close()


def test_a_wrong_password_closes_nothing(config: HaConfig, coordinator: KazooCoordinator, paths: JobPaths) -> None:
    lead(config, coordinator)
    assert coordinator.session is not None
    forged = type(coordinator.session)(coordinator.session.session_id, b"\0" * 16)

    assert not close_session(config, forged)

    assert coordinator.get(paths.leader).ephemeral_owner == forged.session_id
