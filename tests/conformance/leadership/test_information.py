"""Who may say who leads: only the leader of now, and no process waits for another one inside a callback."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator, Delete, Node, SessionState, SetData
from airflow_provider_ha.coordination.leader_information import LeaderRetrieval, PublishedInformation
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.raw_socket import close_session
from airflow_provider_ha.errors import LeadershipLostError, LeadershipUnavailableError, VersionConflictError
from airflow_provider_ha.testing.waiting import wait_until
from tests.conformance.leadership.stage import TIMINGS, Stage
from tests.support.clusters.coordination_helpers import ignore, job_paths, lead
from tests.support.fake import FakeCoordinator


def keeper(
    stage: Stage, session: FakeCoordinator, *, epoch: int, data: bytes
) -> tuple[PublishedInformation, list[str]]:
    """Return what keeps the leader node of an epoch as it was said; and what it finds foreign."""
    assert session.session is not None
    foreign: list[str] = []
    kept = PublishedInformation(
        session, stage.paths, epoch=epoch, session_id=session.session.session_id, data=data, on_foreign=foreign.append
    )
    return kept, foreign


def leader_node(stage: Stage) -> Node:
    node = stage.node(stage.paths.leader)
    assert node is not None
    return node


@pytest.mark.flink(
    "DefaultLeaderElectionServiceTest#testOldConfirmLeaderInformationWhileHavingNewLeadership",
    entry=37,
    mutant="published-epoch",
)
def test_an_old_leadership_says_nothing_under_a_new_one(stage: Stage) -> None:
    """What an earlier epoch says of itself never replaces what the epoch of now says, even in the same session.

    Flink: DefaultLeaderElectionServiceTest#testOldConfirmLeaderInformationWhileHavingNewLeadership [37]
    """
    session = stage.session("leader")
    old = stage.acquire(session)
    kept, _ = keeper(stage, session, epoch=old.epoch, data=b"epoch 1")
    stage.coordinator.commit(Delete(stage.paths.leader))
    stage.acquire(session)
    before = leader_node(stage)

    with pytest.raises(VersionConflictError):
        kept.check()

    assert leader_node(stage) == before
    assert before.data == b"epoch 2"


@pytest.mark.flink(
    "DefaultLeaderElectionServiceTest#testOldConfirmationWhileHavingLeadershipLost",
    entry=38,
    mutant="published-stopped",
)
def test_who_has_lost_the_leadership_says_nothing(stage: Stage) -> None:
    """A leader whose lease is over corrects nothing any more, although its node and its session are still there.

    Flink: DefaultLeaderElectionServiceTest#testOldConfirmationWhileHavingLeadershipLost [38]
    """
    session = stage.session("leader")
    leadership = stage.acquire(session)
    stage.coordinator.commit(SetData(stage.paths.leader, b"another"))
    stage.ensemble.advance(TIMINGS.session_timeout)  # pings keep the session, but nothing proved the leadership

    with pytest.raises(LeadershipLostError, match="lease ran out"):
        leadership.commit()
    corrected = leadership._published.check()

    assert not corrected
    assert leader_node(stage).data == b"another"


@pytest.mark.flink(
    "ZooKeeperLeaderElectionTest#testNotLeaderShouldNotCleanUpTheLeaderInformation",
    entry=50,
    mutant="published-owner",
)
@pytest.mark.flink(
    "ZooKeeperLeaderElectionDriverTest#testNonLeaderCannotPublishLeaderInformation",
    entry=51,
    mutant="published-owner",
)
def test_a_node_of_another_session_is_left_as_it_is(stage: Stage) -> None:
    """A leader that finds another session's node in its place neither removes nor changes it, at any epoch.

    Flink: ZooKeeperLeaderElectionTest#testNotLeaderShouldNotCleanUpTheLeaderInformation [50],
    ZooKeeperLeaderElectionDriverTest#testNonLeaderCannotPublishLeaderInformation [51]
    Differs: Flink deletes the node of a foreign owner and makes its own; ours takes it for a revocation.
    """
    leadership = stage.acquire(stage.session("leader"))
    before = leader_node(stage)
    kept, foreign = keeper(stage, stage.session("other"), epoch=leadership.epoch, data=b"it is me")

    assert not kept.check()

    assert leader_node(stage) == before
    assert len(foreign) == 1


@pytest.mark.flink(
    "DefaultLeaderElectionServiceTest#testHasLeadershipAsyncWithLeadershipLostButNoRevokeEventProcessed",
    entry=39,
    mutant="own-doubt-session",
)
def test_what_the_session_knows_counts_before_anybody_is_told(stage: Stage) -> None:
    """Without its session a leadership sends nothing, although the loss is not reported yet.

    Flink: DefaultLeaderElectionServiceTest#testHasLeadershipAsyncWithLeadershipLostButNoRevokeEventProcessed [39]
    """
    session = stage.session("leader")
    leadership = stage.acquire(session)
    stage.ensemble.expire(session)
    stage.ensemble.advance(0.5)
    assert session.session is not None, "it is in its next session"
    told = leadership.lost.is_set()
    stage.ensemble.history.clear()

    with pytest.raises(LeadershipLostError, match="has ended"):
        leadership.commit(SetData(stage.paths.heartbeat, b"never"))

    assert not told
    assert stage.ensemble.history == []


@pytest.mark.flink(
    "ZooKeeperLeaderElectionConnectionHandlingTest#testLoseLeadershipOnConnectionSuspended",
    entry=34,
    mutant="strict-mode",
)
def test_in_strict_mode_an_interruption_that_no_heartbeat_saw_is_a_loss(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In strict mode every interruption ends the leadership, also one that is over before the next heartbeat.

    Flink: ZooKeeperLeaderElectionConnectionHandlingTest#testLoseLeadershipOnConnectionSuspended [34]
    """
    monkeypatch.setattr(Leadership, "_beat_until_lost", lambda *_: None)  # no heartbeat comes
    monkeypatch.setattr(PublishedInformation, "start", lambda _: None)
    session = stage.session("leader")
    strict = stage.acquire(session, timings=TIMINGS.model_copy(update={"tolerate_suspended": False}))
    strict.start_heartbeats(ignore)

    stage.ensemble.disconnect(session, seconds=0.1)
    stage.ensemble.advance(0.3)

    assert session.state is SessionState.CONNECTED
    with pytest.raises(LeadershipLostError, match="strict mode"):
        strict.commit(SetData(stage.paths.heartbeat, b"never"))


@pytest.fixture
def own(config: HaConfig) -> Iterator[KazooCoordinator]:
    session = KazooCoordinator.connect(config)
    yield session
    session.close()


@pytest.mark.flink(
    "DefaultLeaderElectionServiceTest#testNestedDeadlockInLeadershipConfirmation",
    entry=41,
    mutant="release-in-callback",
)
def test_who_is_told_of_the_loss_may_give_up_at_once(config: HaConfig, own: KazooCoordinator) -> None:
    """From within the callback of a loss the leadership can be released, and ZooKeeper asked: no call waits for itself.

    Flink: DefaultLeaderElectionServiceTest#testNestedDeadlockInLeadershipConfirmation [41]
    """
    leadership, paths = lead(config, own), job_paths(config)
    ended, seen = threading.Event(), list[Node | None]()

    def on_lost(reason: str) -> None:
        del reason
        leadership.release()
        seen.append(own.find(paths.epoch))
        ended.set()

    leadership.start_heartbeats(on_lost)
    own.commit(Delete(paths.leader))

    wait_until(ended.is_set, timeout=10, what="the callback to end")
    assert seen[0] is not None
    assert own.find(paths.leader) is None


@pytest.mark.flink("DefaultLeaderElectionServiceTest#testCloseGrantDeadlock", entry=42, mutant="stop-noticed")
def test_a_wait_that_is_called_off_while_it_is_granted_ends_and_leaves_nothing(
    config: HaConfig, own: KazooCoordinator
) -> None:
    """Granting and calling off meet in every order: the wait ends, and the lock is either its caller's or free.

    Flink: DefaultLeaderElectionServiceTest#testCloseGrantDeadlock [42]
    """
    paths, real = job_paths(config), own.commit
    stop = threading.Event()

    def between(*ops: object, timeout: float | None = None) -> list[int]:
        versions = real(*ops, timeout=timeout)  # type: ignore[arg-type]
        if any(getattr(op, "path", "") == paths.leader for op in ops) and not stop.is_set():
            stop.set()
            assert own.session is not None
            close_session(config, own.session)  # granted, called off and expired at one time
        return versions

    own.commit = between  # type: ignore[method-assign]
    done: list[Leadership | str] = []

    def contend() -> None:
        try:
            done.append(lead(config, own, timeout=None, stop=stop))
        except LeadershipUnavailableError as error:
            done.append(str(error))

    thread = threading.Thread(target=contend)
    thread.start()
    thread.join(10)

    assert not thread.is_alive()
    assert "called off" in str(done[0])
    assert own.find(paths.leader) is None


@pytest.mark.flink(
    "DefaultLeaderElectionServiceTest#testCloseGrantDeadlock", entry=42, mutant="retrieval-stop-in-callback"
)
def test_who_hears_of_a_leader_may_stop_listening_at_once(config: HaConfig, own: Coordinator) -> None:
    """A retrieval can be stopped by who is told: the stop does not wait for the thread that it is called from.

    Flink: DefaultLeaderElectionServiceTest#testCloseGrantDeadlock [42]
    """
    heard: list[str] = []

    def on_change(node: Node | None) -> None:
        heard.append("a leader" if node else "none")
        retrieval.stop()
        heard.append("stopped")

    retrieval = LeaderRetrieval(own, job_paths(config), on_change, poll=0.05)
    retrieval.start()
    wait_until(lambda: "stopped" in heard, timeout=10, what="the stop")
    lead(config, own)

    assert heard == ["none", "stopped"]
