"""What is told about a cluster's jobs, and when."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ha.fleet.notify.notices import (
    CHECKPOINT_FAILING,
    GRANTED,
    INTERIM,
    LEADER,
    NO_LEADER,
    QUARANTINED,
    RECOVERED,
    UNKNOWN,
    Condition,
    Notices,
)
from airflow_provider_ha.triggers.cluster import SparkHaClusterTrigger


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
READY = {"run": 1, "epoch": 1, "ready": 1}
APART = Condition(kind=QUARANTINED, key=("torn",), lasting=10.0, facts={"reason": "torn"})
FLIGHTS, OTHER = ("flights", LEADER), ("other", LEADER)


def told(
    steps: list[tuple[float, Condition]], *, repeat_after: float = 100.0, by_outage: bool = False
) -> list[tuple[float, str]]:
    """Return (time, event) of everything that is told about one job."""
    notices, found = Notices(repeat_after, by_outage=by_outage), []
    for now, condition in steps:
        found += [(now, event["event"]) for event in notices.take({FLIGHTS: condition}, now)]
    return found


def test_a_loss_is_told_once_it_has_lasted() -> None:
    assert told([(0, unled()), (9, unled()), (10, unled()), (11, unled())]) == [(10, NO_LEADER)]


def test_an_alert_lasts_from_its_report_to_the_end_of_its_condition() -> None:
    notices, found = Notices(100.0), []
    for now, condition in ((0, unled()), (10, unled()), (11, unled(2)), (12, led()), (23, led())):
        notices.take({FLIGHTS: condition}, now)
        found.append((now, notices.alerts))

    alert = frozenset({("flights", NO_LEADER)})
    assert found == [(0, frozenset()), (10, alert), (11, alert), (12, frozenset()), (23, frozenset())]


def test_a_loss_that_is_over_in_time_is_not_told() -> None:
    assert told([(0, unled()), (9, led()), (18, led()), (50, QUIET)]) == []


def test_the_next_loss_does_not_inherit_how_long_the_last_one_lasted() -> None:
    assert told([(0, unled(1)), (9, unled(2)), (18, unled(2)), (19, unled(2))]) == [(19, NO_LEADER)]


def test_a_continuing_loss_is_reported_again() -> None:
    steps = [(float(now), unled()) for now in range(0, 250, 10)]

    assert told(steps) == [(10, NO_LEADER), (110, NO_LEADER), (210, NO_LEADER)]


def test_a_leadership_is_told_once_it_has_lasted_and_never_again() -> None:
    steps = [(0.0, QUIET), (5.0, led()), *((float(now), led()) for now in range(10, 300, 5))]

    assert told(steps) == [(15, GRANTED)]


def test_standby_drivers_that_become_ready_are_told_once_and_are_no_alert() -> None:
    notices, found, ready = Notices(100.0, 100.0), [], Condition(kind="standby_ready", key=(1, 1), facts=READY)
    aspect = ("flights", "standby_ready")
    for now, condition in ((0, ready), (10, QUIET), (20, ready), (300, ready)):
        found += [(now, event["event"]) for event in notices.take({aspect: condition}, now)]

    assert found == [(20, "standby_ready")]
    assert notices.alerts == frozenset()


def test_a_leadership_that_was_there_before_is_not_told() -> None:
    assert told([(0, led()), (100, led()), (200, led(2)), (210, led(2))]) == [(210, GRANTED)]


def test_a_leadership_from_before_the_watch_is_not_reported() -> None:
    assert told([(0, UNKNOWN), (9, led()), (100, led()), (200, led(2)), (210, led(2))]) == [(210, GRANTED)]


def test_the_first_leader_of_an_unknown_new_job_is_reported() -> None:
    notices = Notices(100.0)
    notices.take({OTHER: led()}, 0.0)

    events = [
        event
        for now, seen in ((5.0, UNKNOWN), (6.0, led()), (16.0, led()))
        for event in notices.take({OTHER: led(), FLIGHTS: seen}, now)
    ]

    assert [event["event"] for event in events] == [GRANTED]


def test_a_loss_from_before_the_watch_is_reported_after_its_grace_time() -> None:
    assert told([(0, UNKNOWN), (9, unled()), (18, unled()), (19, unled())]) == [(19, NO_LEADER)]


def test_an_event_names_the_job_and_the_start_of_the_condition() -> None:
    notices = Notices(100.0)
    notices.take({FLIGHTS: unled(3), OTHER: QUIET}, 0.0)

    events: list[Any] = notices.take({FLIGHTS: unled(3), OTHER: QUIET}, 12.0)

    facts = {"reason": "gone", "run": 1, "attempt": 3, "epoch": 1}
    assert events == [{"event": NO_LEADER, "job_id": "flights", **facts, "lasted": 12.0}]


def test_the_next_look_is_not_later_than_what_is_due() -> None:
    notices = Notices(100.0)
    notices.take({FLIGHTS: unled(lasting=10.0), OTHER: unled(lasting=30.0)}, 0.0)

    assert notices.next_due(4.0) == 6.0
    assert Notices(1.0).next_due(0.0) == float("inf")


def test_a_leader_after_a_reported_loss_is_a_recovery_with_the_duration_of_the_outage() -> None:
    notices = Notices(100.0)
    steps = [(0, led()), (20, unled(1)), (30, unled(1)), (40, unled(2)), (65, led(2)), (75, led(2)), (200, led(2))]

    events: list[Any] = [event for now, seen in steps for event in notices.take({FLIGHTS: seen}, float(now))]

    assert [event["event"] for event in events] == [NO_LEADER, GRANTED, RECOVERED]
    assert events[-1]["took"] == 45.0, "from the loss to the leader, over both attempts"
    assert events[-1]["epoch"] == 2


def test_a_leader_after_a_loss_that_was_not_told_is_no_recovery() -> None:
    assert told([(0, led()), (20, unled()), (25, led(2)), (35, led(2))]) == [(35, GRANTED)]


ATTEMPTS = [
    *((float(now), unled(1)) for now in range(0, 20, 5)),
    *((float(now), unled(2)) for now in range(20, 40, 5)),
    (40.0, led(2)),  # not for long
    *((float(now), unled(3)) for now in range(45, 130, 5)),
]


def test_people_hear_of_an_outage_again_after_its_time_and_not_with_each_attempt() -> None:
    assert told(ATTEMPTS, by_outage=True) == [(10, NO_LEADER), (110, NO_LEADER)]


def test_a_dag_that_recovers_hears_of_each_attempt() -> None:
    assert told(ATTEMPTS) == [(10, NO_LEADER), (30, NO_LEADER), (55, NO_LEADER)]


@pytest.mark.parametrize(("recovers", "wanted"), [(True, 3), (False, 2)])
def test_a_recovering_trigger_reports_each_attempt_and_an_alerting_trigger_the_outage(
    recovers: bool, wanted: int
) -> None:
    notices, found = SparkHaClusterTrigger(repeat_after=100.0, recovers=recovers).notices(), list[Any]()

    for now, condition in ATTEMPTS:
        found += notices.take({FLIGHTS: condition}, now)

    assert len(found) == wanted


def test_people_hear_of_the_next_outage_once_it_has_lasted() -> None:
    steps = [(0, unled()), (10, unled()), (20, led(2)), (30, led(2)), (200, unled(2)), (209, unled(2)), (210, unled(2))]

    found = told([(float(now), seen) for now, seen in steps], by_outage=True)

    assert found == [(10, NO_LEADER), (30, GRANTED), (30, RECOVERED), (210, NO_LEADER)]


def test_people_hear_of_a_job_that_is_led_for_a_moment_after_each_loss_as_seldom_as_of_one_that_is_not() -> None:
    steps = [(float(now), led(now // 40) if now % 40 >= 20 else unled(now // 40)) for now in range(0, 300, 5)]

    found = [now for now, kind in told(steps, by_outage=True) if kind == NO_LEADER]

    assert found == [10, 130, 250], "no more often than every 100 s, once a loss has lasted"


def test_people_hear_of_an_outage_of_which_no_attempt_lasts() -> None:
    steps = [(float(now), led(now // 8) if now % 8 >= 4 else unled(now // 8)) for now in range(0, 60, 2)]

    assert told(steps, by_outage=True) == [(10, NO_LEADER)]


def test_people_hear_how_long_the_outage_has_lasted_and_not_its_newest_attempt() -> None:
    notices = Notices(100.0, by_outage=True)
    steps = [(0, led()), (20, unled(1)), (30, unled(1)), (129, unled(2)), (130, unled(2))]

    events: list[Any] = [event for now, seen in steps for event in notices.take({FLIGHTS: seen}, float(now))]

    assert [event["lasted"] for event in events] == [10.0, 110.0]


def test_a_job_that_is_released_from_quarantine_has_its_time_to_be_led_before_people_hear_of_it_again() -> None:
    steps = [(0, unled()), (10, unled()), (15, APART), (25, APART), (500, unled()), (509, unled()), (510, unled())]

    found = told([(float(now), seen) for now, seen in steps], by_outage=True)

    assert found == [(10, NO_LEADER), (25, QUARANTINED), (510, NO_LEADER)]


def test_a_quarantine_is_told_once_it_has_lasted_also_when_the_loss_before_it_was_not() -> None:
    assert told([(0, led()), (20, unled()), (25, APART), (34, APART), (35, APART), (36, APART)]) == [(35, QUARANTINED)]


def test_a_quarantine_reminds_seldom_as_what_needs_a_person_does() -> None:
    notices, found = Notices(10.0, 1000.0), list[float]()

    for now in (0, 10, 500, 1009, 1010):
        found += [float(now) for _ in notices.take({FLIGHTS: APART}, float(now))]

    assert found == [10.0, 1010.0]


def test_a_job_that_is_released_from_quarantine_and_led_has_recovered_from_its_loss() -> None:
    notices = Notices(100.0)
    steps = [(0, led()), (20, unled()), (25, APART), (40, APART), (60, unled()), (65, led(2)), (75, led(2))]

    events: list[Any] = [event for now, seen in steps for event in notices.take({FLIGHTS: seen}, float(now))]

    assert [event["event"] for event in events] == [QUARANTINED, GRANTED, RECOVERED]
    assert events[-1]["took"] == 45.0


def test_a_loss_that_was_too_short_to_be_told_is_no_part_of_a_later_outage() -> None:
    notices = Notices(100.0)
    steps = [(0, led()), (20, unled(1)), (25, led(2)), (35, led(2)), (3600, unled(2)), (3610, unled(2))]
    steps += [(3630, led(3)), (3640, led(3))]

    events: list[Any] = [event for now, seen in steps for event in notices.take({FLIGHTS: seen}, float(now))]

    assert [event["event"] for event in events] == [GRANTED, NO_LEADER, GRANTED, RECOVERED]
    assert events[-1]["took"] == 30.0, "without the hour that the job was led"


def test_a_leader_that_does_not_last_is_part_of_the_outage() -> None:
    notices = Notices(100.0)
    steps = [(0, led()), (20, unled(1)), (25, led(2)), (30, unled(2)), (40, unled(2)), (50, led(3)), (60, led(3))]

    events: list[Any] = [event for now, seen in steps for event in notices.take({FLIGHTS: seen}, float(now))]

    assert [event["event"] for event in events] == [NO_LEADER, GRANTED, RECOVERED]
    assert events[-1]["took"] == 30.0


def test_a_restore_that_ends_the_lost_run_under_its_lock_is_a_recovery_as_well() -> None:
    """The process that ends it leads the job for as long as the storage takes."""
    steps = [(0.0, unled()), (10.0, unled()), (30.0, INTERIM), (31.0, unled(2)), (35.0, led(3)), (45.0, led(3))]

    assert [kind for _, kind in told(steps)] == [NO_LEADER, GRANTED, RECOVERED]


def test_a_job_that_is_ended_while_it_is_lost_does_not_recover_with_its_next_run() -> None:
    steps = [(0.0, unled()), (10.0, unled()), (30.0, INTERIM), (31.0, QUIET), (500.0, led(3)), (510.0, led(3))]

    assert [kind for _, kind in told(steps)] == [NO_LEADER, GRANTED]


def test_each_outage_has_its_own_recovery() -> None:
    steps = [(0, unled()), (10, unled()), (20, led(2)), (30, led(2)), (40, unled(2)), (45, led(3)), (60, led(3))]

    assert [kind for _, kind in told([(float(now), seen) for now, seen in steps])] == [
        NO_LEADER,
        GRANTED,
        RECOVERED,
        GRANTED,
    ]


def test_a_condition_that_needs_a_person_is_reported_again_after_remind_after_and_anew_after_its_return() -> None:
    failing = Condition(
        kind=CHECKPOINT_FAILING, key=(1,), lasting=60.0, facts={"run": 1, "epoch": 1, "reason": "full", "checkpoint": 3}
    )
    notices, at, found = Notices(10.0, 1000.0), ("flights", CHECKPOINT_FAILING), list[float]()

    for now, seen in [(0, failing), (59, failing), (60, failing), (900, failing), (1060, failing), (1100, QUIET)]:
        found += [float(now) for _ in notices.take({at: seen}, float(now))]
    for now in (1200, 1259, 1260):
        found += [float(now) for _ in notices.take({at: failing}, float(now))]

    assert found == [60.0, 1060.0, 1260.0]
