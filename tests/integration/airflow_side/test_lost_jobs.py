"""Tasks of a new DAG run meet a job that has lost its driver: real ZooKeeper, real processes, a stand-in for Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.airflow_side.compat import AIRFLOW_V_3_3_PLUS
from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.coordination.znode_records import read_record
from airflow_provider_ha.jobs.model import JobState, OperationKind
from airflow_provider_ha.jobs.observe import read_status
from airflow_provider_ha.jobs.operations import operations, stop
from airflow_provider_ha.jobs.runs.watchers import WatcherClaim, release
from airflow_provider_ha.operators.restore import SparkHaRestoreOperator
from airflow_provider_ha.operators.stop import SparkHaStopOperator
from airflow_provider_ha.operators.submit import SparkHaSubmitOperator
from airflow_provider_ha.testing.waiting import wait_until
from airflow_provider_ha.triggers._kill import end_job
from tests.integration.airflow_side.task_runner import deferral, resume_task, run_task, submit_stand_in
from tests.support.airflow_exceptions import AirflowFailException
from tests.support.clusters import submit_helpers as helpers
from tests.support.clusters.airflow_helpers import context
from tests.support.clusters.cluster_helpers import Cluster, lead_newest
from tests.support.clusters.lost_jobs import NUMBER, lose


pytestmark = pytest.mark.usefixtures("airflow_connection", "opened")
Submitting = Callable[..., SparkHaSubmitOperator]


@pytest.fixture
def submitting(
    tmp_path: Path, config: HaConfig, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Submitting]:
    """Makes the task of a DAG whose driver ends at once; every process of it is gone afterwards."""
    monkeypatch.setenv("SPARK_HOME", str(helpers.stand_in_spark(tmp_path / "spark")))
    application = str(helpers.script(tmp_path))

    def make(**kwargs: Any) -> SparkHaSubmitOperator:
        return submit_stand_in(
            application, mode="die", ha={"restart_in_place": False, **kwargs.pop("ha", {})}, **kwargs
        )

    yield make
    helpers.kill_all(helpers.context(config, coordinator))


def lost(submitting: Submitting, coordinator: Coordinator, paths: JobPaths) -> Any:
    """Submit a job whose driver ends, in a task that does nothing after that; return what the task waits with."""
    first = deferral(submitting(), context(run_id="manual__1"))
    wait_until(lambda: read_status(coordinator, paths).state is JobState.LOST, timeout=60, what="the loss")
    return first.trigger


def attempts(coordinator: Coordinator, paths: JobPaths) -> tuple[int, list[int]]:
    """Return the newest run, and its submissions."""
    view = read_status(coordinator, paths).run
    assert view is not None
    return view.run.number, [each.submission.attempt for each in view.submissions]


@pytest.mark.skipif(not AIRFLOW_V_3_3_PLUS, reason="before Airflow 3.3 a waiting task does not hear that it is killed")
def test_a_new_dag_run_of_the_same_graph_recovers_the_lost_run_and_is_its_second_watcher(
    submitting: Submitting, coordinator: Coordinator, paths: JobPaths
) -> None:
    first = lost(submitting, coordinator, paths)

    second = deferral(submitting(ha={"when_killed": "cancel"}), context(run_id="manual__2")).trigger

    assert attempts(coordinator, paths) == (1, [1, 2])
    assert (second.number, second.when_killed) == (1, "cancel")
    claims = {}
    for trigger in (first, second):
        found = read_record(coordinator, paths.watcher(trigger.watcher_id), WatcherClaim)
        assert found is not None
        claims[trigger.watcher_id] = (found[0].when_killed.value, found[1] == trigger.claim, found[0].released)
    assert claims == {first.watcher_id: ("detach", True, False), second.watcher_id: ("cancel", True, False)}


def test_a_retry_of_the_second_watcher_attaches_to_the_same_run(
    submitting: Submitting, coordinator: Coordinator, paths: JobPaths
) -> None:
    lost(submitting, coordinator, paths)
    first = deferral(submitting(), context(run_id="manual__2", ti_id="try-1")).trigger

    again = deferral(submitting(), context(run_id="manual__2", ti_id="try-2")).trigger

    assert (first.number, again.number) == (1, 1)
    assert again.claim > first.claim
    assert attempts(coordinator, paths)[0] == 1


@pytest.mark.skipif(not AIRFLOW_V_3_3_PLUS, reason="before Airflow 3.3 a waiting task does not hear that it is killed")
def test_when_the_second_watcher_is_killed_its_own_claim_is_given_up_and_no_other(
    submitting: Submitting, coordinator: Coordinator, paths: JobPaths, config: HaConfig
) -> None:
    first = lost(submitting, coordinator, paths)
    second = deferral(submitting(ha={"when_killed": "cancel"}), context(run_id="manual__2")).trigger

    with HaClient.open(config) as client:
        ended = [end_job(client, second), end_job(client, second)]

    assert ended == [True, False], "once per claim"
    asked = operations.list_operations(coordinator, paths)
    assert [(each.operation, each.requested_by) for each in asked] == [(OperationKind.CANCEL, second.watcher_id)]
    assert release(coordinator, paths, first.watcher_id, first.claim), "the first watcher still had its own"


def test_two_dag_runs_that_recover_one_lost_run_at_one_time_start_one_driver_and_both_watch(
    submitting: Submitting, coordinator: Coordinator, paths: JobPaths
) -> None:
    lost(submitting, coordinator, paths)
    ready = threading.Barrier(2)

    def start(run_id: str) -> int | str:
        operator, task = submitting(), context(run_id=run_id)
        ready.wait()
        try:
            return int(deferral(operator, task).trigger.number)
        except AirflowFailException as error:  # it came when the other one had recovered the run
            return str(error)

    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(start, ["manual__2", "manual__3"]))

    number, submissions = attempts(coordinator, paths)
    assert 1 in outcomes
    assert all(outcome == 1 or "already has a live run, number 1" in str(outcome) for outcome in outcomes)
    assert number == 1
    assert submissions[:2] == [1, 2]
    assert len(submissions) <= len([outcome for outcome in outcomes if outcome == 1]) + 1


def test_another_graph_is_refused_for_good_with_both_choices_and_leaves_no_watcher(
    submitting: Submitting, coordinator: Coordinator, paths: JobPaths
) -> None:
    lost(submitting, coordinator, paths)
    watchers = coordinator.children(paths.watchers)

    with pytest.raises(AirflowFailException, match=r'if_lost="recover".*if_lost="restart"') as caught:
        submitting(arguments=["--new"]).execute(context(run_id="manual__2"))

    assert "differs from it in arguments" in str(caught.value)
    assert "spark-ha job stop flights" in str(caught.value)
    assert coordinator.children(paths.watchers) == watchers
    assert attempts(coordinator, paths) == (1, [1])


@pytest.mark.parametrize(("choice", "made"), [("recover", (1, [1, 2])), ("restart", (2, [1]))])
def test_another_graph_recovers_the_old_one_or_takes_its_place(
    submitting: Submitting, coordinator: Coordinator, paths: JobPaths, choice: str, made: tuple[int, list[int]]
) -> None:
    lost(submitting, coordinator, paths)

    trigger = deferral(submitting(arguments=["--new"], start={"if_lost": choice}), context(run_id="manual__2")).trigger

    assert trigger.number == made[0]
    assert attempts(coordinator, paths) == made


def test_an_unknown_choice_fails_for_good_before_anything_is_made(
    submitting: Submitting, coordinator: Coordinator, paths: JobPaths
) -> None:
    task = submitting()
    task.start = {"if_lost": "wait"}  # as a template renders: a word that is given so is refused at the import

    with pytest.raises(AirflowFailException, match=r"if_lost='wait' is unknown\. Choose from 'recover' or 'restart'"):
        task.execute(context())

    assert coordinator.find(paths.base) is None


def test_a_restore_of_a_lost_job_is_refused_for_good_with_both_choices(
    submitting: Submitting, coordinator: Coordinator, paths: JobPaths
) -> None:
    lost(submitting, coordinator, paths)

    with pytest.raises(AirflowFailException, match='if_lost="restart"'):
        SparkHaRestoreOperator(task_id="task", job_id="flights").execute(context(run_id="manual__2"))

    assert attempts(coordinator, paths) == (1, [1])


def test_a_stop_whose_driver_is_lost_before_it_answers_ends_the_job_without_it(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stop, "LOST_AFTER", 0.5)
    cluster = Cluster(config, coordinator, tmp_path)
    job = cluster.submitted("flights")
    leadership = lead_newest(config, coordinator, job)
    stopping = SparkHaStopOperator(task_id="task", job_id="flights")
    waiting = deferral(stopping, context())

    leadership.release()
    result, resumed_with = resume_task(stopping, context(), waiting)

    assert [event["status"] for event in resumed_with] == ["lost"]
    assert (result["run"], result["checkpoint"]) == (1, None)
    assert len(operations.list_operations(coordinator, job.paths)) == 1


def test_a_stop_of_a_lost_job_succeeds_at_once_with_its_newest_checkpoint(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path
) -> None:
    job = lose(Cluster(config, coordinator, tmp_path))

    result, resumed_with = run_task(SparkHaStopOperator(task_id="task", job_id="flights"), context())

    assert resumed_with == [], "what is over is not waited for"
    assert (result["run"], result["checkpoint"], result["path"]) == (1, NUMBER, job.keys.pin(NUMBER, 1))
    assert job.snapshot().state is JobState.FINISHED
