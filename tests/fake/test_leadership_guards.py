"""Two guards of a leadership that need time to stand still between a request and its answer."""

from __future__ import annotations

import pytest

from airflow_provider_ha.coordination.coordinator import Create, Delete, Op, SetData
from airflow_provider_ha.coordination.election import Leadership, acquire
from airflow_provider_ha.errors import FencedError, LeadershipLostError
from airflow_provider_ha.testing.fake import FakeCoordinator, FakeEnsemble
from tests.fake.jobs import CONFIG, PATHS, TIMINGS


@pytest.fixture
def ensemble() -> FakeEnsemble:
    return FakeEnsemble(tick=0.2)


@pytest.fixture
def session(ensemble: FakeEnsemble) -> FakeCoordinator:
    return ensemble.connect(CONFIG, name="leader")


def lead(ensemble: FakeEnsemble, session: FakeCoordinator) -> Leadership:
    return acquire(
        session, PATHS, timings=TIMINGS, clock=ensemble.clock, describe=lambda epoch: b"%d" % epoch, timeout=0
    )


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
    """The answer to the release may be lost while somebody else takes the lock (found by seed 280476324191822)."""
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
