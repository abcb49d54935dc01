"""What triggers conclude from a snapshot: pure."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ha.jobs.model import JobState, Operation, OperationKind, OperationState
from airflow_provider_ha.jobs.runs.run_store import RunView, SubmissionView
from airflow_provider_ha.jobs.runs.submissions import Failure
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.triggers.checkpoint import checkpoint_event
from airflow_provider_ha.triggers.job import hopeless_event, restarts_since, run_event
from airflow_provider_ha.triggers.job_status import status_event
from airflow_provider_ha.triggers.leader import leader_event
from airflow_provider_ha.triggers.operation import operation_event
from tests.support.clusters.jobs_helpers import (
    NOON,
    a_leader,
    a_result,
    a_run,
    a_start,
    a_status,
    a_submission,
    an_exit,
)


def view(number: int = 1, *, result: Any = None, dead: bool = False) -> RunView:
    submission = SubmissionView(
        submission=a_submission(), started=a_start(), exit=an_exit() if dead else None, created_zxid=10
    )
    return RunView(run=a_run(number), result=a_result(result) if result else None, submissions=(submission,))


def snapshot(**values: Any) -> JobStatus:
    defaults: dict[str, Any] = {"job_id": "flights", "run": view(), "epoch": 1, "epoch_zxid": 11}
    return JobStatus(**(defaults | values))


LED = snapshot(leader=a_leader(), status=a_status(), checkpoint_numbers=(4, 5), checkpoint_counter=5)


def status_of(event: dict[str, Any] | None) -> str | None:
    return str(event["status"]) if event else None


def test_running_needs_a_leader_of_this_run_and_its_own_word() -> None:
    assert status_of(run_event(LED, run=1, wait_for="running")) == "running"
    stale = snapshot(leader=a_leader(2), status=a_status(epoch=1))
    assert run_event(stale, run=1, wait_for="running") is None
    assert run_event(LED, run=2, wait_for="running") is None


def test_who_waits_for_the_end_is_not_woken_by_running() -> None:
    assert run_event(LED, run=1, wait_for="finished") is None


def test_the_log_of_a_task_has_what_each_attempt_failed_with() -> None:
    failure = Failure(error_class="KeyError", message="'price'", query="orders", batches={"orders": 4})
    left = an_exit().model_copy(update={"failure": failure, "reason": "the driver ended with code 1"})
    ended = SubmissionView(submission=a_submission(), started=a_start(), exit=left, created_zxid=10)
    again = SubmissionView(submission=a_submission(2))
    told = "attempt 1: UNKNOWN KeyError: 'price' in query 'orders' after batch 4"

    lost = run_event(snapshot(run=RunView(run=a_run(), submissions=(ended,))), run=1, wait_for="finished")
    sentences = restarts_since("flights", RunView(run=a_run(), submissions=(ended, again)), 1)

    assert lost is not None
    assert lost["reason"] == told
    assert sentences == [f"The driver of run 1 of job flights was lost: {told}; attempt 2 was submitted by test"]


def test_a_dead_driver_is_a_loss_and_names_its_submission() -> None:
    event = run_event(snapshot(run=view(dead=True)), run=1, wait_for="finished")

    assert event is not None
    assert (event["status"], event["attempt"], event["epoch"]) == ("lost", 1, 1)


def test_a_run_with_a_result_has_ended_although_its_driver_is_dead() -> None:
    event = run_event(snapshot(run=view(result=JobState.FINISHED, dead=True)), run=1, wait_for="finished")

    assert event is not None
    assert (event["status"], event["state"]) == ("ended", "FINISHED")


def test_a_leader_passes_only_while_it_leads_the_newest_live_run() -> None:
    assert status_of(leader_event(LED, min_epoch=1, min_run=1)) == "success"
    assert leader_event(LED, min_epoch=2, min_run=1) is None
    assert leader_event(LED, min_epoch=1, min_run=2) is None
    assert leader_event(snapshot(), min_epoch=1, min_run=1) is None
    lingering = snapshot(leader=a_leader(), run=view(result=JobState.FINISHED))
    assert leader_event(lingering, min_epoch=1, min_run=1) is None


def test_a_checkpoint_passes_only_with_a_higher_number_and_a_live_leader() -> None:
    assert status_of(checkpoint_event(LED, newer_than=4)) == "success"
    assert checkpoint_event(LED, newer_than=5) is None
    assert checkpoint_event(snapshot(checkpoint_numbers=(5,)), newer_than=4) is None


def test_only_a_run_that_ended_while_watched_is_hopeless() -> None:
    ended = snapshot(run=view(2, result=JobState.FAILED))

    assert status_of(hopeless_event(ended, ended_run=1)) == "failed"
    assert hopeless_event(ended, ended_run=2) is None
    assert hopeless_event(LED, ended_run=0) is None


def test_a_state_passes_when_it_is_a_target() -> None:
    assert status_of(status_event(LED, ["RUNNING"])) == "success"
    assert status_event(LED, ["FINISHED"]) is None


def operation(state: OperationState) -> Operation:
    return Operation(
        operation_id="o", operation=OperationKind.STOP, run=1, requested_by="t", requested_at=NOON, state=state
    )


@pytest.mark.parametrize(
    ("state", "result", "until_ended", "status"),
    [
        (OperationState.RUNNING, None, False, None),
        (OperationState.COMPLETED, None, False, "completed"),
        (OperationState.COMPLETED, None, True, None),
        (OperationState.COMPLETED, JobState.FINISHED, True, "completed"),
        (OperationState.FAILED, None, True, "failed"),
        (OperationState.ABANDONED, JobState.FAILED, True, "abandoned"),
    ],
)
def test_an_operation_that_ends_the_run_is_done_when_the_run_has_ended(
    state: OperationState, result: Any, until_ended: bool, status: str | None
) -> None:
    event = operation_event(operation(state), view(result=result), until_ended=until_ended)

    assert status_of(event) == status
