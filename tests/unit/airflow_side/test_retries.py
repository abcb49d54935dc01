"""Retries of operators and sensors, and the first step of a sensor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from datetime import datetime, timedelta, timezone
from functools import partial
from importlib.metadata import version
from typing import Any
from unittest.mock import MagicMock

import pytest
from airflow.sdk import DAG, BaseOperator
from packaging.version import Version

from airflow_provider_ha.airflow_side.compat import AIRFLOW
from airflow_provider_ha.errors import NotConnectedError, StorageUnavailableError
from airflow_provider_ha.hooks.spark_ha import SparkHaHook
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.runs.run_store import RunView
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.operators.cancel import SparkHaCancelOperator
from airflow_provider_ha.operators.checkpoint import SparkHaCheckpointOperator
from airflow_provider_ha.operators.delete_job import SparkHaDeleteJobOperator
from airflow_provider_ha.operators.follow import SparkHaFollowOperator
from airflow_provider_ha.operators.hand_over import SparkHaHandOverOperator
from airflow_provider_ha.operators.recover_jobs import SparkHaRecoverJobsOperator
from airflow_provider_ha.operators.restore import SparkHaRestoreOperator
from airflow_provider_ha.operators.restore_drill import SparkHaRestoreDrillOperator
from airflow_provider_ha.operators.savepoint import SparkHaSavepointOperator
from airflow_provider_ha.operators.stop import SparkHaStopOperator
from airflow_provider_ha.operators.submit import SparkHaSubmitOperator
from airflow_provider_ha.sensors._base import Baseline, baseline_of, first_baseline
from airflow_provider_ha.sensors.checkpoint import SparkHaCheckpointSensor
from airflow_provider_ha.sensors.job_status import SparkHaJobStatusSensor
from airflow_provider_ha.sensors.leader import SparkHaLeaderSensor
from tests.support.airflow_exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
    TaskDeferralError,
    TaskDeferralTimeout,
)
from tests.support.clusters.airflow_helpers import AS_LIBRARY, StateStore, context
from tests.support.clusters.jobs_helpers import a_result, a_run


SUBMIT: dict[str, Any] = {"task_id": "t", "job_id": "flights", "application": "app.py"}
JOB: dict[str, Any] = {"task_id": "t", "job_id": "flights"}

TEN, FIVE_MINUTES = timedelta(seconds=10), timedelta(minutes=5)

EVERY_KIND = [
    (SparkHaSubmitOperator, SUBMIT, 999, TEN),
    (SparkHaRestoreOperator, JOB, 999, TEN),
    (SparkHaFollowOperator, JOB, 999, TEN),
    (SparkHaSavepointOperator, JOB, 99, TEN),
    (SparkHaStopOperator, JOB, 99, TEN),
    (SparkHaCancelOperator, JOB, 99, TEN),
    (SparkHaCheckpointOperator, JOB, 99, TEN),
    (SparkHaHandOverOperator, JOB, 99, TEN),
    (SparkHaDeleteJobOperator, JOB, 99, TEN),
    (SparkHaLeaderSensor, JOB, 99, TEN),
    (SparkHaCheckpointSensor, JOB, 99, TEN),
    (SparkHaJobStatusSensor, JOB | {"target_states": ["RUNNING"]}, 99, TEN),
    (SparkHaRecoverJobsOperator, {"task_id": "t"}, 99, TEN),
    (SparkHaRestoreDrillOperator, JOB, 2, FIVE_MINUTES),
]


@pytest.mark.parametrize(("kind", "given", "retries", "delay"), EVERY_KIND)
def test_a_task_whose_dag_sets_no_retries_has_its_own(kind: Any, given: Any, retries: int, delay: timedelta) -> None:
    with DAG("d", schedule=None):
        task = kind(**given)

    assert (task.retries, task.retry_delay) == (retries, delay)


@pytest.mark.parametrize(("kind", "given", "retries", "delay"), EVERY_KIND)
def test_what_a_task_or_its_dag_sets_is_kept_zero_included(
    kind: Any, given: Any, retries: int, delay: timedelta
) -> None:
    with DAG("d", schedule=None, default_args={"retries": 0, "retry_delay": timedelta(seconds=7)}):
        by_dag = kind(**given)
    with DAG("e", schedule=None):
        by_task = kind(**given, retries=4)

    assert (by_dag.retries, by_dag.retry_delay) == (0, timedelta(seconds=7))
    assert (by_task.retries, by_task.retry_delay) == (4, FIVE_MINUTES), "with Airflow's own delay"


def test_a_delay_alone_leaves_the_number_as_it_is() -> None:
    task = SparkHaSubmitOperator(**SUBMIT, retry_delay=timedelta(seconds=1))

    assert (task.retries, task.retry_delay) == (999, timedelta(seconds=1))


def test_mapped_tasks_have_them_too_where_airflow_asks_the_operator() -> None:
    with DAG("d", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)):
        mapped = SparkHaFollowOperator.partial(task_id="t").expand(job_id=["a", "b"])

    asks = Version(version("apache-airflow")) >= Version("3.3.2")
    expected = (999, TEN) if asks else (BaseOperator.retries, BaseOperator.retry_delay)
    assert (mapped.retries, mapped.retry_delay) == expected


@pytest.mark.slow
@pytest.mark.skipif(AIRFLOW < (3, 0, 1), reason="Airflow 3.0.0 does not read its own setting")
def test_default_task_retries_of_airflow_is_kept() -> None:
    """The value is read when Airflow is imported, so another process has to do that."""
    program = (
        "import json; from airflow_provider_ha.operators.follow import SparkHaFollowOperator as F; "
        "t = F(task_id='t', job_id='j'); print(json.dumps([t.retries, t.retry_delay.total_seconds(), t.own_retries]))"
    )
    environment = os.environ | AS_LIBRARY | {"AIRFLOW__CORE__DEFAULT_TASK_RETRIES": "3"}

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)

    assert json.loads(done.stdout.splitlines()[-1]) == [3, 300.0, False]


def failed_stop() -> dict[str, Any]:
    operation = {
        "operation_id": "o",
        "operation": "stop",
        "run": 1,
        "requested_by": "t",
        "requested_at": "2026-01-01T00:00:00Z",
        "state": "FAILED",
    }
    return {"status": "failed", "operation": operation, "reason": "the drain failed"}


def test_own_retries_do_not_repeat_an_operation_that_failed_but_those_of_the_dag_do() -> None:
    with pytest.raises(AirflowFailException, match="the drain failed"):
        SparkHaStopOperator(**JOB).execute_complete({}, failed_stop())
    with pytest.raises(AirflowException, match="the drain failed") as caught:
        SparkHaStopOperator(**JOB, retries=2).execute_complete({}, failed_stop())
    assert not isinstance(caught.value, AirflowFailException)


def test_own_retries_do_not_make_a_sensor_wait_for_a_run_after_the_one_that_ended() -> None:
    ended = {"status": "failed", "reason": "run 1 ended FAILED"}

    with pytest.raises(AirflowFailException, match="run 1 ended FAILED"):
        SparkHaLeaderSensor(**JOB).execute_complete({}, ended)
    with pytest.raises(AirflowException) as caught:
        SparkHaLeaderSensor(**JOB, retries=2).execute_complete({}, ended)
    assert not isinstance(caught.value, AirflowFailException)


def timed_out(task: Any) -> Any:
    return task.resume_execution("__fail__", {"error": "Trigger timeout"}, {})


def test_own_retries_do_not_begin_the_longest_wait_anew() -> None:
    wait: dict[str, Any] = {"wait_timeout": timedelta(minutes=30)}

    with pytest.raises(AirflowFailException, match=r"within 0:30:00.*not withdrawn.*spark-ha job show flights"):
        timed_out(SparkHaStopOperator(**JOB, **wait))
    with pytest.raises(TaskDeferralTimeout):
        timed_out(SparkHaStopOperator(**JOB, **wait, retries=2))
    with pytest.raises(AirflowSensorTimeout):
        timed_out(SparkHaLeaderSensor(**JOB))


def test_a_trigger_that_airflow_lost_is_a_reason_to_try_again() -> None:
    with pytest.raises(TaskDeferralError) as caught:
        SparkHaSubmitOperator(**SUBMIT).resume_execution("__fail__", {"error": "Trigger/task mismatch"}, {})

    assert not isinstance(caught.value, AirflowFailException)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, r"about 3 hours or more \(999 retries\)"),
        ({"retries": 3, "retry_delay": timedelta(minutes=5)}, "about 15 min"),
    ],
)
def test_a_cluster_that_does_not_answer_is_told_with_how_long_the_tries_last_and_how_they_end(
    given: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: SparkHaHook) -> Any:
        raise NotConnectedError("no ZooKeeper server of zk1 answered")

    monkeypatch.setattr(SparkHaHook, "get_client", refuse)
    task = SparkHaSubmitOperator(task_id="t", job_id="j", application="app.py", **given)

    with (
        pytest.raises(AirflowException, match=f"{said}.*end the task with Mark failed, correct connection") as caught,
        task.client(),
    ):
        pass

    assert not isinstance(caught.value, AirflowFailException)


def test_an_unwritable_storage_is_reported_with_the_duration_of_the_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkHaHook, "get_client", lambda _: nullcontext())
    task = SparkHaSubmitOperator(task_id="t", job_id="j", application="app.py")

    with pytest.raises(AirflowException, match=r"cannot be written.*\(999 retries\).*Mark failed"), task.client():
        raise StorageUnavailableError("storage root file:///mnt/ha cannot be written")


TASKS: list[Any] = [
    partial(SparkHaSubmitOperator, application="app.py"),
    SparkHaSavepointOperator,
    SparkHaStopOperator,
    SparkHaRestoreDrillOperator,
    SparkHaLeaderSensor,
]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: getattr(task, "func", task).__name__)
def test_an_id_that_a_template_spoils_is_refused_before_a_server_is_asked(
    task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = MagicMock(side_effect=NotConnectedError("no ZooKeeper server of zk1 answered"))
    monkeypatch.setattr(SparkHaHook, "get_client", asked)
    made = task(task_id="t", job_id="{{ params.job }}")
    made.job_id = "orders/eu"  # as Airflow renders it

    with pytest.raises(AirflowFailException, match="job id 'orders/eu' is not a valid name"):
        made.execute(context())

    asked.assert_not_called()


def test_an_unknown_connection_is_not_tried_again() -> None:
    task = SparkHaSubmitOperator(task_id="t", job_id="j", application="app.py", spark_ha_conn_id="prdo")

    with pytest.raises(AirflowFailException, match="has no connection 'prdo'"), task.client():
        pass


def test_a_retry_keeps_the_number_of_the_first_execution() -> None:
    store = StateStore()

    first_baseline(context(task_state_store=store), Baseline(checkpoint=5, ended_run=0))
    again = first_baseline(context(task_state_store=store), Baseline(checkpoint=9, ended_run=2))

    assert again == Baseline(checkpoint=5, ended_run=2)


def test_a_run_that_is_over_already_is_not_what_the_sensor_watches() -> None:
    over = JobStatus(
        job_id="flights", run=RunView(run=a_run(3), result=a_result(JobState.FINISHED)), checkpoint_counter=7
    )

    assert baseline_of(over) == Baseline(checkpoint=7, ended_run=3)


@pytest.mark.parametrize(("given", "newer_than"), [(None, 5), ("None", 5), ("", 5), ("3", 3), (0, 0)])
def test_a_number_that_is_given_wins_over_the_first_execution(given: Any, newer_than: int) -> None:
    sensor = SparkHaCheckpointSensor(task_id="s", job_id="flights")
    sensor.newer_than = given  # as a template renders it

    assert sensor.trigger(Baseline(checkpoint=5)).newer_than == newer_than


def test_an_unknown_target_state_fails_at_once() -> None:
    sensor = SparkHaJobStatusSensor(task_id="s", job_id="flights")
    sensor.target_states = ["GOOD"]  # as a template renders it

    with pytest.raises(AirflowFailException, match="'GOOD'"):
        sensor.trigger(Baseline())


def test_an_event_becomes_facts_or_a_failure() -> None:
    sensor = SparkHaCheckpointSensor(task_id="s", job_id="flights")

    assert sensor.execute_complete({}, {"status": "success", "checkpoint": 6}) == {"checkpoint": 6}
    with pytest.raises(AirflowException, match="ended"):
        sensor.execute_complete({}, {"status": "failed", "reason": "run 1 ended"})
    with pytest.raises(AirflowFailException, match="corrupt"):
        sensor.execute_complete({}, {"status": "error", "reason": "corrupt"})
