"""The action that is due for a job, decided from its status alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_ha.jobs.condition import Action, decide
from airflow_provider_ha.jobs.job_graph import GraphPointer
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.runs.run_store import RunView, SubmissionView
from airflow_provider_ha.jobs.status import JobStatus
from tests.support.clusters.jobs_helpers import (
    BLOB,
    NOON,
    a_leader,
    a_result,
    a_run,
    a_start,
    a_status,
    a_submission,
    an_exit,
)


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
