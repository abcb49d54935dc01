"""One leader at a time: how a leadership is granted, confirmed, lost and given up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_ha.coordination.coordinator import Delete, SetData
from airflow_provider_ha.errors import LeadershipError, LeadershipUnavailableError, OutcomeUnknownError
from tests.conformance.leadership.stage import Interrupted, Stage
from tests.support.fake import FakeCoordinator, Outcome


def kill(stage: Stage, session: FakeCoordinator) -> None:
    """End a process without a word, and let time pass until its session is over."""
    stage.ensemble.kill(session)
    stage.ensemble.advance(12)


@pytest.mark.flink("ZooKeeperLeaderElectionTest#testZooKeeperReelection", entry=47, mutant="leader-ephemeral")
def test_killing_leaders_in_turn_always_yields_one_new_leader(stage: Stage) -> None:
    """Of those who contend, exactly one leads; each time it is killed exactly one other one does, until none is left.

    Flink: ZooKeeperLeaderElectionTest#testZooKeeperReelection [47]
    """
    contenders = [stage.session(f"contender-{number}") for number in range(4)]
    leaders: list[str] = []

    for turn in range(4):
        granted = list(grants(stage, contenders))
        assert len(granted) == 1
        leaders.append(granted[0].name)
        assert stage.node(stage.paths.epoch).version == turn + 1  # type: ignore[union-attr]
        kill(stage, granted[0])
        contenders.remove(granted[0])

    assert len(set(leaders)) == 4
    assert stage.node(stage.paths.leader) is None


@pytest.mark.flink(
    "ZooKeeperLeaderElectionTest#testZooKeeperReelectionWithReplacement", entry=48, mutant="epoch-is-the-version"
)
def test_a_leader_that_is_replaced_contends_as_a_fresh_process(stage: Stage) -> None:
    """Each killed leader comes back as a fresh process; one leads at a time, each under a new epoch.

    Flink: ZooKeeperLeaderElectionTest#testZooKeeperReelectionWithReplacement [48]
    """
    contenders = [stage.session(f"contender-{number}.0") for number in range(3)]
    epochs = []

    for turn in range(1, 6):
        granted = list(grants(stage, contenders))
        assert len(granted) == 1
        node = stage.node(stage.paths.leader)
        assert node is not None
        epochs.append(node.data)
        kill(stage, granted[0])
        contenders[contenders.index(granted[0])] = stage.session(f"{granted[0].name.split('.')[0]}.{turn}")

    assert epochs == [f"epoch {number}".encode() for number in range(1, 6)]


def grants(stage: Stage, contenders: list[FakeCoordinator]) -> Iterator[FakeCoordinator]:
    """Let each try once; yield those who lead."""
    for session in contenders:
        try:
            stage.acquire(session)
        except LeadershipUnavailableError:
            continue
        yield session


@pytest.mark.flink("ZooKeeperLeaderElectionTest#testEphemeralZooKeeperNodes", entry=49, mutant="leader-ephemeral")
def test_what_a_leader_says_of_itself_goes_with_its_session(stage: Stage) -> None:
    """The leader node vanishes with its session; the epoch stays.

    Flink: ZooKeeperLeaderElectionTest#testEphemeralZooKeeperNodes [49]
    """
    session = stage.session("leader")
    stage.acquire(session)
    node = stage.node(stage.paths.leader)
    assert node is not None
    assert session.session is not None
    assert node.ephemeral_owner == session.session.session_id

    session.close()

    assert stage.node(stage.paths.leader) is None
    assert stage.node(stage.paths.epoch).version == 1  # type: ignore[union-attr]


@pytest.mark.flink(
    "ZooKeeperLeaderElectionTest#testNotLeaderShouldNotCleanUpTheLeaderInformation",
    entry=50,
    mutant="withdraw-own-only",
)
def test_who_gives_up_does_not_remove_what_another_leader_says(stage: Stage) -> None:
    """A candidate that asked for the lock and did not get it removes nothing when it gives up.

    Flink: ZooKeeperLeaderElectionTest#testNotLeaderShouldNotCleanUpTheLeaderInformation [50]
    """
    stage.coordinator.ensure(stage.paths.epoch, stage.paths.heartbeat)
    leader = stage.session("leader")
    session: Any = Interrupted(
        stage.session("candidate"), lambda op: op.path == stage.paths.leader, lambda: stage.acquire(leader)
    )

    with pytest.raises(LeadershipUnavailableError):
        stage.acquire(session)

    node = stage.node(stage.paths.leader)
    assert node is not None
    assert leader.session is not None
    assert (node.data, node.ephemeral_owner) == (b"epoch 1", leader.session.session_id)


@pytest.mark.flink(
    "ZooKeeperLeaderElectionDriverTest#testNonLeaderCannotPublishLeaderInformation", entry=51, mutant="wait-for-absence"
)
def test_who_does_not_lead_writes_nothing(stage: Stage) -> None:
    """A candidate that waits has changed neither the leader's node nor the epoch.

    Flink: ZooKeeperLeaderElectionDriverTest#testNonLeaderCannotPublishLeaderInformation [51]
    """
    stage.acquire(stage.session("leader"))
    before = stage.node(stage.paths.leader), stage.node(stage.paths.epoch)
    waiting = stage.session("waiting")
    stage.ensemble.history.clear()
    sent = waiting.commit
    tried: list[object] = []
    waiting.commit = lambda *ops, **options: (tried.append(ops), sent(*ops, **options))[1]  # type: ignore[method-assign,func-returns-value]

    for _ in range(3):
        with pytest.raises(LeadershipUnavailableError):
            stage.acquire(waiting)

    assert (stage.node(stage.paths.leader), stage.node(stage.paths.epoch)) == before
    assert (tried, stage.ensemble.history) == ([], [])


@pytest.mark.flink(
    "DefaultLeaderElectionServiceTest#testHasLeadershipAsyncWithLeadershipButNoGrantEventProcessed",
    entry=40,
    mutant="grant-proved",
)
@pytest.mark.flink("DefaultDispatcherRunnerTest#grantLeadership_oldLeader_doesNotConfirmLeaderSession", entry=53)
def test_who_is_deposed_before_its_first_write_has_never_led(stage: Stage) -> None:
    """A grant counts from the first guarded write: who is deposed before it does not lead, and tries again.

    Flink: DefaultLeaderElectionServiceTest#testHasLeadershipAsyncWithLeadershipButNoGrantEventProcessed [40],
    DefaultDispatcherRunnerTest#grantLeadership_oldLeader_doesNotConfirmLeaderSession [53]
    """
    session: Any = Interrupted(
        stage.session("candidate"),
        lambda op: op.path == stage.paths.heartbeat and isinstance(op, SetData),
        lambda: stage.coordinator.commit(Delete(stage.paths.leader)),
    )

    leadership = stage.acquire(session, timeout=5)

    assert leadership.epoch == 2
    assert stage.node(stage.paths.leader).data == b"epoch 2"  # type: ignore[union-attr]
    assert stage.node(stage.paths.heartbeat).version == 1  # type: ignore[union-attr]


@pytest.mark.flink(
    "DefaultDispatcherRunnerTest#grantLeadership_withExistingLeader_waitsForTerminationOfFirstLeader",
    entry=52,
    mutant="lease-is-shorter",
)
@pytest.mark.parametrize("beats", [0, 1, 5])
def test_a_leader_that_is_cut_off_has_stopped_before_the_next_one_leads(stage: Stage, beats: int) -> None:
    """Before any process is granted the lock, the lease of the leader before is over: two never believe at one time.

    Flink: DefaultDispatcherRunnerTest#grantLeadership_withExistingLeader_waitsForTerminationOfFirstLeader [52]
    Differs: Flink waits for the end of the former process; ours may be on another host, so its lease must end.
    """
    first, second = stage.session("first"), stage.session("second")
    old = stage.acquire(first)
    for _ in range(beats):
        stage.ensemble.advance(0.5)
        old.prove()
    stage.ensemble.disconnect(first, seconds=1e6)
    believed = []

    def granted() -> bool:
        believed.append(old.lease_left())
        try:
            stage.acquire(second)
        except LeadershipUnavailableError:
            return False
        return True

    while not granted():
        stage.ensemble.advance(0.1)

    assert believed[0] > 0
    assert believed[-1] == 0
    with pytest.raises(LeadershipError):
        old.commit(SetData(stage.paths.epoch, b"never"))


@pytest.mark.flink(
    "DefaultLeaderElectionServiceTest#testDelayedGrantCallAfterContenderRegistration", entry=43, mutant="attempt-kept"
)
@pytest.mark.parametrize("late", [False, True], ids=["answer lost", "applied late"])
def test_a_grant_whose_answer_does_not_come_is_one_grant(stage: Stage, late: bool) -> None:
    """However late an acquisition is applied or answered: its sender is granted the lock once, under one epoch.

    Flink: DefaultLeaderElectionServiceTest#testDelayedGrantCallAfterContenderRegistration [43]
    """
    stage.coordinator.ensure(stage.paths.epoch, stage.paths.heartbeat)
    session, now = stage.session("candidate"), stage.ensemble.clock.milliseconds
    if late:
        stage.ensemble.delay(3.0, session, containing=stage.paths.leader)
        stage.ensemble.at(now + 1000, lambda: stage.ensemble.disconnect(session, 0.1))
    else:
        stage.ensemble.drop_reply(session, containing=stage.paths.leader)
        stage.ensemble.drop_request(session, containing=stage.paths.heartbeat)

    leadership = stage.acquire(session, timeout=5)
    leadership.prove()
    stage.ensemble.advance(3)

    assert leadership.epoch == 1
    assert stage.writers(stage.paths.epoch) == ["test", "candidate"], "made by the test, raised once"
    assert stage.ensemble.faults.counts[Outcome.LATE_APPLIED] == int(late)
    leadership.prove()


@pytest.mark.flink(
    "DefaultLeaderElectionServiceTest#testDelayedGrantCallAfterContenderBeingDeregisteredAgain",
    entry=44,
    mutant="withdraw",
)
def test_a_grant_that_arrives_after_its_candidate_gave_up_is_given_back(stage: Stage) -> None:
    """Who gives up unsure whether it was granted the lock looks, and gives it back: its session may live on.

    Flink: DefaultLeaderElectionServiceTest#testDelayedGrantCallAfterContenderBeingDeregisteredAgain [44]
    """
    stage.coordinator.ensure(stage.paths.epoch, stage.paths.heartbeat)
    session = stage.session("candidate")
    stage.ensemble.drop_request(session, containing=stage.paths.heartbeat)

    with pytest.raises(OutcomeUnknownError):
        stage.acquire(session)

    assert session.session is not None
    assert stage.node(stage.paths.leader) is None
    assert stage.acquire(stage.session("next")).epoch == 2
