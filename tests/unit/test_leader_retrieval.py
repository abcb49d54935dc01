"""Announcements of a leader when a read of it fails; on the fake ensemble. The rest is in ``tests/integration``."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from airflow_provider_ha.coordination.coordinator import Create, Delete, Node, SessionState
from airflow_provider_ha.coordination.leader_information import LeaderRetrieval
from airflow_provider_ha.errors import NotConnectedError
from airflow_provider_ha.testing.waiting import wait_until
from tests.fake.jobs import PATHS
from tests.support.fake import FakeCoordinator, FakeEnsemble


@pytest.fixture
def session() -> FakeCoordinator:
    session = FakeEnsemble(members=1).connect(name="follower")
    session.ensure(PATHS.lock)
    session.commit(Create(PATHS.leader, b"epoch 1"))
    return session


@pytest.fixture
def cut(session: FakeCoordinator, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Lets the next reads of the session meet an outage, as many as are asked for."""
    find, left = session.find, list[str]()

    def fail(path: str, *, watch: Callable[[], None] | None = None) -> Node | None:
        if left:
            raise NotConnectedError(left.pop())
        return find(path, watch=watch)

    monkeypatch.setattr(session, "find", fail)
    return lambda reads: left.extend(["the fake ensemble could not be reached"] * reads)


def test_a_read_that_failed_is_made_good_by_the_next_one_with_its_watch(
    session: FakeCoordinator, cut: Callable[[int], None]
) -> None:
    heard: list[bytes | None] = []
    retrieval = LeaderRetrieval(session, PATHS, lambda node: heard.append(node.data if node else None))
    cut(1)

    with pytest.raises(NotConnectedError):
        retrieval.look()
    assert heard == []

    retrieval.look()
    session.commit(Delete(PATHS.leader))
    assert retrieval._changed.is_set(), "the watch that the failed read would have set"
    retrieval.look()
    assert heard == [b"epoch 1", None]


def test_a_leader_is_announced_again_when_the_first_read_after_an_interruption_fails(
    session: FakeCoordinator, cut: Callable[[int], None]
) -> None:
    heard: list[bytes | None] = []
    retrieval = LeaderRetrieval(session, PATHS, lambda node: heard.append(node.data if node else None))
    retrieval.look()
    retrieval._on_state(SessionState.SUSPENDED)
    retrieval._on_state(SessionState.CONNECTED)
    cut(1)

    with pytest.raises(NotConnectedError):
        retrieval.look()
    retrieval.look()

    assert heard == [b"epoch 1", b"epoch 1"]


def test_the_announcements_go_on_after_a_read_that_failed(
    session: FakeCoordinator, cut: Callable[[int], None], caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[bytes | None] = []
    cut(2)
    caplog.set_level(logging.INFO)

    with LeaderRetrieval(session, PATHS, lambda node: heard.append(node.data if node else None), poll=0.01):
        wait_until(lambda: heard == [b"epoch 1"], timeout=5, what="the leader")

    assert caplog.text.count("cannot be determined: the fake ensemble could not be reached") == 2
