"""When each job is to be looked at next."""

from __future__ import annotations

from airflow_provider_ha.fleet.observations import ReconcileQueue
from tests.support.clusters.coordination_helpers import HeldClock


def test_a_new_job_is_due_at_once_and_then_when_it_was_said() -> None:
    clock = HeldClock()
    agenda = ReconcileQueue(clock)
    agenda.expect(["flights"])

    assert agenda.take() == ["flights"]
    agenda.done("flights", 5.0)

    assert agenda.take() == []
    assert agenda.pause(60.0) == 5.0
    clock.time += 5.0
    assert agenda.take() == ["flights"]


def test_a_job_is_looked_at_by_one_at_a_time() -> None:
    agenda = ReconcileQueue(HeldClock())
    agenda.expect(["flights"])
    agenda.take()
    agenda.touch("flights")

    assert agenda.take() == []
    assert agenda.pause(60.0) == 60.0


def test_what_changes_during_a_look_is_looked_at_again() -> None:
    """Fails when the end of a look overwrites the touch: the look may have been before the change."""
    agenda = ReconcileQueue(HeldClock())
    agenda.expect(["flights"])
    agenda.take()

    agenda.touch("flights")
    agenda.done("flights", 600.0)

    assert agenda.take() == ["flights"]


def test_a_touch_wakes_whoever_waits() -> None:
    clock = HeldClock()
    agenda = ReconcileQueue(clock)
    agenda.expect(["flights"])
    agenda.take()
    agenda.done("flights", 600.0)
    agenda.changed.clear()

    agenda.touch("flights")

    assert agenda.changed.is_set()
    assert agenda.pause(60.0) == 0.0


def test_a_job_that_is_gone_is_forgotten_also_while_it_is_looked_at() -> None:
    agenda = ReconcileQueue(HeldClock())
    agenda.expect(["flights", "other"])
    agenda.take()
    agenda.expect(["other"])

    agenda.done("flights", 0.0)
    agenda.touch("flights")

    assert agenda.take() == []


def test_the_end_of_a_look_wakes_the_waiter() -> None:
    agenda = ReconcileQueue(HeldClock())
    agenda.expect(["flights"])
    agenda.take()
    agenda.changed.clear()

    agenda.done("flights", 5.0)

    assert agenda.changed.is_set()
