"""A write that is repeated until it is known to be there, or the lease is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from airflow_provider_ha.driver.members import run_writer as module
from airflow_provider_ha.driver.members.run_writer import persist
from airflow_provider_ha.errors import (
    FencedError,
    HaError,
    LeadershipLostError,
    NodeExistsError,
    NotConnectedError,
    OutcomeUnknownError,
)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.0)


def raising(*errors: HaError) -> tuple[Callable[[], None], list[str]]:
    """Return a write that meets *errors* one after the other, then succeeds, and the list of its calls."""
    left: Iterator[HaError] = iter(errors)
    calls: list[str] = []

    def write() -> None:
        calls.append("write")
        if (error := next(left, None)) is not None:
            raise error

    return write, calls


def test_write_that_was_not_sent_is_sent_again_without_reading_back() -> None:
    write, calls = raising(NotConnectedError("away"), NotConnectedError("away"))

    def written() -> bool:
        calls.append("read")
        return False

    persist(write, written=written, lease_left=lambda: 1.0, what="it")

    assert calls == ["write", "write", "write"]


def test_write_that_was_applied_without_an_answer_is_not_sent_again() -> None:
    write, calls = raising(OutcomeUnknownError("no answer"))

    persist(write, written=lambda: True, lease_left=lambda: 1.0, what="it")

    assert calls == ["write"]


def test_node_that_an_own_attempt_has_made_is_no_failure() -> None:
    answers = iter((False, True))
    write, _ = raising(OutcomeUnknownError("no answer"), NodeExistsError("there"))

    persist(write, written=lambda: next(answers), lease_left=lambda: 1.0, what="it")


def test_node_of_another_writer_is_a_failure() -> None:
    write, _ = raising(NodeExistsError("there"))

    with pytest.raises(NodeExistsError):
        persist(write, written=lambda: True, lease_left=lambda: 1.0, what="it")


def test_fenced_writer_does_not_try_again() -> None:
    write, calls = raising(FencedError("epoch 2 leads"))

    with pytest.raises(FencedError):
        persist(write, written=lambda: False, lease_left=lambda: 1.0, what="it")
    assert calls == ["write"]


def test_only_the_lease_ends_the_attempts() -> None:
    left = iter((2.0, 1.0, 0.0))
    write, calls = raising(*(NotConnectedError("away") for _ in range(3)))

    with pytest.raises(LeadershipLostError, match="the answer"):
        persist(write, written=lambda: False, lease_left=lambda: next(left), what="the answer")
    assert calls == ["write", "write", "write"]
