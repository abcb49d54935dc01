"""What is left undecided when answers are lost again and again: an error that says so, never a wrong answer."""

from __future__ import annotations

import logging
from typing import ClassVar

import pytest

from airflow_provider_ha.coordination.coordinator import Create, Delete
from airflow_provider_ha.coordination.election import acquire
from airflow_provider_ha.coordination.reader_leases import hold
from airflow_provider_ha.coordination.znode_records import create_once
from airflow_provider_ha.errors import CoordinationError, OutcomeUnknownError
from airflow_provider_ha.records import Record
from tests.fake.jobs import PATHS, TIMINGS
from tests.support.fake import FakeCoordinator, FakeEnsemble


class Note(Record):
    kind: ClassVar[str] = "note"

    writer: str


@pytest.fixture
def session(ensemble: FakeEnsemble) -> FakeCoordinator:
    session = ensemble.connect()
    session.ensure(*PATHS.skeleton)
    return session


def test_a_creation_that_is_never_answered_is_an_error(ensemble: FakeEnsemble, session: FakeCoordinator) -> None:
    for _ in range(3):
        ensemble.drop_request(session, containing=PATHS.status)

    with pytest.raises(OutcomeUnknownError, match=PATHS.status):
        create_once(session, PATHS.status, Note(writer="a"))

    assert session.find(PATHS.status) is None


def test_a_record_of_another_process_is_not_taken_for_the_own_after_a_lost_request(
    ensemble: FakeEnsemble, session: FakeCoordinator
) -> None:
    other = ensemble.connect()
    create_once(other, PATHS.status, Note(writer="b"))
    ensemble.drop_request(session, containing=PATHS.status)

    assert create_once(session, PATHS.status, Note(writer="a")) is False


def test_a_lease_on_what_is_removed_each_time_is_an_error(
    ensemble: FakeEnsemble, session: FakeCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails when the attempts have no end: a reader would wait for as long as its subject is made and removed."""
    ensure = session.ensure

    def removed_at_once(*paths: str) -> None:
        ensure(*paths)
        session.commit(Delete(paths[-1]))

    monkeypatch.setattr(session, "ensure", removed_at_once)

    with pytest.raises(CoordinationError, match="created and deleted repeatedly"):
        hold(session, PATHS, "checkpoint-1", holder="a test", seconds=60, clock=ensemble.clock)


def test_a_wait_that_ends_while_zookeeper_is_away_ends_with_its_own_reason(
    ensemble: FakeEnsemble, session: FakeCoordinator, caplog: pytest.LogCaptureFixture
) -> None:
    """Fails when the removal of the lock hides why the wait ended."""

    def refused_by_now(epoch: int) -> tuple[Create, ...]:
        ensemble.disconnect(session, 1000)
        raise InterruptedError(f"epoch {epoch} is not wanted")

    with caplog.at_level(logging.WARNING), pytest.raises(InterruptedError):
        acquire(
            session,
            PATHS,
            timings=TIMINGS,
            clock=ensemble.clock,
            describe=lambda epoch: b"%d" % epoch,
            timeout=0,
            also=refused_by_now,
        )

    assert "its lock may be held until the session ends" in caplog.text
