"""The operator that moves a job, against a real ZooKeeper; nothing is launched."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.clock import SystemClock, new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.hooks.spark_ha import SparkHaHook
from airflow_provider_ha.jobs.model import JobState, Operation, RunResult
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.operators.move import SparkHaMoveOperator
from tests.integration.airflow_side.task_runner import deferral, resume_task
from tests.support.airflow_exceptions import AirflowFailException
from tests.support.clusters.airflow_helpers import connection_json, context
from tests.support.clusters.cluster_helpers import Cluster, lead_newest
from tests.support.spark import job_to_move
from tests.support.spark.job_to_move import moved_to
from tests.support.specs import changed


pytestmark = pytest.mark.usefixtures("opened", "connections")

JOB = "flights"
DAG = Path(__file__).parents[3] / "dags" / "move_job.py"


@pytest.fixture
def here(config: HaConfig, coordinator: Coordinator, tmp_path: Path) -> Cluster:
    """The old cluster."""
    (tmp_path / "old").mkdir()
    return Cluster(config, coordinator, tmp_path / "old")


@pytest.fixture
def there(config: HaConfig, coordinator: Coordinator, tmp_path: Path) -> Cluster:
    """The new cluster."""
    (tmp_path / "new").mkdir()
    other = HaConfig.model_validate({**config.model_dump(), "cluster_id": f"n-{new_id()[:12]}"})
    return Cluster(other, coordinator, tmp_path / "new")


@pytest.fixture
def connections(here: Cluster, there: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both clusters have a connection; their clients only note what they are asked to launch."""
    opened = {"spark_ha_default": here, "spark_ha_s3": there}
    for name, cluster in opened.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", connection_json(cluster.config))

    def client(hook: SparkHaHook) -> HaClient:
        cluster = opened[hook.spark_ha_conn_id]
        return cluster.open(cluster.coordinator)

    monkeypatch.setattr(SparkHaHook, "get_client", client)


def moving(**kwargs: Any) -> SparkHaMoveOperator:
    return SparkHaMoveOperator(task_id="task", job_id=JOB, to_spark_ha_conn_id="spark_ha_s3", **kwargs)


@pytest.fixture
def running(here: Cluster, output: Path) -> Iterator[Leadership]:
    """A driver that leads the job, which has a savepoint of its last batch."""
    job_to_move.save(here.lost(JOB), "newest", job_to_move.LAST, output)
    leadership = lead_newest(here.config, here.coordinator, here.context(JOB))
    yield leadership
    leadership.release()


def asked(cluster: Cluster) -> list[Operation]:
    return list(operations.list_operations(cluster.coordinator, cluster.paths(JOB)))


def stopped(cluster: Cluster, leadership: Leadership, operation: Operation) -> None:
    """Do what the driver does that is asked to stop."""
    job = cluster.context(JOB)
    operations.complete(leadership, job.paths, operation, result={"checkpoint": 1}, clock=SystemClock())
    result = RunResult(state=JobState.FINISHED, epoch=leadership.epoch, at=SystemClock().now())
    leadership.commit(job.runs.result_op(operation.run, result))
    leadership.release()


def test_a_job_that_is_over_is_moved_and_a_retry_finds_it_moved(here: Cluster, there: Cluster, output: Path) -> None:
    job = job_to_move.over(here, JOB, output)

    first = moving().execute(context())
    again = moving().execute(context(ti_id="try-2"))

    assert (first["state"], first["run"], first["verdict"]) == ("moved", 1, "SAFE")
    assert (again["state"], again["run"], again["move_id"]) == ("moved", 1, first["move_id"])
    assert moved_to(job) == (first["destination"], 1)
    assert len(there.engine.launches()) == 1


def test_a_job_that_runs_is_stopped_before_and_no_worker_waits_for_that(
    here: Cluster, there: Cluster, running: Leadership
) -> None:
    task = moving(stop="True")

    deferred = deferral(task, context())
    [stop] = asked(here)
    stopped(here, running, stop)
    moved, resumed_with = resume_task(task, context(), deferred)

    assert (stop.operation.value, stop.arguments["mode"]) == ("stop", "suspend")
    assert [event["status"] for event in resumed_with] == ["completed"]
    assert (moved["state"], moved["run"], there.attempts(JOB)) == ("moved", 1, [1])


def test_a_job_that_runs_is_not_stopped_unasked(here: Cluster, running: Leadership) -> None:
    with pytest.raises(AirflowFailException, match="has a live run"):
        moving().execute(context())

    assert running.epoch
    assert (asked(here), moved_to(here.context(JOB))) == ([], None)


@pytest.mark.usefixtures("running")
def test_a_job_that_its_target_cannot_take_is_not_stopped(here: Cluster, there: Cluster) -> None:
    there.submitted(JOB)

    with pytest.raises(AirflowFailException, match="already has a live run of the job"):
        moving(stop=True).execute(context())

    assert asked(here) == []


def test_each_run_of_a_job_is_stopped_by_its_own_request(here: Cluster, running: Leadership) -> None:
    """The job was stopped for this task before, and has a new run since."""
    first = deferral(moving(stop=True), context()).trigger
    stopped(here, running, asked(here)[0])
    here.client.job(JOB).submit(changed(here.request(JOB), request_id="another"))

    second = deferral(moving(stop=True), context(ti_id="cleared")).trigger

    assert (first.number, second.number) == (1, 2)
    assert first.operation_id != second.operation_id


def test_a_verdict_that_does_not_exist_is_named_with_those_that_do() -> None:
    task = moving()
    task.accept_verdicts = ["MAYBE"]  # as a template renders it

    with pytest.raises(AirflowFailException, match=r"'MAYBE'.*DUPLICATES_POSSIBLE"):
        task.execute(context())


def test_the_example_moves_a_job_and_follows_it_at_its_new_place(here: Cluster, there: Cluster, output: Path) -> None:
    job_to_move.over(here, JOB, output)
    spec = importlib.util.spec_from_file_location("move_job_dag", DAG)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    params = {key: param.value for key, param in module.dag.params.items()} | {"job_id": JOB}
    move, follow = (module.dag.get_task(name) for name in ("move", "follow"))
    move.render_template_fields({"params": params})

    moved = move.execute(context())

    pulled = type("TaskInstance", (), {"xcom_pull": lambda _, task_ids: {"move": moved}[task_ids]})()
    follow.render_template_fields({"params": params, "ti": pulled})
    assert there.attempts(JOB) == [1]
    assert (follow.job_id, follow.run, follow.spark_ha_conn_id) == (JOB, 1, "spark_ha_s3")
