"""The DAGs that we ship, unpaused by mistake: what starts by itself does nothing to a job that does not exist."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import ClusterPaths
from tests.support.airflow_exceptions import AirflowFailException, AirflowSkipException
from tests.support.clusters.airflow_helpers import connection_json, context, storage_path


DAGS = Path(__file__).parents[3] / "dags"
BY_THEMSELVES = {"alerts", "recover_jobs", "restore_drill", "scheduled_savepoint"}

pytestmark = pytest.mark.usefixtures("airflow_connection")


def dag_of(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"example_{name}", DAGS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.dag


def first_task(name: str, task_id: str) -> Any:
    """Return a task with its templates rendered, as a run with the DAG's own parameters has it."""
    dag = dag_of(name)
    task = dag.get_task(task_id)
    params = {key: param.value for key, param in dag.params.items()}
    task.render_template_fields({"params": params, "dag_run": type("Run", (), {"run_id": "scheduled__1"})()})
    return task


def left_by(config: HaConfig, coordinator: Coordinator) -> tuple[list[str], list[Path]]:
    """Return the jobs of the cluster, and every file in its storage."""
    paths = ClusterPaths(config.root, config.cluster_id)
    root = storage_path(config)
    jobs = coordinator.children(paths.base) if coordinator.find(paths.base) else []
    return jobs, [path for path in root.rglob("*") if path.is_file()]


def test_only_the_examples_with_a_schedule_start_when_they_are_unpaused() -> None:
    names = {path.stem for path in DAGS.glob("*.py")}

    started = {name for name in names if dag_of(name).schedule is not None}

    assert started == BY_THEMSELVES


@pytest.mark.parametrize(("name", "task_id"), [("scheduled_savepoint", "savepoint"), ("restore_drill", "drill")])
def test_a_scheduled_example_skips_a_job_that_does_not_exist(
    name: str, task_id: str, config: HaConfig, coordinator: Coordinator
) -> None:
    task = first_task(name, task_id)

    with pytest.raises(AirflowSkipException, match="'flight_delays'"):
        task.execute(context(run_id="scheduled__1"))

    assert left_by(config, coordinator) == ([], [])


def test_recovering_a_cluster_without_jobs_touches_none(config: HaConfig, coordinator: Coordinator) -> None:
    done = first_task("recover_jobs", "recover_jobs").execute(context())

    assert done == {}
    jobs, files = left_by(config, coordinator)
    assert "flight_delays" not in jobs
    assert files == []


@pytest.mark.parametrize(
    ("name", "task_id"),
    [("stop_job", "stop"), ("stop_job", "cancel"), ("disaster_recovery", "select_checkpoint"), ("move_job", "move")],
)
def test_an_example_that_somebody_triggers_refuses_a_job_that_does_not_exist(
    name: str, task_id: str, config: HaConfig, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_HA_S3", connection_json(config))
    with pytest.raises(AirflowFailException, match="'flight_delays'"):
        first_task(name, task_id).execute(context())

    assert left_by(config, coordinator) == ([], [])
