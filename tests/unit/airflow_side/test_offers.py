"""Which buttons a job has, and why one is disabled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_ha.airflow_side.page.buttons import JobAction, menu_of, offer, offers, saved_cancel
from airflow_provider_ha.airflow_side.page.recovery import recovery_buttons
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.runs.run_store import RunView, SubmissionView
from airflow_provider_ha.jobs.status import JobStatus
from tests.support.clusters.jobs_helpers import a_leader, a_result, a_run, a_status, a_submission, an_exit


ASKS = [JobAction.SAVEPOINT, JobAction.STOP, JobAction.DRAIN, JobAction.CANCEL]


def a_job(state: JobState = JobState.RUNNING, *, checkpoint: int | None = 7) -> JobStatus:
    lost = state is JobState.LOST
    submitted = SubmissionView(a_submission(1), exit=an_exit() if lost else None)
    made = JobStatus(
        job_id="flights",
        leader=None if lost else a_leader(1),
        epoch=1,
        run=RunView(a_run(1), submissions=(submitted,), result=a_result(state) if state.terminal else None),
        status=a_status(JobState.RUNNING if lost or state.terminal else state),
        checkpoint_numbers=(checkpoint,) if checkpoint is not None else (),
    )
    assert made.state is state
    return made


def enabled(snapshot: JobStatus) -> list[JobAction]:
    return [each.action for each in offers(snapshot) if not each.refused]


@pytest.mark.parametrize(
    ("snapshot", "actions"),
    [
        (a_job(), ASKS),
        (a_job(JobState.STARTING), ASKS),
        (a_job(JobState.STOPPING), [JobAction.CANCEL]),
        (a_job(JobState.LOST), [JobAction.STOP, JobAction.CANCEL]),
        (a_job(JobState.LOST, checkpoint=None), [JobAction.CANCEL]),
        (a_job(JobState.FINISHED), []),
        (a_job(JobState.FAILED), []),
        (JobStatus(job_id="flights"), []),
    ],
)
def test_a_job_has_the_buttons_that_fit_its_state(snapshot: JobStatus, actions: list[JobAction]) -> None:
    assert enabled(snapshot) == actions
    for each in offers(snapshot):
        assert bool(each.effects) != bool(each.refused), "it says what will happen, or why not"


def test_release_is_offered_to_a_job_in_quarantine_only() -> None:
    assert JobAction.RELEASE not in [each.action for each in offers(a_job())]
    assert "not in quarantine" in offer(a_job(), JobAction.RELEASE).refused

    released = offers(a_job(), "the graph is gone")[-1]

    assert (released.action, released.refused) == (JobAction.RELEASE, "")
    assert "because the graph is gone." in released.effects[0]


def test_what_a_stop_does_depends_on_the_driver() -> None:
    assert "takes a checkpoint" in offer(a_job(), JobAction.STOP).effects[0]
    assert "ends immediately, FINISHED with checkpoint 7" in offer(a_job(JobState.LOST), JobAction.STOP).effects[0]


def test_a_cancel_says_what_a_restore_goes_on_from() -> None:
    assert "checkpoint 7" in offer(a_job(), JobAction.CANCEL).effects[1]
    assert "nothing" in offer(replace(a_job(), checkpoint_numbers=()), JobAction.CANCEL).effects[1]


def test_a_cancel_with_a_savepoint_says_that_the_job_goes_on_when_the_savepoint_fails() -> None:
    shown = saved_cancel(a_job())

    assert (shown.action, shown.refused) == (JobAction.CANCEL, "")
    assert shown.command == "spark-ha job cancel flights --savepoint"
    assert "copies a consistent state" in shown.effects[0]
    assert "When the savepoint fails, the run does not end" in shown.effects[1]


@pytest.mark.parametrize(
    ("snapshot", "reason"),
    [
        (a_job(JobState.LOST), "The driver is lost. This needs a driver"),
        (a_job(JobState.STOPPING), "being stopped already"),
        (a_job(JobState.FINISHED), "Run 1 is FINISHED"),
        (JobStatus(job_id="flights"), "has no run"),
    ],
)
def test_a_cancel_with_a_savepoint_needs_a_driver_that_goes_on(snapshot: JobStatus, reason: str) -> None:
    shown = saved_cancel(snapshot)

    assert reason in shown.refused
    assert shown.effects == ()


def test_each_button_names_the_command_that_does_the_same() -> None:
    commands = [offer(a_job(), action).command for action in ASKS]

    assert commands == [
        "spark-ha savepoint trigger flights",
        "spark-ha job stop flights",
        "spark-ha job stop flights --mode terminate",
        "spark-ha job cancel flights",
    ]


@pytest.mark.parametrize(
    ("snapshot", "quarantined", "primary"),
    [
        (a_job(), None, "savepoint"),
        (a_job(JobState.STOPPING), None, None),
        (a_job(JobState.LOST), None, "recover"),
        (a_job(JobState.LOST), "the graph is gone", "release"),
        (a_job(JobState.FAILED), None, "restore"),
        (a_job(JobState.FINISHED), None, "restore"),
    ],
)
def test_a_state_has_one_primary_button_and_dangerous_ones_are_apart(
    snapshot: JobStatus, quarantined: str | None, primary: str | None
) -> None:
    buttons: list[Any] = [*offers(snapshot, quarantined), *recovery_buttons(snapshot, quarantined)]

    menu = menu_of(buttons, "QUARANTINED" if quarantined else snapshot.state.value)

    assert (menu.primary.name if menu.primary else None) == primary
    assert {each.name for each in menu.dangerous} <= {"cancel", "drain"}
    shown = [*([menu.primary] if menu.primary else []), *menu.others, *menu.dangerous]
    assert sorted(each.name for each in shown) == sorted(each.name for each in buttons if not each.refused)
    assert sum(len(titles) for titles in menu.refused.values()) == len(buttons) - len(shown)


def test_the_reason_of_several_disabled_buttons_is_told_once() -> None:
    snapshot = a_job(JobState.FAILED)

    menu = menu_of([*offers(snapshot), *recovery_buttons(snapshot)], "FAILED")

    [(reason, titles)] = menu.refused.items()
    assert reason == "Run 1 is FAILED."
    assert len(titles) == 5
