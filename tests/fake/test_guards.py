"""One guard of the election each, in the one situation that needs it: on the fake, which can make that situation."""

from __future__ import annotations

import pytest

from airflow_provider_ha.coordination.coordinator import Create, Delete, SetData
from airflow_provider_ha.coordination.election import _Candidate, acquire
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.errors import LeadershipLostError, LeadershipUnavailableError, OutcomeUnknownError
from tests.fake.jobs import CONFIG, PATHS, TIMINGS
from tests.support.fake import FakeCoordinator, FakeEnsemble


@pytest.fixture
def ensemble() -> FakeEnsemble:
    return FakeEnsemble(tick=0.5)


@pytest.fixture
def session(ensemble: FakeEnsemble) -> FakeCoordinator:
    session = ensemble.connect(CONFIG, name="session")
    session.ensure(PATHS.epoch, PATHS.heartbeat)
    return session


def lead(ensemble: FakeEnsemble, session: FakeCoordinator) -> Leadership:
    return acquire(
        session, PATHS, timings=TIMINGS, clock=ensemble.clock, describe=lambda epoch: b"%d" % epoch, timeout=0
    )


def test_a_node_of_another_session_is_not_taken_for_ours(ensemble: FakeEnsemble, session: FakeCoordinator) -> None:
    dying = ensemble.connect(CONFIG, name="dying")
    dying.commit(SetData(PATHS.epoch, b"our attempt", 0), Create(PATHS.leader, ephemeral=True))
    candidate = _Candidate(session, PATHS, TIMINGS, ensemble.clock, lambda _: b"", attempt=b"our attempt")

    assert candidate.try_once(None) is None


def test_one_session_does_not_lead_twice(ensemble: FakeEnsemble, session: FakeCoordinator) -> None:
    lead(ensemble, session)

    with pytest.raises(LeadershipUnavailableError):
        lead(ensemble, session)


def test_an_acquisition_without_an_answer_is_recognised(ensemble: FakeEnsemble, session: FakeCoordinator) -> None:
    ensemble.drop_reply(session, containing=PATHS.leader)

    leadership = lead(ensemble, session)

    assert leadership.epoch == session.get(PATHS.epoch).version == 1


def test_an_acquisition_that_is_applied_late_is_recognised(ensemble: FakeEnsemble, session: FakeCoordinator) -> None:
    """Fails when each attempt writes another id: the candidate would wait for itself."""
    candidate = _Candidate(session, PATHS, TIMINGS, ensemble.clock, lambda epoch: b"%d" % epoch)
    ensemble.delay(5.0, session, containing=PATHS.leader)
    assert candidate.try_once(None) is None
    ensemble.advance(2.0)

    leadership = candidate.try_once(None)

    assert leadership is not None
    assert leadership.epoch == session.get(PATHS.epoch).version == 1


def test_who_gives_up_unsure_leaves_no_lock_behind(ensemble: FakeEnsemble, session: FakeCoordinator) -> None:
    ensemble.drop_request(session, containing=PATHS.heartbeat)

    with pytest.raises(OutcomeUnknownError):
        lead(ensemble, session)

    assert session.find(PATHS.leader) is None


def test_the_release_of_a_deposed_leader_leaves_its_successor_alone(
    ensemble: FakeEnsemble, session: FakeCoordinator
) -> None:
    deposed, rival = lead(ensemble, session), ensemble.connect(CONFIG, name="rival")
    rival.commit(Delete(PATHS.leader))
    lead(ensemble, rival)

    deposed.release()

    assert rival.get(PATHS.leader).data == b"2"


def test_nothing_is_sent_under_another_session(ensemble: FakeEnsemble, session: FakeCoordinator) -> None:
    leadership = lead(ensemble, session)
    ensemble.expire(session)
    ensemble.advance(0.5)
    sent = len(ensemble.history)

    with pytest.raises(LeadershipLostError, match="has ended"):
        leadership.commit(Create(PATHS.status))

    assert len(ensemble.history) == sent


def test_nothing_is_sent_after_the_lease(ensemble: FakeEnsemble, session: FakeCoordinator) -> None:
    leadership = lead(ensemble, session)
    ensemble.advance(TIMINGS.session_timeout)
    assert session.session is not None, "its pings keep the session, not its lease"

    with pytest.raises(LeadershipLostError, match="lease ran out"):
        leadership.commit(Create(PATHS.status))
