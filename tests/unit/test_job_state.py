"""In which state a job is, decided from a snapshot alone."""

from __future__ import annotations

import pytest

from airflow_provider_ha.jobs.model import JobState, LeaderInfo, RunResult, Status
from airflow_provider_ha.jobs.runs.run_store import RunView, SubmissionView
from airflow_provider_ha.jobs.status import JobStatus
from tests.support.clusters.jobs_helpers import (
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
