"""What is known of a request when its form is answered."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event

import pytest

from airflow_provider_ha.airflow_side.page.actions import ACT_SECONDS, RequestState, send
from airflow_provider_ha.airflow_side.page.clusters import BoundedCalls, OverTimeError
from airflow_provider_ha.errors import HaError, JobStateError, NotConnectedError, OutcomeUnknownError
from airflow_provider_ha.jobs.recovery.lost_runs import SUPERVISOR_SECONDS
from airflow_provider_ha.jobs.recovery.transactions import LOCK_SECONDS
from airflow_provider_ha.timings import Timings


@pytest.fixture
def hangs() -> Iterator[Event]:
    """What a call waits for that hangs, until the test is over."""
    over = Event()
    yield over
    over.set()


def failing(error: HaError) -> None:
    raise error


def test_a_request_that_is_answered_is_known() -> None:
    done = Event()

    assert send(BoundedCalls("ZooKeeper", next_step=""), done.set, seconds=30) is RequestState.ANSWERED
    assert done.is_set()


def test_a_request_that_takes_longer_is_not_known_and_goes_on(hangs: Event) -> None:
    done = Event()

    def ask() -> None:
        hangs.wait(60)
        done.set()

    assert send(BoundedCalls("ZooKeeper", next_step=""), ask, seconds=0.1) is RequestState.UNKNOWN
    hangs.set()
    assert done.wait(30)


@pytest.mark.parametrize("error", [OutcomeUnknownError("no answer"), NotConnectedError("no server")])
def test_a_request_whose_connection_breaks_is_not_known(error: HaError) -> None:
    assert send(BoundedCalls("ZooKeeper", next_step=""), lambda: failing(error), seconds=30) is RequestState.UNKNOWN


def test_a_request_that_is_refused_says_why() -> None:
    with pytest.raises(JobStateError, match="no run"):
        send(BoundedCalls("ZooKeeper", next_step=""), lambda: failing(JobStateError("no run")), seconds=30)


def test_a_request_that_found_no_free_thread_was_not_sent(hangs: Event) -> None:
    bounded, sent = BoundedCalls("ZooKeeper", next_step="", seconds=0.1, at_once=1), Event()
    with pytest.raises(OverTimeError):
        bounded.call(lambda: hangs.wait(60))

    with pytest.raises(OverTimeError, match="earlier reads"):
        send(bounded, sent.set, seconds=30)

    assert not sent.is_set()


def test_a_form_waits_for_the_end_of_a_run_whose_driver_has_just_died() -> None:
    assert Timings().session_timeout + LOCK_SECONDS + SUPERVISOR_SECONDS < ACT_SECONDS
