"""Every order in which a run whose driver is lost is recovered, stopped and replaced (``tests.fake.orders``)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_provider_ha.jobs.submit.requests import LostRunPolicy
from tests.fake.orders import LOST, driver, explore, quick, recovering, stopping, submitting


pytestmark = pytest.mark.timeout(900)  # seconds of CPU on a quiet machine; a busy one takes many times that


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with quick(monkeypatch):
        yield


def test_a_stop_while_the_run_is_recovered_ends_it_once_and_nothing_is_submitted_after_that() -> None:
    ends = explore(
        LOST,
        lambda world: {"operator": recovering("operator")(world), "stop": stopping("stop")(world)},
        preemptions=3,
    )

    assert ends["FINISHED, 0 launched"]
    assert ends["FINISHED, 1 launched"]
    assert ends["live, 1 launched"], "a stop that comes after the recovery is left to the new driver"


def test_two_stops_of_one_lost_run_end_it_once_and_both_are_answered() -> None:
    ends = explore(
        LOST, lambda world: {"one": stopping("one")(world), "other": stopping("other")(world)}, preemptions=3
    )

    assert ends["FINISHED, 0 launched"] == ends["schedules"]


def test_a_late_driver_while_its_run_is_stopped_without_one() -> None:
    ends = explore(LOST, lambda world: {"late": driver(1)(world), "stop": stopping("stop")(world)}, preemptions=3)

    assert ends["FINISHED, 0 launched"] == ends["schedules"]
    assert {"late: done", "late: JobStateError"} <= set(ends)


def test_two_requests_that_recover_one_lost_run_start_one_driver_and_follow_it() -> None:
    ends = explore(
        LOST,
        lambda world: {
            "one": submitting("request-2", LOST, LostRunPolicy.RECOVER)(world),
            "other": submitting("request-3", LOST, LostRunPolicy.RECOVER)(world),
        },
        preemptions=3,
    )

    assert ends["live, 1 launched"] == ends["schedules"]
    assert ends["one: done"]
    assert ends["other: done"]


def test_a_new_run_in_the_place_of_a_lost_one_while_that_is_recovered() -> None:
    ends = explore(
        LOST,
        lambda world: {
            "operator": recovering("operator")(world),
            "restart": submitting("request-2", LOST, LostRunPolicy.RESTART)(world),
        },
        preemptions=3,
    )

    assert ends["FINISHED, 1 launched"], "the new run alone"
    assert ends["FINISHED, 2 launched"], "a driver that was launched before finds the result, and refuses itself"
    assert ends["restart: JobStateError"], "what was recovered first is not lost any more"


@pytest.mark.hours
def test_two_new_runs_in_the_place_of_a_lost_one() -> None:
    ends = explore(
        LOST,
        lambda world: {
            "one": submitting("request-2", LOST, LostRunPolicy.RESTART)(world),
            "other": submitting("request-3", LOST, LostRunPolicy.RESTART)(world),
        },
        preemptions=3,
    )

    assert ends["FINISHED, 1 launched"] == ends["schedules"]


@pytest.mark.hours
def test_a_stop_while_a_new_run_takes_the_place_of_the_lost_one() -> None:
    ends = explore(
        LOST,
        lambda world: {
            "stop": stopping("stop")(world),
            "restart": submitting("request-2", LOST, LostRunPolicy.RESTART)(world),
        },
        preemptions=3,
    )

    assert ends["FINISHED, 1 launched"] == ends["schedules"]
