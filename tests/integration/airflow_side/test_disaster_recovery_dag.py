"""The runbook DAG: what depends on what, and what its templates render to."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest


FILE = Path(__file__).parents[3] / "dags" / "disaster_recovery.py"
RESTORED = {"follow", "wait_for_leader", "wait_for_checkpoint", "report"}


@pytest.fixture(scope="module")
def dag() -> Any:
    spec = importlib.util.spec_from_file_location("disaster_recovery_dag", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.dag


class TaskInstance:
    """What a template asks."""

    xcoms = {
        "restore": {"run": 3},
        "plan": {"latest_number": 41},
        "select_checkpoint": {"chosen": {"source": "checkpoint-41"}},
    }

    def xcom_pull(self, *, task_ids: str) -> Any:
        return self.xcoms[task_ids]


def rendered(dag: Any, task_id: str) -> Any:
    params = {name: param.value for name, param in dag.params.items()} | {"job_id": "copy"}
    task = dag.get_task(task_id)
    task.render_template_fields({"params": params, "ti": TaskInstance()})
    return task


def test_nothing_waits_for_a_restore_that_is_refused(dag: Any) -> None:
    after = {task.task_id: task for task in dag.get_task("restore").get_flat_relatives(upstream=False)}

    assert set(after) == RESTORED
    assert {task.trigger_rule.value for task in after.values()} == {"all_success"}
    assert set(dag.task_ids) - set(after) == {"select_checkpoint", "plan", "restore"}


def test_a_restore_succeeds_while_its_run_lives_and_somebody_follows_just_that_run(dag: Any) -> None:
    follow = rendered(dag, "follow")

    assert rendered(dag, "restore").wait_for == "running"
    assert (follow.job_id, follow.run) == ("copy", 3)


def test_only_a_checkpoint_above_all_that_the_job_had_passes(dag: Any) -> None:
    sensor = rendered(dag, "wait_for_checkpoint")

    assert (sensor.job_id, sensor.newer_than) == ("copy", 41)
