"""The runbook DAG: what depends on what, and what its templates render to."""

from __future__ import annotations

from typing import Any

from tests.support import shipped_dags


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
