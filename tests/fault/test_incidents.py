"""Two incidents of Flink, replayed on a real ensemble, and the election of that ensemble."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.coordination.coordinator import Create, Delete
from airflow_provider_ha.jobs.job_graph import GraphPointer
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.testing.proxy import FaultProxy
from airflow_provider_ha.testing.waiting import wait_until
from airflow_provider_ha.timings import Timings
from tests.conftest import FAST
from tests.fault.stage import Place, Stage
from tests.support.clusters.jobs_helpers import BLOB
from tests.support.ensemble.servers import EmbeddedEnsemble, Member
from tests.support.leadership.job_process import LOST, REFUSED
from tests.support.leadership.job_processes import JobProcess


pytestmark = pytest.mark.timeout(600)
OLD = "flights-of-last-year"

# A cut of 5.2 s is survived. The others give a member up after 1 s. Without their leader they vote within half a
# second, but may choose the one that is gone once more, and wait 2 s for it: that test has a figure of 9.2 s.
PATIENT = FAST.model_copy(update={"session_timeout": 6.0})
VERY_PATIENT = FAST.model_copy(update={"session_timeout": 10.0})


@pytest.fixture
def timings() -> Timings:
    return FAST


@pytest.fixture
def stage(ensemble: EmbeddedEnsemble, tmp_path: Path, timings: Timings) -> Iterator[Stage]:
    ensemble.start()
    stage = Stage(ensemble, tmp_path, timings)
    yield stage
    stage.close()


def thorough(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.long)


# FLINK-2354


@pytest.mark.parametrize("blind", [True, thorough(False)])
def test_a_leader_that_finishes_the_job_after_another_was_granted_changes_nothing(stage: Stage, blind: bool) -> None:
    """Blind, neither its clock nor its session tells it: only the epoch in its transaction is left."""
    stage.submit()
    old = stage.leading("old", attempt=1, freeze=True, blind=blind)
    old.signal(signal.SIGTERM)  # finish: it makes its result, and freezes before it sends it
    old.await_event("frozen")
    acknowledged = old.last_committed()
    new = stage.leading("new", attempt=2)

    old.signal(signal.SIGCONT)

    assert old.wait() == LOST
    assert stage.result() is None
    assert stage.pointer() == GraphPointer(graph=BLOB, run=1)
    assert stage.epoch() == 2
    assert new.await_event("recovered")["number"] >= acknowledged
    before = stage.newest()
    wait_until(lambda: stage.newest() > before, timeout=10, what="the new leader's next checkpoints")
    new.kill()
    stage.assert_nothing_is_wrong()


@pytest.mark.parametrize("blind", [False, thorough(True)])
def test_a_job_that_finished_in_between_stays_finished(stage: Stage, blind: bool) -> None:
    stage.submit()
    old = stage.leading("old", attempt=1, freeze=True, blind=blind)
    old.signal(signal.SIGTERM)
    old.await_event("frozen")
    new = stage.leading("new", attempt=2)
    new.signal(signal.SIGTERM)
    assert new.wait() == 0
    written = stage.coordinator.get(stage.paths().run_result(1))

    old.signal(signal.SIGCONT)
    assert old.wait() == LOST
    late = stage.start("late", attempt=3)  # a fail-over: a process still believed that the job was lost

    assert late.wait() == REFUSED
    assert stage.coordinator.get(stage.paths().run_result(1)) == written
    assert stage.result() == (JobState.FINISHED, 2)
    assert stage.pointer() is None
    assert stage.epoch() == 2, "who is refused raises no epoch"
    assert not stage.led()
    assert stage.newest() == new.last_committed()
    stage.assert_nothing_is_wrong()


# FLINK-10011


@pytest.mark.parametrize("timings", [VERY_PATIENT], ids=["very-patient"])
def test_a_deposed_leader_whose_session_lives_cannot_block_the_removal(stage: Stage) -> None:
    """Flink's new leader could not remove the job graph: the suspended one's session still held its lock nodes."""
    stage.submit()
    deposed = stage.leading("deposed", attempt=1)
    session = deposed.await_event("acquired")["session"]
    new = stage.start("new", attempt=2)
    new.await_event("connected")
    deposed.signal(signal.SIGSTOP)
    stage.coordinator.commit(Delete(stage.paths().leader))  # by hand: its session does not end with its leadership

    new.await_events("committed", 3)
    new.signal(signal.SIGTERM)
    assert new.wait() == 0

    assert stage.ensemble.serving(session) is not None, "the session of the deposed leader lives"
    assert stage.pointer() is None
    assert stage.result() == (JobState.FINISHED, 2)
    deposed.signal(signal.SIGCONT)
    assert deposed.wait() == LOST
    assert stage.result() == (JobState.FINISHED, 2)


def leader_at(stage: Stage, stack: ExitStack, member: Member) -> tuple[JobProcess, Place]:
    """Start a leader whose client is connected to *member*, and can reach the others."""
    place = Place(stack, stage.ensemble, member)
    place.only_direct()
    leader = stage.leading("leader", attempt=1, hosts=place.hosts)
    assert stage.ensemble.serving(leader.await_event("connected")["session"]) is member
    place.all_ways()
    return leader, place


@pytest.mark.long
@pytest.mark.parametrize(("role", "timings"), [("follower", PATIENT), thorough("leader", VERY_PATIENT)])
def test_a_leader_survives_that_its_member_is_cut_off_from_the_others(stage: Stage, role: str) -> None:
    """No restart: it moves to another member of any role within its lease."""
    choose: dict[str, Callable[[], Member]] = {
        "follower": lambda: stage.ensemble.followers()[0],
        "leader": stage.ensemble.leader,
    }
    stage.submit()
    with ExitStack() as stack:
        member = choose[role]()
        leader, _ = leader_at(stage, stack, member)
        standby = stage.start("standby", attempt=2)

        stage.ensemble.isolate(member)
        since = SystemClock().lease_time()
        over = since + stage.config.timings.session_timeout
        wait_until(
            lambda: leader.await_event("committed").at > over, timeout=30, what="checkpoints beyond a session timeout"
        )

        assert stage.epoch() == 1
        assert not [event for event in standby.events if event.kind == "acquired"]
        numbers = [event["number"] for event in leader.events if event.kind == "committed"]
        assert numbers == list(range(1, len(numbers) + 1))
        stage.ensemble.heal()
        leader.kill()
        standby.kill()
        stage.assert_nothing_is_wrong()


@pytest.mark.long
@pytest.mark.parametrize("timings", [PATIENT], ids=["patient"])
def test_an_old_job_whose_removal_once_failed_stays_dead_through_all_of_it(stage: Stage) -> None:
    """The timeline of FLINK-10011 from its beginning to its end."""
    # A job ends. The first attempt to remove its graph fails: the connection breaks before the transaction arrives.
    stage.submit(OLD)
    with FaultProxy(stage.ensemble.members[0].hosts) as proxy:
        finished = stage.leading("finished", attempt=1, job_id=OLD, hosts=proxy.hosts)
        proxy.cut_before_transaction(stage.paths(OLD).job_graph)
        finished.signal(signal.SIGTERM)
        assert finished.wait() == 0
        assert proxy.hit.is_set()
    assert stage.pointer(OLD) is None

    # Another job runs. Its leader's member is cut off from the others, and the leader can reach only that one.
    stage.submit()
    with ExitStack() as stack:
        leader, place = leader_at(stage, stack, stage.ensemble.followers()[0])
        second = stage.start("second", attempt=2)
        place.only_direct()
        stage.ensemble.isolate(place.member)
        assert leader.wait() == LOST
        second.await_events("committed", 3)
        stage.ensemble.heal()
    assert second.await_event("recovered")["number"] >= leader.last_committed()
    assert stage.epoch() == 2

    # Weeks later: the whole ensemble goes down and comes back, and so do the processes.
    second.kill()
    for member in stage.ensemble.members:
        member.kill()
    stage.ensemble.start()
    third = stage.leading("third", attempt=3)
    resurrected = stage.start("resurrected", attempt=2, job_id=OLD)

    assert resurrected.wait() == REFUSED
    assert stage.epoch(OLD) == 1
    assert not stage.led(OLD)
    assert stage.result(OLD) == (JobState.FINISHED, 1)
    assert third.await_event("recovered")["number"] >= second.last_committed()
    assert stage.epoch() == 3

    # Even a pointer that an administrator puts back by hand brings no job back: a run with a result is never run again.
    pointer = GraphPointer(graph=BLOB, run=1)
    stage.coordinator.commit(Create(stage.paths(OLD).job_graph, pointer.to_bytes()))
    by_hand = stage.start("by-hand", attempt=3, job_id=OLD)
    assert by_hand.wait() == REFUSED
    assert not stage.led(OLD)


ELECTIONS = 8

# A round that fails costs initLimit (2 s) twice: here no election needs a second one.
LONGEST = 4.0


def lead_and_follow(members: list[Member]) -> bool:
    return sorted(member.mode for member in members) == ["follower", "leader"]


@pytest.mark.long
def test_every_election_after_a_kill_of_the_leader_ends_with_its_first_round(
    ensemble: EmbeddedEnsemble, tell: Callable[[str], None]
) -> None:
    took = []
    for _ in range(ELECTIONS):
        killed = ensemble.leader()
        others = [member for member in ensemble.members if member is not killed]

        killed.kill()
        began = monotonic()
        wait_until(
            partial(lead_and_follow, others),
            timeout=60,
            what="a leader and a follower",
        )
        took.append(monotonic() - began)
        ensemble.start()

    tell("elections: " + ", ".join(f"{seconds:.2f} s" for seconds in took))
    assert max(took) < LONGEST, took
