"""Shipped DAGs: imported, unpaused by mistake, and rendered."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import ClusterPaths
from tests.support import shipped_dags
from tests.support.airflow_exceptions import AirflowFailException, AirflowSkipException
from tests.support.clusters.airflow_helpers import connection_json, context, storage_path
from tests.support.shipped_dags import dag_of


DAGS = Path(__file__).parents[3] / "dags"
PROGRAM = """
import json, sys
from airflow_provider_ha.airflow_side.compat import AIRFLOW_V_3_2_PLUS
if AIRFLOW_V_3_2_PLUS:
    from airflow.dag_processing.dagbag import DagBag
else:
    from airflow.models.dagbag import DagBag
bag = DagBag(sys.argv[1])
heavy = [name for name in ("kazoo", "boto3", "botocore", "pyspark") if name in sys.modules]
dags = {name: sorted(dag.task_ids) for name, dag in bag.dags.items()}
print(json.dumps({"dags": dags, "errors": bag.import_errors, "heavy": heavy}))
"""


@pytest.mark.airflow
def test_every_dag_is_imported_without_an_error_and_without_kazoo_boto3_or_pyspark(tmp_path: Path) -> None:
    environment = os.environ | {"AIRFLOW_HOME": str(tmp_path), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(DAGS)], capture_output=True, text=True, check=True, env=environment
    )

    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert found["errors"] == {}
    assert found["heavy"] == []
    assert set(found["dags"]) == {
        "alerts",
        "flight_delays",
        "scheduled_savepoint",
        "stop_job",
        "disaster_recovery",
        "move_job",
        "recover_jobs",
        "restore_drill",
    }


BY_THEMSELVES = {"alerts", "recover_jobs", "restore_drill", "scheduled_savepoint"}


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


@pytest.mark.usefixtures("airflow_connection")
def test_only_the_examples_with_a_schedule_start_when_they_are_unpaused() -> None:
    names = {path.stem for path in DAGS.glob("*.py")}

    started = {name for name in names if dag_of(name).schedule is not None}

    assert started == BY_THEMSELVES


@pytest.mark.usefixtures("airflow_connection")
@pytest.mark.parametrize(("name", "task_id"), [("scheduled_savepoint", "savepoint"), ("restore_drill", "drill")])
def test_a_scheduled_example_skips_a_job_that_does_not_exist(
    name: str, task_id: str, config: HaConfig, coordinator: Coordinator
) -> None:
    task = first_task(name, task_id)

    with pytest.raises(AirflowSkipException, match="'flight_delays'"):
        task.execute(context(run_id="scheduled__1"))

    assert left_by(config, coordinator) == ([], [])


@pytest.mark.usefixtures("airflow_connection")
def test_recovering_a_cluster_without_jobs_touches_none(config: HaConfig, coordinator: Coordinator) -> None:
    done = first_task("recover_jobs", "recover_jobs").execute(context())

    assert done == {}
    jobs, files = left_by(config, coordinator)
    assert "flight_delays" not in jobs
    assert files == []


@pytest.mark.usefixtures("airflow_connection")
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


RESTORED = {"follow", "wait_for_leader", "wait_for_checkpoint", "report"}

# What the tasks before the others return.
RETURNED = {
    "restore": {"run": 3},
    "plan": {"latest_number": 41},
    "select_checkpoint": {"chosen": {"source": "checkpoint-41"}},
}


def rendered(task_id: str) -> Any:
    return shipped_dags.task_of("disaster_recovery", task_id, {"job_id": "copy"}, **RETURNED)


def test_nothing_waits_for_a_restore_that_is_refused() -> None:
    dag = rendered("restore").dag
    after = {task.task_id: task for task in dag.get_task("restore").get_flat_relatives(upstream=False)}

    assert set(after) == RESTORED
    assert {task.trigger_rule.value for task in after.values()} == {"all_success"}
    assert set(dag.task_ids) - set(after) == {"select_checkpoint", "plan", "restore"}


def test_a_restore_succeeds_while_its_run_lives_and_somebody_follows_just_that_run() -> None:
    follow = rendered("follow")

    assert rendered("restore").wait_for == "running"
    assert (follow.job_id, follow.run) == ("copy", 3)


def test_only_a_checkpoint_above_all_that_the_job_had_passes() -> None:
    sensor = rendered("wait_for_checkpoint")

    assert (sensor.job_id, sensor.newer_than) == ("copy", 41)
