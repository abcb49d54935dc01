"""Session: deadline of its lease, answers to transactions, and its end from outside."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from typing import TypeVar

import pytest
from kazoo.exceptions import NoNodeError, RolledBackError, RuntimeInconsistency  # noqa: TID253  # its answers

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination._kazoo_transaction import versions_of
from airflow_provider_ha.coordination.coordinator import Check, Create, Op, SessionCredentials
from airflow_provider_ha.coordination.leadership import JUMP_SECONDS, LEAST_SECONDS, ClockReading, Lease
from airflow_provider_ha.coordination.raw_socket import close_session
from airflow_provider_ha.errors import CoordinationError, NodeMissingError, NotConnectedError
from airflow_provider_ha.timings import Timings
from tests.support.clusters.coordination_helpers import HeldClock


TIMINGS = Timings(session_timeout=10, heartbeat_interval=1, heartbeat_timeout=1, connect_timeout=1, margin=0.5)


@pytest.fixture
def clock() -> HeldClock:
    return HeldClock()


@pytest.fixture
def lease(clock: HeldClock) -> Lease:
    return Lease(TIMINGS, session_timeout=10.0, granted_at=clock.time, clock=clock)


def sent(clock: HeldClock, *, after: float) -> ClockReading:
    """The moment at which a heartbeat was sent, in seconds from now."""
    now = ClockReading.at_least(clock)
    return ClockReading(now.boot + after, now.skew)


def beat(lease: Lease, clock: HeldClock) -> None:
    """One interval later a heartbeat is sent, and answered at once."""
    clock.time += 1
    lease.acknowledge(sent(clock, after=0))


def test_a_fresh_lease_counts_from_what_an_idle_session_was_last_heard_of(lease: Lease) -> None:
    """A ping comes after T/3 of silence, and the ensemble's leader may hear of it an interval later."""
    assert lease.left() == pytest.approx(10 - 10 / 3 - 1 - 0.5)


def test_the_first_heartbeat_makes_a_fresh_lease_regular(lease: Lease, clock: HeldClock) -> None:
    lease.acknowledge(sent(clock, after=1))

    assert lease.deadline == pytest.approx(clock.time + 10 - 0.5)


def test_the_last_but_one_acknowledgement_counts_not_the_last(lease: Lease, clock: HeldClock) -> None:
    lease.acknowledge(sent(clock, after=1))
    lease.acknowledge(sent(clock, after=2))

    assert lease.deadline == pytest.approx(clock.time + 1 + 10 - 0.5)


def test_two_acknowledgements_of_one_moment_count_as_one(lease: Lease, clock: HeldClock) -> None:
    lease.acknowledge(sent(clock, after=1))
    lease.acknowledge(sent(clock, after=1.1))

    assert lease.deadline == pytest.approx(clock.time + 10 - 0.5)


def test_a_late_answer_to_an_older_heartbeat_does_not_move_the_deadline(lease: Lease, clock: HeldClock) -> None:
    lease.acknowledge(sent(clock, after=3))
    deadline = lease.deadline

    lease.acknowledge(sent(clock, after=1))

    assert lease.deadline == deadline


def test_the_negotiated_timeout_counts_not_the_one_asked_for(clock: HeldClock) -> None:
    lease = Lease(TIMINGS, session_timeout=4.0, granted_at=clock.time, clock=clock)

    assert lease.left() == pytest.approx(4 - 4 / 3 - 1 - 0.5)


def test_time_alone_ends_a_lease(lease: Lease, clock: HeldClock) -> None:
    clock.time += 8.6

    assert lease.left() < 0


def test_a_wall_clock_that_jumps_forward_leaves_one_heartbeat_and_its_timeout(lease: Lease, clock: HeldClock) -> None:
    """The machine may have been paused: the boot-time clock then stood still while the session ran out."""
    for _ in range(3):
        beat(lease, clock)
    clock.time += 0.5

    clock.ahead += JUMP_SECONDS + 0.1

    assert lease.left() == pytest.approx(1 + 1 - 0.5)


def test_two_heartbeats_sent_after_the_jump_make_the_lease_regular_again(lease: Lease, clock: HeldClock) -> None:
    """A corrected clock must not end a healthy driver: the answers prove that the session lives."""
    for _ in range(3):
        beat(lease, clock)
    clock.ahead += 3600
    beat(lease, clock)
    assert lease.left() == pytest.approx(2)

    beat(lease, clock)

    assert lease.left() == pytest.approx(10 - 1 - 0.5)


def test_in_doubt_each_heartbeat_that_is_acknowledged_counts_also_an_early_one(lease: Lease, clock: HeldClock) -> None:
    """It is woken early by every change of the session's state; the next one follows an interval later."""
    for _ in range(3):
        beat(lease, clock)
    clock.ahead += 3600

    lease.acknowledge(sent(clock, after=0.5))

    assert lease.left() == pytest.approx(0.5 + 1 + 1)


def test_a_heartbeat_that_was_sent_before_the_jump_proves_nothing(lease: Lease, clock: HeldClock) -> None:
    for _ in range(3):
        beat(lease, clock)
    before = sent(clock, after=1)
    clock.time += 1
    clock.ahead += 3600

    lease.acknowledge(before)
    lease.acknowledge(sent(clock, after=1))

    assert lease.deadline == pytest.approx(clock.time + 1 + 2)


@pytest.mark.parametrize("step", [-3600.0, 0.9])
def test_a_wall_clock_that_is_set_back_or_slewed_changes_nothing(lease: Lease, clock: HeldClock, step: float) -> None:
    for _ in range(3):
        beat(lease, clock)

    clock.ahead += step

    assert lease.left() == pytest.approx(10 - 1 - 0.5)


def test_a_jump_never_makes_a_lease_longer(lease: Lease, clock: HeldClock) -> None:
    beat(lease, clock)
    clock.time += 8

    clock.ahead += 3600

    assert lease.left() <= 0.5


T = TypeVar("T")


class Interrupted(HeldClock):
    """The process is stopped for some seconds between its looks at the two clocks, once."""

    stopped = 0.0

    def lease_time(self) -> float:
        return self._after(super().lease_time())

    def now(self) -> datetime:
        return self._after(super().now())

    def _after(self, seen: T) -> T:
        self.time, self.stopped = self.time + self.stopped, 0.0
        return seen


def test_a_process_that_is_stopped_between_two_looks_sees_no_jump() -> None:
    clock = Interrupted()
    lease = Lease(TIMINGS, session_timeout=10.0, granted_at=clock.time, clock=clock)
    for _ in range(3):
        beat(lease, clock)

    clock.stopped = 5.0

    assert lease.left() == pytest.approx(10 - 1 - 0.5 - 5)


def test_a_heartbeat_whose_process_is_stopped_between_two_looks_makes_no_jump_of_the_next() -> None:
    clock = Interrupted()
    lease = Lease(TIMINGS, session_timeout=30.0, granted_at=clock.time, clock=clock)
    beat(lease, clock)
    clock.time += 1
    clock.stopped = 5.0
    lease.acknowledge(ClockReading.at_least(clock))

    beat(lease, clock)

    assert lease.left() == pytest.approx(30 - (5 + 1) - 0.5)


def test_a_server_that_grants_less_shortens_the_lease(lease: Lease, clock: HeldClock) -> None:
    lease.acknowledge(sent(clock, after=1))

    lease.shorten(4.0)

    assert lease.deadline == pytest.approx(clock.time + 4 - 0.5)


def test_a_server_that_grants_more_changes_nothing(lease: Lease) -> None:
    deadline = lease.deadline

    lease.shorten(40.0)

    assert lease.deadline == deadline


def test_what_little_was_left_before_a_late_heartbeat_is_remembered_for_two_minutes(
    lease: Lease, clock: HeldClock
) -> None:
    for _ in range(5):
        beat(lease, clock)
    clock.time += 7
    lease.acknowledge(sent(clock, after=0))
    after_a_gap = lease.least()

    for _ in range(int(LEAST_SECONDS) + 1):  # the heartbeat after the late one finds as little
        beat(lease, clock)
    at_the_end, regular = lease.least(), lease.left() - 1
    beat(lease, clock)

    assert after_a_gap == pytest.approx(10 - 0.5 - 1 - 7)
    assert at_the_end == pytest.approx(after_a_gap)
    assert lease.least() == pytest.approx(regular)


def test_what_is_left_now_is_the_least_while_no_heartbeat_is_answered(lease: Lease, clock: HeldClock) -> None:
    for _ in range(5):
        beat(lease, clock)
    clock.time += 6

    assert lease.least() == lease.left()


def test_the_minimum_of_a_fresh_lease_is_its_remaining_time(lease: Lease) -> None:
    assert lease.least() == lease.left()


def test_the_operation_that_was_rejected_is_named_not_those_that_went_with_it() -> None:
    ops: list[Op] = [Create("/a"), Check("/b", 1), Create("/c")]
    answers = [RolledBackError(), NoNodeError(), RuntimeInconsistency()]

    with pytest.raises(NodeMissingError, match="/b"):
        versions_of(answers, ops, "zk1")


def test_a_rejection_without_a_reason_is_an_error_all_the_same() -> None:
    with pytest.raises(CoordinationError, match=r"zk1.* rejected a write of /a without a reason"):
        versions_of([RolledBackError(), RolledBackError()], [Create("/a"), Create("/b")], "zk1")


CREDENTIALS = SessionCredentials(session_id=7, password=b"p" * 16)
Server = Callable[[bytes], HaConfig]


@pytest.fixture
def server() -> Iterator[Server]:
    """Starts a server that sends the same bytes to its first client for any request."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        threads: list[threading.Thread] = []

        def answer(data: bytes) -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(data)
                connection.recv(4096)

        def start(data: bytes) -> HaConfig:
            threads.append(threading.Thread(target=answer, args=(data,)))
            threads[0].start()
            return HaConfig.build(
                zookeeper=f"127.0.0.1:{listener.getsockname()[1]}", storage_root="file:///nowhere", cluster_id="c"
            )

        yield start
        for thread in threads:
            thread.join()


def greeting(granted: int, session_id: int) -> bytes:
    body = struct.pack("!iiq", 0, granted, session_id) + struct.pack("!i", 16) + b"p" * 16
    return struct.pack("!i", len(body)) + body


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(struct.pack("!i", 1 << 30), id="a-frame-that-is-too-long"),
        pytest.param(struct.pack("!i", 0), id="an-empty-frame"),
        pytest.param(b"HT", id="an-answer-that-is-cut", marks=pytest.mark.slow),
        pytest.param(greeting(0, 0), id="no-such-session"),
        pytest.param(greeting(4000, 8), id="another-session"),
    ],
)
def test_no_session_is_closed(answer: bytes, server: Server) -> None:
    config = server(answer)

    assert close_session(config, CREDENTIALS, timeout=5) is False


def test_a_host_that_the_name_service_does_not_know_is_named_with_its_reason() -> None:
    config = HaConfig.build(zookeeper="zk1.invalid:2181,127.0.0.1:1", storage_root="file:///data")

    with pytest.raises(NotConnectedError) as told:
        KazooCoordinator.connect(config, timeout=0.2)

    assert "zk1.invalid: " in told.value.message
    assert "127.0.0.1" not in told.value.message.partition("(")[2]
