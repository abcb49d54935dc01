"""State of a job, the action that is due for it, and the time of its next inspection."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_provider_ha.fleet.observations import ReconcileQueue
from airflow_provider_ha.jobs.condition import Action, decide
from airflow_provider_ha.jobs.job_graph import GraphPointer
from airflow_provider_ha.jobs.model import STANDBY_PATIENCE, JobState, LeaderInfo, RunResult, StandbyCount, Status
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.runs.run_store import RunView, SubmissionView
from airflow_provider_ha.jobs.status import JobStatus
from tests.support.clusters.coordination_helpers import HeldClock
from tests.support.clusters.jobs_helpers import (
    BLOB,
    NOON,
    TAKEN,
    a_leader,
    a_result,
    a_run,
    a_start,
    a_status,
    a_submission,
    an_exit,
)


NOT_TAKEN = SubmissionView(submission=a_submission(), created_zxid=10)
DEAD = SubmissionView(submission=a_submission(), started=a_start(), exit=an_exit(), created_zxid=10)


def state(
    submission: SubmissionView | None,
    *,
    leader: LeaderInfo | None = None,
    status: Status | None = None,
    result: RunResult | None = None,
    led_at: int = 0,
) -> JobState:
    run = RunView(run=a_run(), result=result, submissions=(submission,) if submission else ())
    epoch = 1 if led_at else 0
    return JobStatus(job_id="flights", run=run, leader=leader, status=status, epoch=epoch, epoch_zxid=led_at).state


def test_a_job_without_a_run_is_not_lost() -> None:
    assert JobStatus(job_id="flights").state is JobState.SUBMITTED


def test_a_submission_is_on_its_way_until_it_leads() -> None:
    assert state(None) is JobState.SUBMITTED
    assert state(NOT_TAKEN) is JobState.SUBMITTED
    assert state(TAKEN) is JobState.STARTING


def test_the_leader_says_the_state_and_only_for_its_own_epoch() -> None:
    assert state(TAKEN, leader=a_leader(), status=a_status(), led_at=11) is JobState.RUNNING
    assert state(TAKEN, leader=a_leader(2), status=a_status(epoch=1), led_at=11) is JobState.STARTING
    assert state(TAKEN, leader=a_leader(), led_at=11) is JobState.STARTING


def test_the_leader_of_an_earlier_run_says_nothing_about_this_one() -> None:
    assert state(TAKEN, leader=a_leader(run=7), status=a_status(run=7), led_at=9) is JobState.STARTING


def test_a_terminal_status_without_a_result_is_not_the_end() -> None:
    finished = a_status(JobState.FINISHED)

    assert state(TAKEN, leader=a_leader(), status=finished, led_at=11) is JobState.STOPPING


def test_a_job_that_works_and_commits_nothing_is_stalled() -> None:
    def standing(of: JobState) -> JobState:
        stalled = a_status(of).model_copy(update={"stalled": "query 'hourly' has been in one trigger"})
        return state(TAKEN, leader=a_leader(), status=stalled, led_at=11)

    assert standing(JobState.RUNNING) is JobState.STALLED
    assert standing(JobState.STARTING) is JobState.STALLED
    assert standing(JobState.STOPPING) is JobState.STOPPING
    assert not JobState.STALLED.terminal


def test_a_vanished_leader_is_lost_only_if_it_led_after_this_submission() -> None:
    assert state(TAKEN, led_at=11) is JobState.LOST
    assert state(TAKEN, led_at=9) is JobState.STARTING


def test_proof_of_death_is_a_loss_whether_it_led_or_not() -> None:
    assert state(DEAD) is JobState.LOST
    assert state(DEAD, leader=a_leader(), status=a_status(), led_at=11) is JobState.LOST


@pytest.mark.parametrize("terminal", [JobState.FINISHED, JobState.CANCELED, JobState.FAILED])
def test_a_result_decides_over_everything(terminal: JobState) -> None:
    assert state(DEAD, result=a_result(terminal), led_at=11) is terminal
    assert state(TAKEN, leader=a_leader(), status=a_status(), result=a_result(terminal), led_at=11) is terminal


SUBMITTED = SubmissionView(submission=a_submission(), created_zxid=10)
STARTED = replace(SUBMITTED, started=a_start())
EXITED = replace(STARTED, exit=an_exit())
POINTER = GraphPointer(graph=BLOB, run=1)
LED_ONCE = {"epoch": 1, "epoch_zxid": 20}


def live(submission: SubmissionView, **more: object) -> JobStatus:
    run = RunView(run=a_run(), submissions=(submission,))
    return JobStatus(**({"job_id": "flights", "run": run, "graph": POINTER} | more))  # type: ignore[arg-type]


def ended(**more: object) -> JobStatus:
    run = RunView(run=a_run(), submissions=(EXITED,), result=a_result())
    return live(EXITED, **({"run": run, "graph": None} | more))


@pytest.mark.parametrize(
    ("snapshot", "action"),
    [
        (live(EXITED), Action.RECOVER),
        (live(EXITED, leader=a_leader(), status=a_status()), Action.RECOVER),
        (live(STARTED, **LED_ONCE), Action.RECOVER),
        (live(STARTED, leader=a_leader(), status=a_status(), **LED_ONCE), Action.LEAVE),
        (live(STARTED), Action.WAIT),
        (live(SUBMITTED), Action.WAIT),
        (live(EXITED, graph=None), Action.LEAVE),
        (live(EXITED, graph=GraphPointer(graph=BLOB, run=2)), Action.QUARANTINE),
        (JobStatus(job_id="flights"), Action.LEAVE),
        (JobStatus(job_id="flights", graph=POINTER), Action.QUARANTINE),
    ],
    ids=[
        "its driver is proven dead",
        "and the leader node outlives it",
        "its leadership has ended",
        "it is led",
        "it is starting",
        "it is submitted",
        "no leader has to recover it",
        "its pointer is of another run",
        "it has no run",
        "it has a pointer and no run",
    ],
)
def test_a_run_without_a_result_is_recovered_if_it_has_to_be(snapshot: JobStatus, action: Action) -> None:
    assert decide(snapshot, None, NOON).action is action


@pytest.mark.parametrize("state", [JobState.FINISHED, JobState.CANCELED, JobState.FAILED])
@pytest.mark.parametrize(
    ("led", "dirty", "pointer", "action"),
    [
        (False, (), None, Action.LEAVE),
        (False, (1,), None, Action.CLEAN_UP),
        (False, (), POINTER, Action.CLEAN_UP),
        (True, (1,), POINTER, Action.LEAVE),
    ],
    ids=["clean", "dirty", "with a pointer that was left", "its driver is still there"],
)
def test_a_run_with_a_result_is_never_run_again(
    state: JobState, led: bool, dirty: tuple[int, ...], pointer: GraphPointer | None, action: Action
) -> None:
    run = RunView(run=a_run(), submissions=(EXITED,), result=a_result(state))
    snapshot = ended(run=run, graph=pointer, leader=a_leader() if led else None, dirty=dirty)

    assert decide(snapshot, None, NOON).action is action


def test_quarantine_and_what_is_broken_come_before_everything_else() -> None:
    held, broken = replace(live(EXITED), quarantined=True), JobStatus(job_id="flights", broken=True)

    assert decide(held, None, NOON).action is Action.LEAVE
    assert decide(replace(held, repaired=True), None, NOON).action is Action.RELEASE
    assert decide(broken, None, NOON).action is Action.QUARANTINE
    assert decide(replace(broken, locked=True), None, NOON).action is Action.LEAVE


@pytest.mark.parametrize(
    ("end", "action", "due"),
    [
        ({}, Action.RECOVER, NOON),
        ({"refused": "no host has Spark"}, Action.GIVE_UP, None),
        ({"decision": "restore it, or accept the loss"}, Action.ASK, None),
    ],
    ids=["killed", "refused", "undecided"],
)
def test_the_restart_strategy_decides_about_a_lost_run(end: dict[str, str], action: Action, due: object) -> None:
    lost = live(replace(STARTED, exit=an_exit().model_copy(update=end)))

    found = decide(lost, HaOptions(), NOON)

    assert (found.state, found.needs_person, found.action, found.due) == ("LOST", True, action, due)


def test_the_decision_of_its_user_continues_a_run() -> None:
    lost = live(replace(STARTED, exit=an_exit().model_copy(update={"decision": "accept the loss"})))

    assert decide(lost, HaOptions(), NOON, decided=True).action is Action.RECOVER


def test_a_condition_names_the_next_step_of_a_person() -> None:
    held = replace(live(EXITED), quarantined=True, trouble="its graph is gone")

    found = decide(held, None, NOON)

    assert (found.problem, found.next_step) == (
        "in quarantine: its graph is gone",
        "Repair the cause, then `spark-ha job release flights`",
    )


@pytest.mark.parametrize(
    ("epoch", "seconds", "problem"),
    [
        (1, STANDBY_PATIENCE, "0 of 1 standby drivers ready: the warm-up failed"),
        (1, STANDBY_PATIENCE - 1, ""),
        (2, STANDBY_PATIENCE, ""),  # the count of a former leader
    ],
)
def test_a_standby_driver_that_is_missing_for_minutes_is_a_problem_that_needs_no_person(
    epoch: int, seconds: float, problem: str
) -> None:
    missing = NOON - timedelta(seconds=seconds)
    standbys = StandbyCount(requested=1, note="the warm-up failed", missing_since=missing)
    status = a_status().model_copy(update={"standbys": standbys})

    found = decide(replace(live(STARTED), epoch=epoch, leader=a_leader(epoch), status=status), None, NOON)

    assert (found.problem, found.needs_person) == (problem, False)


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
