"""What the fake does when something breaks: the facts about ZooKeeper and kazoo that the schedules rest on."""

from __future__ import annotations

from functools import partial

import pytest

from airflow_provider_ha.coordination.coordinator import Check, Create, SessionCredentials, SessionState, SetData
from airflow_provider_ha.coordination.election import acquire
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.errors import (
    CoordinationError,
    FencedError,
    LeadershipUnavailableError,
    NodeMissingError,
    NotConnectedError,
    OutcomeUnknownError,
)
from tests.fake.jobs import CONFIG, PATHS, TIMINGS
from tests.support.fake import FakeCoordinator, FakeEnsemble, Fault, Outcome
from tests.support.fake.schedule import Schedule, every_path


T = 4.0
TICK = 0.5


@pytest.fixture
def ensemble() -> FakeEnsemble:
    return FakeEnsemble(tick=TICK, sync_limit=20)


@pytest.fixture
def watcher(ensemble: FakeEnsemble) -> FakeCoordinator:
    """A session with the leader."""
    session = ensemble.connect(timeout=T, name="watcher", member=0)
    session.ensure("/a")
    return session


def lead(ensemble: FakeEnsemble, session: FakeCoordinator) -> Leadership:
    return acquire(
        session, PATHS, timings=TIMINGS, clock=ensemble.clock, describe=lambda epoch: b"%d" % epoch, timeout=0
    )


def test_a_silent_session_ends_at_the_first_tick_after_its_timeout(
    ensemble: FakeEnsemble, watcher: FakeCoordinator
) -> None:
    ensemble.advance(0.2)
    silent = ensemble.connect(timeout=T, member=0)
    silent.commit(Create("/own", ephemeral=True))
    ensemble.pause(silent)

    ensemble.advance(T)
    assert watcher.find("/own") is not None
    ensemble.advance(0.3)

    assert watcher.find("/own") is None
    assert silent.session is not None, "it has not heard of it"


def test_a_session_that_is_only_idle_lives_on(ensemble: FakeEnsemble, watcher: FakeCoordinator) -> None:
    idle = ensemble.connect(timeout=T, member=1)
    idle.commit(Create("/own", ephemeral=True))

    ensemble.advance(60)

    assert watcher.find("/own") is not None


def test_the_client_of_a_follower_that_is_cut_off_believes_what_is_over(
    ensemble: FakeEnsemble, watcher: FakeCoordinator
) -> None:
    """The seconds of double belief: connected, its lock before its eyes, and another one has it."""
    victim = ensemble.connect(timeout=2.0, name="victim", member=1)
    victim.commit(Create("/a/lock", ephemeral=True))
    ensemble.partition(1)

    ensemble.advance(2.6)

    assert watcher.find("/a/lock") is None
    assert victim.state is SessionState.CONNECTED
    assert victim.find("/a/lock") is not None
    with pytest.raises(OutcomeUnknownError):
        victim.commit(Check("/a/lock"), timeout=0.1)


def test_what_a_follower_was_sent_touches_a_session_with_its_next_ping_only(
    ensemble: FakeEnsemble, watcher: FakeCoordinator
) -> None:
    """A forwarded write is no touch: cut off before the ping, the session ends as if it had not been sent."""
    victim = ensemble.connect(timeout=T, name="victim", member=1)
    ensemble.advance(1.2)
    victim.commit(Create("/own", ephemeral=True))
    ensemble.partition(1)

    ensemble.advance(T - 1.2 + TICK)

    assert watcher.find("/own") is None


@pytest.mark.parametrize("idle", [tenths / 10 for tenths in range(0, 42, 3)])
def test_the_lease_of_a_session_that_was_idle_ends_before_another_leads(ensemble: FakeEnsemble, idle: float) -> None:
    """Fails when a fresh lease counts from one heartbeat interval before the grant: a ping may be T/3 old."""
    victim, rival = (ensemble.connect(CONFIG, name=name, member=place) for name, place in (("victim", 1), ("rival", 2)))
    victim.ensure(PATHS.epoch, PATHS.heartbeat)
    ensemble.advance(2 + idle)
    leadership = lead(ensemble, victim)
    ensemble.partition(1)

    successor = None
    while successor is None:
        ensemble.advance(0.05)
        try:
            successor = lead(ensemble, rival)
        except LeadershipUnavailableError:
            continue

    assert leadership.lease_left() == 0


def test_a_lost_request_and_a_lost_reply_look_the_same(ensemble: FakeEnsemble, watcher: FakeCoordinator) -> None:
    ensemble.drop_request(watcher, containing="/a/1")
    ensemble.drop_reply(watcher, containing="/a/2")

    for path in ("/a/1", "/a/2"):
        with pytest.raises(OutcomeUnknownError, match=path):
            watcher.commit(Create(path))

    assert watcher.children("/a") == ["2"]
    assert ensemble.faults.counts[Fault.DROP_REQUEST] == ensemble.faults.counts[Outcome.UNKNOWN_APPLIED] == 1


def test_a_delayed_write_is_answered_in_time_or_applied_unanswered(
    ensemble: FakeEnsemble, watcher: FakeCoordinator
) -> None:
    ensemble.delay(0.5, watcher)
    assert watcher.commit(Create("/a/1")) == [0]

    ensemble.delay(2.0, watcher)
    with pytest.raises(OutcomeUnknownError):
        watcher.commit(Create("/a/2"), timeout=0.5)

    assert watcher.children("/a") == ["1"]
    ensemble.advance(2)
    assert watcher.children("/a") == ["1", "2"]


def test_a_write_of_one_session_that_is_sent_in_the_next_is_fenced(ensemble: FakeEnsemble) -> None:
    """Kazoo's replay: fails without the guards in the transaction, for its sender had checked everything before."""
    process, rival = ensemble.connect(CONFIG, name="process"), ensemble.connect(CONFIG, name="rival")
    leadership = lead(ensemble, process)
    ensemble.delay(6.0, process, containing=PATHS.status)
    with pytest.raises(OutcomeUnknownError):
        leadership.commit(Create(PATHS.status))
    ensemble.disconnect(process, seconds=5.0)
    ensemble.advance(5.5)
    lead(ensemble, rival)

    ensemble.advance(1.0)

    assert ensemble.faults.counts[Outcome.REPLAYED] == 1
    assert ensemble.faults.counts[Outcome.LATE_REJECTED] == 1
    assert rival.find(PATHS.status) is None


def test_a_write_that_was_sent_later_overtakes_nothing(ensemble: FakeEnsemble) -> None:
    """ZooKeeper keeps the order of a session's requests: what comes late comes before what was sent after it."""
    process = ensemble.connect(CONFIG, name="process")
    process.commit(Create("/status"))
    ensemble.delay(6.0, process)
    with pytest.raises(OutcomeUnknownError):
        process.commit(SetData("/status", b"earlier"), timeout=0.5)

    process.commit(SetData("/status", b"later"))

    ensemble.advance(10)
    node = process.get("/status")
    assert (node.data, node.version) == (b"later", 2)
    assert ensemble.faults.counts[Outcome.LATE_APPLIED] == 1


def test_a_write_that_waited_for_a_connection_is_fenced_under_the_next_session(ensemble: FakeEnsemble) -> None:
    process, rival = ensemble.connect(CONFIG, name="process"), ensemble.connect(CONFIG, name="rival")
    leadership = lead(ensemble, process)
    schedule = Schedule(ensemble)
    late = schedule.actor("late", lambda: leadership.commit(Create(PATHS.status)))
    ensemble.expire(process)
    lead(ensemble, rival)

    schedule.run(lambda ready, last: ready[0])

    assert isinstance(late.error, FencedError)


def test_a_lagging_follower_shows_an_old_state_until_a_write(ensemble: FakeEnsemble, watcher: FakeCoordinator) -> None:
    late = ensemble.connect(timeout=T, member=1)
    ensemble.lag(1)
    told: list[str] = []
    late.get("/a", watch=lambda: told.append("changed"))
    watcher.commit(SetData("/a", b"new"))

    assert late.get("/a").data == b""
    assert told == []

    late.commit(Check("/a"))

    assert late.get("/a").data == b"new"
    assert told == ["changed"]


def test_a_process_never_sees_the_past_again(ensemble: FakeEnsemble, watcher: FakeCoordinator) -> None:
    ensemble.lag(1)
    watcher.commit(SetData("/a", b"new"))
    assert watcher.get("/a").data == b"new"

    ensemble.move(watcher, 1)

    assert watcher.get("/a").data == b"new"


def test_a_stopped_process_hears_everything_when_it_goes_on(ensemble: FakeEnsemble, watcher: FakeCoordinator) -> None:
    stopped = ensemble.connect(timeout=T)
    told: list[SessionState] = []
    before = stopped.session
    stopped.add_state_listener(told.append)
    ensemble.pause(stopped)
    ensemble.advance(T + TICK)
    assert told == []

    ensemble.resume(stopped)
    ensemble.advance(0.5)

    assert told == [SessionState.SUSPENDED, SessionState.LOST, SessionState.CONNECTED]
    assert stopped.session != before


def test_a_session_is_closed_from_outside_by_who_knows_its_password(
    ensemble: FakeEnsemble, watcher: FakeCoordinator
) -> None:
    dead = ensemble.connect(timeout=T)
    assert dead.session is not None
    dead.commit(Create("/own", ephemeral=True))
    ensemble.kill(dead)

    assert not ensemble.close_session(SessionCredentials(dead.session.session_id, b"guessed"))
    assert watcher.find("/own") is not None
    assert ensemble.close_session(dead.session)
    assert watcher.find("/own") is None


def test_no_member_in_reach_is_an_error(ensemble: FakeEnsemble) -> None:
    ensemble.partition(1)

    with pytest.raises(NotConnectedError):
        ensemble.connect(member=1)
    with pytest.raises(ValueError, match="leads"):
        ensemble.partition(0)


def test_a_watch_that_sends_a_request_is_refused(ensemble: FakeEnsemble, watcher: FakeCoordinator) -> None:
    """With kazoo it would wait for itself."""
    watcher.get("/a", watch=lambda: watcher.get("/a"))  # type: ignore[arg-type]  # what must not be done

    with pytest.raises(CoordinationError, match="from a watch"):
        watcher.commit(SetData("/a", b""))


def find_three_times(session: FakeCoordinator) -> None:
    for _ in range(3):
        session.find("/")


@pytest.mark.parametrize(("preemptions", "orders"), [(None, 20), (0, 2), (1, 6)])
def test_every_order_of_two_actors_is_taken_once(preemptions: int | None, orders: int) -> None:
    seen = set()
    for path in every_path(preemptions=preemptions):
        ensemble = FakeEnsemble(members=1)
        schedule = Schedule(ensemble)
        for name in ("one", "other"):
            session = ensemble.connect(name=name)
            schedule.actor(name, partial(find_three_times, session))
        schedule.run(path.choose)
        seen.add(tuple(path.names))

    assert len(seen) == orders


def test_a_killed_actor_cleans_nothing_up(ensemble: FakeEnsemble, watcher: FakeCoordinator) -> None:
    def leave_a_trace() -> None:
        try:
            watcher.get("/a")
        finally:
            watcher.commit(Create("/a/trace"))

    schedule = Schedule(ensemble)
    actor = schedule.actor("killed", leave_a_trace)
    schedule.kill(actor)

    assert actor.done
    with pytest.raises(NodeMissingError):
        watcher.get("/a/trace")
