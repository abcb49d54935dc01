"""Decisions of operators and triggers on events and snapshots."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.ownership import ClaimMode
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.errors import ConfigurationError, JobStateError, NotConnectedError
from airflow_provider_ha.jobs.model import JobState, Operation, OperationKind, OperationState, OutputMode, StandbyCount
from airflow_provider_ha.jobs.options.declaration import read
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.runs.run_store import RunView, SubmissionView
from airflow_provider_ha.jobs.runs.submissions import Failure
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.operators._base import airflow_errors, as_flag, request_id, table
from airflow_provider_ha.operators._operation import open_operation_id
from airflow_provider_ha.operators.cancel import SparkHaCancelOperator
from airflow_provider_ha.operators.restore import SparkHaRestoreOperator
from airflow_provider_ha.operators.stop import SparkHaStopOperator
from airflow_provider_ha.operators.submit import SparkHaSubmitOperator
from airflow_provider_ha.triggers.job import restarts_since, run_event
from airflow_provider_ha.triggers.live_fact import checkpoint_event, hopeless_event, leader_event, status_event
from airflow_provider_ha.triggers.operation import operation_event
from tests.support.airflow_exceptions import AirflowException, AirflowFailException
from tests.support.clusters.airflow_helpers import context
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


def operation(state: OperationState, **result: Any) -> dict[str, Any]:
    made = Operation(
        operation_id="o", operation=OperationKind.STOP, run=3, requested_by="t", requested_at=NOON, state=state
    )
    return made.model_copy(update={"result": result}).model_dump(mode="json")


def test_every_try_of_a_task_asks_with_one_id_and_every_task_with_its_own() -> None:
    assert request_id(context(ti_id="try-1")) == request_id(context(ti_id="try-2"))
    ids = {request_id(context()), request_id(context(run_id="manual__2")), request_id(context(map_index=0))}
    assert len(ids) == 3


def test_a_request_id_is_safe_as_a_node_whatever_the_run_is_called() -> None:
    made = request_id(context(run_id="scheduled__2026-01-01T00:00:00+00:00/#" + "x" * 200))

    assert len(made) <= 100
    assert not set("/:#+") & set(made)


class Job:
    """Knows some operations by their ids."""

    def __init__(self, **states: OperationState) -> None:
        self.states = {name.replace("_", "-"): state for name, state in states.items()}

    def operation(self, operation_id: str) -> Any:
        state = self.states.get(operation_id)
        return state and Operation.model_validate(operation(state))


def test_a_retry_finds_its_operation_and_repeats_only_a_failed_one() -> None:
    def asks(**states: OperationState) -> str:
        job: Any = Job(**states)
        return open_operation_id(job, "o")

    assert asks() == "o"
    assert asks(o=OperationState.COMPLETED) == "o"
    assert asks(o=OperationState.RUNNING) == "o"
    assert asks(o=OperationState.FAILED) == "o-2"
    assert asks(o=OperationState.FAILED, o_2=OperationState.ABANDONED) == "o-3"
    assert asks(o=OperationState.FAILED, o_2=OperationState.REQUESTED) == "o-2"


def test_a_stop_succeeds_only_when_the_run_is_finished() -> None:
    stop = SparkHaStopOperator(task_id="t", job_id="flights")
    done = {"status": "completed", "operation": operation(OperationState.COMPLETED, checkpoint=7, path="/cp/7")}

    assert stop.execute_complete({}, done | {"state": "FINISHED"})["checkpoint"] == 7
    with pytest.raises(AirflowException, match=r"ended FAILED.*path /cp/7"):
        stop.execute_complete({}, done | {"state": "FAILED"})


def test_a_stop_that_failed_after_its_checkpoint_names_the_path() -> None:
    stop = SparkHaStopOperator(task_id="t", job_id="flights", retries=1)
    failed = {"status": "failed", "operation": operation(OperationState.FAILED, path="/cp/7"), "reason": "it hangs"}

    with pytest.raises(AirflowException, match=r"it hangs.*path /cp/7") as caught:
        stop.execute_complete({}, failed)

    assert not isinstance(caught.value, AirflowFailException), "a retry may ask again"


def test_a_cancel_succeeds_only_when_the_run_is_canceled() -> None:
    cancel = SparkHaCancelOperator(task_id="t", job_id="flights")
    done = {"status": "completed", "operation": operation(OperationState.COMPLETED)}

    assert cancel.execute_complete({}, done | {"state": "CANCELED"})["run"] == 3
    with pytest.raises(AirflowException, match="ended FINISHED"):
        cancel.execute_complete({}, done | {"state": "FINISHED"})


@pytest.mark.parametrize("state", ["FAILED", "CANCELED"])
def test_a_run_that_ended_badly_fails_the_task_for_good(state: str) -> None:
    submit = SparkHaSubmitOperator(task_id="t", job_id="flights", application="app.py")
    event = {"status": "ended", "job_id": "flights", "run": 1, "state": state, "reason": "an unnamed query"}

    with pytest.raises(AirflowFailException, match="an unnamed query"):
        submit.execute_complete(context(), event)


def test_a_finished_run_is_the_result_of_the_task() -> None:
    submit = SparkHaSubmitOperator(task_id="t", job_id="flights", application="app.py")
    event = {"status": "ended", "job_id": "flights", "run": 1, "epoch": 2, "state": "FINISHED", "attempt": 1}

    expected = {"job_id": "flights", "run": 1, "epoch": 2, "state": "FINISHED"}
    assert submit.execute_complete(context(), event) == expected


@pytest.mark.parametrize(("name", "value"), [("wait_for", "ever"), ("when_killed", "kill")])
def test_a_word_that_a_template_renders_and_nobody_knows_fails_before_anything_is_opened(name: str, value: str) -> None:
    submit = SparkHaSubmitOperator(task_id="t", job_id="flights", application="app.py")
    setattr(submit, name, value)

    with pytest.raises(AirflowFailException, match=value):
        submit.execute(context())


def test_only_what_a_retry_can_mend_is_retried() -> None:
    with pytest.raises(AirflowException) as caught, airflow_errors():
        raise NotConnectedError("zk1 does not answer")
    assert not isinstance(caught.value, AirflowFailException)

    with pytest.raises(AirflowFailException, match="live run"), airflow_errors():
        raise JobStateError("job has a live run", next_step="Stop it")


def test_a_restore_leaves_out_what_a_template_rendered_to_nothing() -> None:
    restore = SparkHaRestoreOperator(
        task_id="t", job_id="copy", source_job="", application=None, arguments=None, output_mode="fresh"
    )

    request = restore.restore_request("r")

    assert (request.source_job, request.application, request.arguments) == (None, None, None)
    assert request.output_mode is OutputMode.FRESH


def test_a_restore_refuses_a_verdict_that_does_not_exist() -> None:
    restore = SparkHaRestoreOperator(task_id="t", job_id="copy")
    restore.start = {"accept_verdicts": ["MAYBE"]}  # as a template renders it

    with pytest.raises(ConfigurationError, match="MAYBE"):
        restore.restore_request("r")


def test_options_that_were_not_given_keep_their_defaults_and_wrong_ones_are_named() -> None:
    assert read(HaOptions, {"restart_attempts": None}, subject="the job").restart_attempts == -1
    with pytest.raises(ConfigurationError, match="retained_checkpoints"):
        read(HaOptions, {"retained_checkpoints": 0}, subject="the job")


def test_a_flag_survives_a_template() -> None:
    assert [as_flag(value) for value in (True, "True", "false", "", None)] == [True, True, False, False, False]
    with pytest.raises(AirflowFailException):
        as_flag("perhaps")


def test_a_table_aligns_its_columns() -> None:
    assert table(("a", "b"), [("long", 1)]).splitlines() == ["a     b", "----  -", "long  1"]
    assert table(("a",), []).endswith("(none)")


@pytest.mark.parametrize("start_from", ["/data/checkpoints/hourly", {"hourly": "/data/checkpoints/hourly"}])
def test_a_restore_says_what_it_claims_and_which_directories_it_starts_from(start_from: Any) -> None:
    restore = SparkHaRestoreOperator(
        task_id="t",
        job_id="j",
        start={"claim_mode": "CLAIM", "sinks": {"hourly": "/data/out"}},
        start_from=start_from,
    )

    request = restore.restore_request("r")

    assert request.claim_mode is ClaimMode.CLAIM
    assert (request.start_from, request.adopt) == ("latest", {"hourly": "/data/checkpoints/hourly"})
    assert request.sinks == {"hourly": "/data/out"}


def test_a_submission_starts_from_a_path_with_the_verdicts_that_are_accepted() -> None:
    asked: list[Any] = []
    job: Any = SimpleNamespace(submit=asked.append)
    submit = SparkHaSubmitOperator(
        task_id="t",
        job_id="j",
        application="app.py",
        start_from={"hourly": "/data/checkpoints/hourly"},
        start={"accept_verdicts": ["SAFE", "DUPLICATES_POSSIBLE"]},
    )

    submit.start_run(job, "r")

    assert asked[0].start_from == {"hourly": "/data/checkpoints/hourly"}
    assert asked[0].start.claim_mode is ClaimMode.NO_CLAIM
    assert asked[0].start.accept_verdicts == {Verdict.SAFE, Verdict.DUPLICATES_POSSIBLE}


def test_remote_executors_are_allowed_only_by_name() -> None:
    asked: list[Any] = []
    job: Any = SimpleNamespace(submit=asked.append)
    options: tuple[dict[str, Any], ...] = ({}, {"ha": {"allow_remote_executors": True}})
    for named in options:
        SparkHaSubmitOperator(task_id="t", job_id="j", application="app.py", **named).start_run(job, "r")
    restores = [SparkHaRestoreOperator(task_id="t", job_id="j", **named).restore_request("r") for named in options]

    assert [request.ha.allow_remote_executors for request in asked] == [False, True]
    assert [request.allow_remote_executors for request in restores] == [None, True]


def test_what_ends_a_run_is_the_dag_s_to_say() -> None:
    asked: list[Any] = []
    job: Any = SimpleNamespace(submit=asked.append)
    thresholds: dict[str, Any] = {"application_failures": 5, "application_failure_period": timedelta(hours=1)}

    SparkHaSubmitOperator(task_id="t", job_id="j", application="app.py", ha=thresholds).start_run(job, "r")

    assert (asked[0].ha.application_failures, asked[0].ha.application_failure_period) == (5, 3600.0)


@pytest.mark.parametrize(("name", "value"), [("claim_mode", "LEGACY"), ("accept_verdicts", ["MAYBE"])])
def test_words_that_a_template_renders_and_nobody_knows_are_refused_by_name(name: str, value: Any) -> None:
    submit = SparkHaSubmitOperator(task_id="t", job_id="j", application="app.py")
    submit.start = {name: value}
    asked: list[Any] = []
    job: Any = SimpleNamespace(submit=asked.append)

    with pytest.raises(ConfigurationError, match=r"LEGACY|MAYBE") as caught:
        submit.start_run(job, "r")

    assert caught.value.next_step
    assert asked == []


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


@pytest.mark.parametrize(
    ("standbys", "epoch", "passes"),
    [
        (StandbyCount(requested=2, ready=1), 1, "success"),
        (StandbyCount(requested=1), 1, None),
        (StandbyCount(requested=1, ready=1), 0, None),  # a former leader has counted it
        (None, 1, "error"),  # none is requested
    ],
)
def test_a_leader_with_a_standby_driver_passes_once_it_has_counted_a_ready_one(
    standbys: StandbyCount | None, epoch: int, passes: str | None
) -> None:
    status = a_status(epoch=epoch).model_copy(update={"standbys": standbys})
    led = replace(LED, status=status)

    assert status_of(leader_event(led, min_epoch=1, min_run=1)) == "success"
    assert status_of(leader_event(led, min_epoch=1, min_run=1, standby=True)) == passes
    assert leader_event(led, min_epoch=2, min_run=1, standby=True) is None


def test_a_leader_that_has_not_counted_yet_does_not_pass_with_a_standby_driver() -> None:
    assert leader_event(replace(LED, status=None), min_epoch=1, min_run=1, standby=True) is None


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


def stop_operation(state: OperationState) -> Operation:
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
    event = operation_event(stop_operation(state), view(result=result), until_ended=until_ended)

    assert status_of(event) == status
