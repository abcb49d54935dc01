"""Two guards of a leadership that need time to stand still between a request and its answer."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

import pytest

from airflow_provider_ha.clock import Clock
from airflow_provider_ha.coordination.coordinator import Create, Delete, Op, SessionState, SetData
from airflow_provider_ha.coordination.election import acquire
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.errors import FencedError, LeadershipLostError
from tests.fake.jobs import CONFIG, PATHS, TIMINGS
from tests.support.fake import FakeCoordinator, FakeEnsemble


@pytest.fixture
def session(ensemble: FakeEnsemble) -> FakeCoordinator:
    return ensemble.connect(CONFIG, name="leader")


def lead(ensemble: FakeEnsemble, session: FakeCoordinator, clock: Clock | None = None) -> Leadership:
    clock = clock or ensemble.clock
    return acquire(session, PATHS, timings=TIMINGS, clock=clock, describe=lambda epoch: b"%d" % epoch, timeout=0)


class GuestClock:
    """The clocks of one virtual machine: a pause stops its boot-time clock; the wall clock is corrected afterwards."""

    def __init__(self, host: Clock) -> None:
        self._host = host
        self.paused = 0.0
        self.stepped = 0.0

    def lease_time(self) -> float:
        return self._host.lease_time() - self.paused

    def now(self) -> datetime:
        return self._host.now() + timedelta(seconds=self.stepped)


def test_the_lease_counts_from_when_a_heartbeat_was_sent(
    ensemble: FakeEnsemble, session: FakeCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server may have heard of it at once, and the answer may have taken all the time that the lease is long."""
    leadership = lead(ensemble, session)
    answered_at_once = session.commit

    def answered_late(*ops: Op, timeout: float | None = None) -> list[int]:
        versions = answered_at_once(*ops, timeout=timeout)
        ensemble.advance(0.3)
        return versions

    monkeypatch.setattr(session, "commit", answered_late)
    ensemble.advance(TIMINGS.heartbeat_interval)
    last_but_one = ensemble.clock.lease_time()
    leadership.prove()
    ensemble.advance(TIMINGS.heartbeat_interval)
    leadership.prove()

    end = ensemble.clock.lease_time() + leadership.lease_left()
    assert end == pytest.approx(last_but_one + session.negotiated_timeout - TIMINGS.margin)


def test_a_leadership_that_was_lost_stays_lost_although_everything_is_as_it_was(
    ensemble: FakeEnsemble, session: FakeCoordinator
) -> None:
    """One process, one leadership: it was revoked, and what it knows may be old by now."""
    leadership = lead(ensemble, session)
    rival = ensemble.connect(CONFIG, name="rival")
    rival.commit(Delete(PATHS.leader))
    with pytest.raises(FencedError):
        leadership.commit(SetData(PATHS.heartbeat, b"never"))
    session.commit(Create(PATHS.leader, b"1", ephemeral=True))

    with pytest.raises(LeadershipLostError):
        leadership.commit(SetData(PATHS.heartbeat, b"never"))

    assert session.get(PATHS.heartbeat).data != b"never"


def test_who_gives_the_lock_up_believes_nothing_from_then_on(
    ensemble: FakeEnsemble, session: FakeCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to the release may be lost while another process takes the lock (found by seed 280476324191822)."""
    leadership = lead(ensemble, session)
    left: list[float] = []
    send = session.commit

    def answered_late(*ops: Op, timeout: float | None = None) -> list[int]:
        versions = send(*ops, timeout=timeout)
        left.append(leadership.lease_left())
        with pytest.raises(LeadershipLostError):
            leadership.commit(SetData(PATHS.heartbeat, b"after all"))
        return versions

    monkeypatch.setattr(session, "commit", answered_late)

    leadership.release()

    assert left == [0.0]


def prove_twice(ensemble: FakeEnsemble, leadership: Leadership) -> None:
    for _ in range(2):
        ensemble.advance(TIMINGS.heartbeat_interval)
        leadership.prove()


def test_a_leader_whose_machine_was_paused_soon_stops_believing_in_its_lease(
    ensemble: FakeEnsemble, session: FakeCoordinator
) -> None:
    """Paused by its hypervisor for longer than T, with a network that is away afterwards: no message reaches it."""
    clock = GuestClock(ensemble.clock)
    leadership = lead(ensemble, session, clock)
    prove_twice(ensemble, leadership)
    session.connection.stop_running()
    ensemble.advance(2 * TIMINGS.session_timeout)
    clock.paused = 2 * TIMINGS.session_timeout
    rival = lead(ensemble, ensemble.connect(CONFIG, name="rival"))
    assert rival.epoch == leadership.epoch + 1

    ensemble.advance(TIMINGS.heartbeat_interval + TIMINGS.heartbeat_timeout)

    assert leadership.lease_left() == 0.0
    with pytest.raises(LeadershipLostError):
        leadership.commit(SetData(PATHS.heartbeat, b"never"))


def test_a_wall_clock_that_is_corrected_costs_no_leadership(ensemble: FakeEnsemble, session: FakeCoordinator) -> None:
    clock = GuestClock(ensemble.clock)
    leadership = lead(ensemble, session, clock)
    prove_twice(ensemble, leadership)
    full = leadership.lease_left()

    clock.stepped = 3600.0
    leadership.commit(SetData(PATHS.heartbeat, b"in doubt, and fenced all the same"))
    prove_twice(ensemble, leadership)

    assert leadership.lease_left() == pytest.approx(full)
    assert not leadership.lost.is_set()


def test_a_session_that_another_server_granted_for_less_shortens_the_lease(
    ensemble: FakeEnsemble, session: FakeCoordinator
) -> None:
    """A reconnect negotiates T again; the lease of the grant would outlive the session."""
    leadership = lead(ensemble, session)
    prove_twice(ensemble, leadership)
    full = leadership.lease_left()
    leadership._coordinator.add_state_listener(leadership._on_state)

    session._timeout -= 500
    session.connection.lose(0)
    ensemble.advance(0.2)

    assert session.state is SessionState.CONNECTED
    assert leadership.lease_left() == pytest.approx(full - 0.5 - 0.2)


def test_a_session_that_was_granted_for_less_before_the_heartbeats_began_shortens_the_lease(
    ensemble: FakeEnsemble, session: FakeCoordinator
) -> None:
    """Nothing listens to the session's state between the grant and the first heartbeat."""
    leadership = lead(ensemble, session)
    prove_twice(ensemble, leadership)
    full = leadership.lease_left()
    session._timeout -= 500

    leadership.start_heartbeats(lambda _: None)
    left = leadership.lease_left()
    leadership.release()

    assert left == pytest.approx(full - 0.5)


def test_a_leader_whose_heartbeats_fail_unexpectedly_hears_that_it_is_none(
    ensemble: FakeEnsemble, session: FakeCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that dies without a word would leave a process that never ends."""
    leadership = lead(ensemble, session)
    reasons: list[str] = []
    told = threading.Event()

    def out_of_memory(*ops: Op, timeout: float | None = None) -> list[int]:
        raise MemoryError

    def lost(reason: str) -> None:
        reasons.append(reason)
        told.set()

    monkeypatch.setattr(session, "commit", out_of_memory)

    leadership.start_heartbeats(lost)

    assert told.wait(5)
    assert "MemoryError" in reasons[0]
    assert leadership.doubt() == reasons[0]


def test_a_leadership_that_is_given_up_tells_no_short_lease(ensemble: FakeEnsemble, session: FakeCoordinator) -> None:
    """Its end is wanted: an alert about it would be a false one."""
    leadership = lead(ensemble, session)
    led, left = leadership.least_lease_left(), leadership.lease_left()

    leadership.release()

    assert led == left > 0
    assert leadership.least_lease_left() is None
