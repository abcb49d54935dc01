"""The lease's deadline: last but one acknowledged heartbeat + T - margin (design, contract 3)."""

from __future__ import annotations

import pytest

from airflow_provider_ha.config import Timings
from airflow_provider_ha.coordination.lease import Lease
from tests.coordination_helpers import HeldClock


TIMINGS = Timings(session_timeout=10, heartbeat_interval=1, heartbeat_timeout=1, connect_timeout=1, margin=0.5)


@pytest.fixture
def clock() -> HeldClock:
    return HeldClock()


@pytest.fixture
def lease(clock: HeldClock) -> Lease:
    return Lease(TIMINGS, session_timeout=10.0, granted_at=clock.time, clock=clock)


def test_a_fresh_lease_counts_from_what_an_idle_session_was_last_heard_of(lease: Lease) -> None:
    """A ping comes after T/3 of silence, and the ensemble's leader may hear of it an interval later."""
    assert lease.left() == pytest.approx(10 - 10 / 3 - 1 - 0.5)


def test_the_first_heartbeat_makes_a_fresh_lease_regular(lease: Lease, clock: HeldClock) -> None:
    lease.acknowledge(clock.time + 1)

    assert lease.deadline == pytest.approx(clock.time + 10 - 0.5)


def test_the_last_but_one_acknowledgement_counts_not_the_last(lease: Lease, clock: HeldClock) -> None:
    lease.acknowledge(clock.time + 1)
    lease.acknowledge(clock.time + 2)

    assert lease.deadline == pytest.approx(clock.time + 1 + 10 - 0.5)


def test_two_acknowledgements_of_one_moment_count_as_one(lease: Lease, clock: HeldClock) -> None:
    lease.acknowledge(clock.time + 1)
    lease.acknowledge(clock.time + 1.1)

    assert lease.deadline == pytest.approx(clock.time + 10 - 0.5)


def test_a_late_answer_to_an_older_heartbeat_does_not_move_the_deadline(lease: Lease, clock: HeldClock) -> None:
    lease.acknowledge(clock.time + 3)
    deadline = lease.deadline

    lease.acknowledge(clock.time + 1)

    assert lease.deadline == deadline


def test_the_negotiated_timeout_counts_not_the_one_asked_for(clock: HeldClock) -> None:
    lease = Lease(TIMINGS, session_timeout=4.0, granted_at=clock.time, clock=clock)

    assert lease.left() == pytest.approx(4 - 4 / 3 - 1 - 0.5)


def test_time_alone_ends_a_lease(lease: Lease, clock: HeldClock) -> None:
    clock.time += 8.6

    assert lease.left() < 0
