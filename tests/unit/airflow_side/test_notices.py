"""What is told about a cluster's jobs, and when."""

from __future__ import annotations

from typing import Any

from airflow_provider_ha.triggers._notices import GRANTED, NO_LEADER, Condition, Notices


def unled(attempt: int = 1, *, lasting: float = 10.0) -> Condition:
    return Condition(
        kind=NO_LEADER,
        key=(attempt,),
        lasting=lasting,
        facts={"reason": "gone", "run": 1, "attempt": attempt, "epoch": 1},
    )


def led(epoch: int = 1) -> Condition:
    facts = {"run": 1, "attempt": 1, "epoch": epoch, "host": "h", "pid": 1}
    return Condition(kind=GRANTED, key=(epoch,), lasting=10.0, facts=facts)


QUIET = Condition()


def told(steps: list[tuple[float, Condition]], *, repeat_after: float = 100.0) -> list[tuple[float, str]]:
    """Return (time, event) of everything that is told about one job."""
    notices, found = Notices(repeat_after), []
    for now, condition in steps:
        found += [(now, event["event"]) for event in notices.take({"flights": condition}, now)]
    return found


def test_a_loss_is_told_once_it_has_lasted() -> None:
    assert told([(0, unled()), (9, unled()), (10, unled()), (11, unled())]) == [(10, NO_LEADER)]


def test_a_loss_that_is_over_in_time_is_not_told() -> None:
    assert told([(0, unled()), (9, led()), (18, led()), (50, QUIET)]) == []


def test_the_next_loss_does_not_inherit_how_long_the_last_one_lasted() -> None:
    assert told([(0, unled(1)), (9, unled(2)), (18, unled(2)), (19, unled(2))]) == [(19, NO_LEADER)]


def test_a_loss_that_goes_on_is_told_again() -> None:
    steps = [(float(now), unled()) for now in range(0, 250, 10)]

    assert told(steps) == [(10, NO_LEADER), (110, NO_LEADER), (210, NO_LEADER)]


def test_a_leadership_is_told_once_it_has_lasted_and_never_again() -> None:
    steps = [(0.0, QUIET), (5.0, led()), *((float(now), led()) for now in range(10, 300, 5))]

    assert told(steps) == [(15, GRANTED)]


def test_a_leadership_that_was_there_before_is_not_told() -> None:
    assert told([(0, led()), (100, led()), (200, led(2)), (210, led(2))]) == [(210, GRANTED)]


def test_what_is_told_says_which_job_and_since_when() -> None:
    notices = Notices(100.0)
    notices.take({"flights": unled(3), "other": QUIET}, 0.0)

    events: list[Any] = notices.take({"flights": unled(3), "other": QUIET}, 12.0)

    facts = {"reason": "gone", "run": 1, "attempt": 3, "epoch": 1}
    assert events == [{"event": NO_LEADER, "job_id": "flights", **facts, "lasted": 12.0}]


def test_the_next_look_is_not_later_than_what_is_due() -> None:
    notices = Notices(100.0)
    notices.take({"flights": unled(lasting=10.0), "other": unled(lasting=30.0)}, 0.0)

    assert notices.next_due(4.0) == 6.0
    assert Notices(1.0).next_due(0.0) == float("inf")
