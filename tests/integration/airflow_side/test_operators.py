"""Operators against a real ZooKeeper and real processes; only spark-submit is a stand-in."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, SetData
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.coordination.znode_records import counter_op
from airflow_provider_ha.jobs.model import OperationKind, OperationState, StandbyCount
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.runs.run_store import RunStore
from airflow_provider_ha.jobs.runs.standbys import Standby, StandbyLevel
from airflow_provider_ha.jobs.runs.watchers import release
from airflow_provider_ha.operators.cancel import SparkHaCancelOperator
from airflow_provider_ha.operators.checkpoint import SparkHaCheckpointOperator
from airflow_provider_ha.operators.hand_over import SparkHaHandOverOperator
from airflow_provider_ha.operators.savepoint import SparkHaSavepointOperator
from airflow_provider_ha.operators.stop import SparkHaStopOperator
from airflow_provider_ha.operators.submit import SparkHaSubmitOperator
from airflow_provider_ha.sensors.leader import SparkHaLeaderSensor
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.open_storage import open_store
from airflow_provider_ha.testing.waiting import wait_until
from tests.integration.airflow_side.task_runner import deferral, run_task, submit_stand_in
from tests.support.airflow_exceptions import AirflowException, AirflowFailException
from tests.support.clusters import submit_helpers as helpers
from tests.support.clusters.airflow_helpers import context
from tests.support.clusters.jobs_helpers import a_status, lead, submit
from tests.support.clusters.trigger_helpers import first_event


pytestmark = pytest.mark.usefixtures("airflow_connection", "opened")


def submitting(application: str, *, mode: str = "wait", **kwargs: Any) -> SparkHaSubmitOperator:
    return submit_stand_in(application, mode=mode, start_from="fresh", **kwargs)


def test_a_retry_and_a_second_process_find_the_run_again(
    application: str, coordinator: Coordinator, paths: JobPaths
) -> None:
    operator = submitting(application)

    first = deferral(operator, context(ti_id="try-1"))
    second = deferral(operator, context(ti_id="try-2"))

    assert first.trigger.number == second.trigger.number == 1
    assert second.trigger.claim > first.trigger.claim, "the new try has overtaken the trigger of the old one"
    view = RunStore(coordinator, paths).get(1)
    assert RunStore(coordinator, paths).numbers() == [1]
    assert len(view.submissions) == 1


def test_a_new_try_overtakes_the_trigger_of_the_old_one_before_it_looks_for_the_run(
    application: str, coordinator: Coordinator, paths: JobPaths
) -> None:
    old = deferral(submitting(application), context(ti_id="try-1")).trigger
    new = submitting(application)
    start, killed = new.start_run, []

    def start_while_the_old_one_is_killed(job: Any, request: str) -> Any:
        killed.append(release(coordinator, paths, request, old.claim))
        return start(job, request)

    new.start_run = start_while_the_old_one_is_killed  # type: ignore[method-assign]  # and then does what it did
    deferral(new, context(ti_id="try-2"))

    assert killed == [False]


def test_another_task_is_refused_while_the_run_lives_and_burns_no_retry(application: str) -> None:
    deferral(submitting(application), context())

    with pytest.raises(AirflowFailException, match="already has a live run"):
        submitting(application).execute(context(run_id="manual__2"))


def test_a_job_that_only_storage_knows_is_refused_and_burns_no_retry(
    application: str, config: HaConfig, coordinator: Coordinator, paths: JobPaths
) -> None:
    open_store(config).create(JobKeys(paths.job_id).journal("submission", "1-1-before"), b"{}")

    with pytest.raises(AirflowFailException, match=r"ZooKeeper knows no job 'flights'.*spark-ha cluster rebuild"):
        submitting(application).execute(context())

    assert RunStore(coordinator, paths).numbers() == []


def test_a_lost_driver_is_submitted_again_without_an_airflow_retry_until_it_is_given_up(
    application: str, coordinator: Coordinator, paths: JobPaths
) -> None:
    operator = submitting(application, mode="die", wait_for="finished", ha={"restart_attempts": 2})

    with pytest.raises(AirflowFailException, match=r"ended FAILED: spark-submit: exit status 3"):
        run_task(operator, context())

    view = RunStore(coordinator, paths).get(1)
    assert [submission.submission.attempt for submission in view.submissions] == [1, 2, 3]
    assert view.result is not None
    assert view.result.state.value == "FAILED"


def test_a_retry_after_a_failed_run_fails_with_its_reason_and_starts_nothing(
    application: str, coordinator: Coordinator, paths: JobPaths
) -> None:
    """Airflow lost the task in the moment in which it was to report the end of the run."""
    failing = submitting(application, mode="die", ha={"restart_attempts": 0})
    with pytest.raises(AirflowFailException):
        run_task(failing, context())
    retried = context(ti_id="try-2")
    retried["ti"].try_number, retried["ti"].max_tries = 2, failing.retries

    with pytest.raises(AirflowFailException, match=r"run 1 of job 'flights' has FAILED: .*Clear the task"):
        submitting(application).execute(retried)

    assert RunStore(coordinator, paths).numbers() == [1]


def test_a_clear_after_a_failed_run_submits_a_new_one(
    application: str, coordinator: Coordinator, paths: JobPaths
) -> None:
    failing = submitting(application, mode="die", ha={"restart_attempts": 0})
    with pytest.raises(AirflowFailException):
        run_task(failing, context())

    cleared = context(ti_id="cleared")
    cleared["ti"].try_number, cleared["ti"].max_tries = 2, 1 + (failing.retries or 0)
    again = deferral(submitting(application), cleared)

    assert again.trigger.number == 2
    assert RunStore(coordinator, paths).numbers() == [1, 2]


def test_submit_returns_once_the_leader_of_this_run_says_running(
    application: str, coordinator: Coordinator, paths: JobPaths, config: HaConfig
) -> None:
    with ThreadPoolExecutor(1) as pool:
        task = pool.submit(run_task, submitting(application), context())
        wait_until(lambda: coordinator.find(paths.submission(1, 1)), timeout=20, what="a submission")
        with lead(coordinator, paths, config) as leadership:
            leadership.commit(Create(paths.status, a_status().to_bytes()))
            result, _ = task.result(timeout=30)

    assert result == {"job_id": "flights", "run": 1, "epoch": 1, "state": "RUNNING"}


def test_a_savepoint_is_asked_for_once_and_its_answer_is_the_result(
    coordinator: Coordinator, paths: JobPaths, config: HaConfig
) -> None:
    submit(coordinator, paths)
    operator = SparkHaSavepointOperator(task_id="task", job_id="flights", schedule="hourly", retain="3")
    with ThreadPoolExecutor(1) as pool, lead(coordinator, paths, config) as leadership:
        task = pool.submit(run_task, operator, context())
        wait_until(lambda: operations.list_operations(coordinator, paths), timeout=20, what="the request")
        [asked] = operations.list_operations(coordinator, paths)
        answer = {"savepoint_id": "s1", "path": "/savepoints/s1"}
        operations.complete(leadership, paths, asked, result=answer, clock=SystemClock())
        result, _ = task.result(timeout=30)
        again, resumed_with = run_task(operator, context(ti_id="cleared"))

    assert resumed_with == [], "an answer that is there already is not waited for"
    assert asked.arguments == {"schedule": "hourly", "retain": 3, "retain_days": None, "label": ""}
    assert result == again
    assert result["path"] == "/savepoints/s1"
    assert len(operations.list_operations(coordinator, paths)) == 1


@pytest.mark.parametrize(("days", "asked"), [("1.5", 1.5), ("", None)])
def test_the_age_of_a_schedule_may_come_from_a_template(
    coordinator: Coordinator, paths: JobPaths, days: str, asked: float | None
) -> None:
    submit(coordinator, paths)

    deferral(SparkHaSavepointOperator(task_id="t", job_id="flights", schedule="hourly", retain_days=days), context())

    [operation] = operations.list_operations(coordinator, paths)
    assert operation.arguments == {"schedule": "hourly", "retain": None, "retain_days": asked, "label": ""}


def test_an_age_without_a_schedule_is_refused_before_anything_is_asked(
    coordinator: Coordinator, paths: JobPaths
) -> None:
    submit(coordinator, paths)

    task = SparkHaSavepointOperator(task_id="task", job_id="flights", retain_days="{{ params.days }}")
    task.retain_days = "7"  # as Airflow renders it

    with pytest.raises(AirflowException, match="requires a schedule"):
        deferral(task, context())

    assert operations.list_operations(coordinator, paths) == []


def test_a_failed_savepoint_is_asked_for_again_by_the_retry(
    coordinator: Coordinator, paths: JobPaths, config: HaConfig
) -> None:
    submit(coordinator, paths)
    operator = SparkHaSavepointOperator(task_id="task", job_id="flights")
    first = deferral(operator, context())
    with lead(coordinator, paths, config) as leadership:
        [asked] = operations.list_operations(coordinator, paths)
        operations.fail(leadership, paths, asked, error="no space", clock=SystemClock())
        second = deferral(operator, context(ti_id="try-2"))

    with pytest.raises(AirflowException, match="no space"):
        operator.execute_complete({}, {"status": "failed", "operation": asked.model_dump(), "reason": "no space"})
    assert second.trigger.operation_id == f"{first.trigger.operation_id}-2"


def test_a_checkpoint_is_asked_for_once_and_its_answer_is_the_result(
    coordinator: Coordinator, paths: JobPaths, config: HaConfig
) -> None:
    submit(coordinator, paths)
    operator = SparkHaCheckpointOperator(task_id="task", job_id="flights")
    trigger = deferral(operator, context()).trigger
    answer = {"checkpoint": 7, "path": "jobs/flights/pins/7", "cut": {"rows": 12}, "new": False}
    with lead(coordinator, paths, config) as leadership:
        [asked] = operations.list_operations(coordinator, paths)
        operations.complete(leadership, paths, asked, result=answer, clock=SystemClock())
    result, resumed_with = run_task(operator, context(ti_id="cleared"))

    assert (asked.operation, asked.arguments, asked.operation_id) == (
        OperationKind.CHECKPOINT,
        {},
        trigger.operation_id,
    )
    assert resumed_with == []
    assert result == answer | {"job_id": "flights", "run": 1, "operation_id": trigger.operation_id}


def test_a_job_is_handed_over_only_to_a_standby_driver_that_is_ready(
    coordinator: Coordinator, paths: JobPaths, config: HaConfig
) -> None:
    submit(coordinator, paths)
    operator = SparkHaHandOverOperator(task_id="task", job_id="flights")
    own = Standby(standby_id="s", level=StandbyLevel.SESSION, since=SystemClock().now(), host="h", pid=1)

    with lead(coordinator, paths, config) as leadership:
        with pytest.raises(AirflowFailException, match="no standby driver that is ready"):
            operator.execute(context())
        assert operations.list_operations(coordinator, paths) == []

        coordinator.commit(Create(paths.standbys(1)), Create(paths.standby(1, "s"), own.to_bytes()))
        deferral(operator, context())
        [asked] = operations.list_operations(coordinator, paths)
        operations.complete(leadership, paths, asked, result={}, clock=SystemClock())
    result, _ = run_task(operator, context(ti_id="cleared"))

    assert asked.operation is OperationKind.HAND_OVER
    assert result == {"job_id": "flights", "run": 1, "operation_id": asked.operation_id}


def test_cancel_works_without_a_driver(coordinator: Coordinator, paths: JobPaths) -> None:
    submit(coordinator, paths)

    result, _ = run_task(SparkHaCancelOperator(task_id="task", job_id="flights"), context())

    assert result["run"] == 1
    view = RunStore(coordinator, paths).get(1)
    assert view.result is not None
    assert view.result.state.value == "CANCELED"


@pytest.mark.parametrize(
    ("asked", "kind"),
    [("true", OperationKind.CANCEL_WITH_SAVEPOINT), ("false", OperationKind.CANCEL)],
)
def test_a_cancel_asks_for_a_savepoint_first_when_its_template_says_so(
    coordinator: Coordinator, paths: JobPaths, config: HaConfig, asked: str, kind: OperationKind
) -> None:
    submit(coordinator, paths)
    with lead(coordinator, paths, config):
        operator = SparkHaCancelOperator(task_id="task", job_id="flights", savepoint=asked)
        first, again = deferral(operator, context()), deferral(operator, context(ti_id="try-2"))

    [operation] = operations.list_operations(coordinator, paths)
    assert (operation.operation, operation.state) == (kind, OperationState.REQUESTED)
    assert first.trigger.operation_id == again.trigger.operation_id == operation.operation_id


@pytest.mark.parametrize(
    "operator_class",
    [
        SparkHaStopOperator,
        SparkHaSavepointOperator,
        SparkHaCheckpointOperator,
        SparkHaCancelOperator,
        SparkHaHandOverOperator,
    ],
)
def test_an_unknown_job_fails_for_good_and_nothing_is_created(
    operator_class: Any, coordinator: Coordinator, paths: JobPaths
) -> None:
    with pytest.raises(AirflowFailException, match="flights"):
        operator_class(task_id="task", job_id="flights").execute(context())

    assert coordinator.find(paths.base) is None


def test_a_sensor_waits_for_a_job_that_is_not_there_yet(
    coordinator: Coordinator, paths: JobPaths, config: HaConfig
) -> None:
    sensor = SparkHaLeaderSensor(task_id="task", job_id="flights", poll_interval=0.2)
    with ThreadPoolExecutor(1) as pool:
        task = pool.submit(run_task, sensor, context())
        submit(coordinator, paths)
        coordinator.commit(counter_op(paths.checkpoint_id_counter, None, 3))
        with lead(coordinator, paths, config):
            result, _ = task.result(timeout=30)

    assert (result["run"], result["epoch"]) == (1, 1)


def test_a_sensor_for_a_standby_driver_waits_until_the_leader_counts_a_ready_one(
    coordinator: Coordinator, paths: JobPaths, config: HaConfig
) -> None:
    def count(ready: int) -> None:
        status = a_status().model_copy(update={"standbys": StandbyCount(requested=1, ready=ready)})
        create = coordinator.find(paths.status) is None
        coordinator.commit((Create if create else SetData)(paths.status, status.to_bytes()))

    submit(coordinator, paths)
    sensor = SparkHaLeaderSensor(task_id="task", job_id="flights", standby=True, poll_interval=60)
    with lead(coordinator, paths, config), ThreadPoolExecutor(1) as pool:
        count(0)
        deferred = deferral(sensor, context())
        waiting = pool.submit(asyncio.run, first_event(deferred.trigger))
        count(1)
        event = waiting.result(timeout=30)

    assert (event["status"], event["epoch"]) == ("success", 1)


def test_a_sensor_does_not_defer_for_what_is_there_already(
    coordinator: Coordinator, paths: JobPaths, config: HaConfig
) -> None:
    submit(coordinator, paths)
    sensor = SparkHaLeaderSensor(task_id="task", job_id="flights")
    with lead(coordinator, paths, config):
        result, resumed_with = run_task(sensor, context())

    assert (result["run"], result["epoch"]) == (1, 1)
    assert resumed_with == []


def test_the_task_names_the_log_of_its_driver_and_what_prints_it(
    application: str, config: HaConfig, coordinator: Coordinator, capsys: pytest.CaptureFixture[str]
) -> None:
    deferral(submitting(application), context())

    logged = capsys.readouterr().out
    log = helpers.directory(helpers.context(config, coordinator)) / "driver.log"
    assert f"{socket.gethostname()}:{log}" in logged
    assert "`spark-ha job logs flights --run 1 --attempt 1`" in logged


def test_the_last_lines_of_a_lost_driver_are_in_the_tasks_log(
    application: str, capsys: pytest.CaptureFixture[str]
) -> None:
    operator = submitting(application, mode="die", wait_for="finished", ha={"restart_attempts": 1})

    with pytest.raises(AirflowFailException, match="`spark-ha job logs flights --run 1`"):
        run_task(operator, context())

    logged = capsys.readouterr().out
    for attempt in (1, 2):
        _, _, said = logged.partition(f"The log of attempt {attempt}: ")
        assert "arguments ['--load-spark-defaults'" in said, "what the stand-in prints"
