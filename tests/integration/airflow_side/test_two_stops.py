"""Tasks that stop one job at the same time: real ZooKeeper; the driver is a leader that ends the run as drivers do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.jobs.model import JobState, RunEnd, RunResult
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.operators.cancel import SparkHaCancelOperator
from airflow_provider_ha.operators.stop import SparkHaStopOperator
from tests.integration.airflow_side.task_runner import deferral, resume_task
from tests.support.airflow_exceptions import AirflowFailException
from tests.support.clusters.airflow_helpers import context
from tests.support.clusters.cluster_helpers import Cluster, lead_newest


pytestmark = pytest.mark.usefixtures("airflow_connection", "opened")


def test_each_task_that_the_stop_fulfils_succeeds_with_one_result_and_another_one_says_what_ended_the_run(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path
) -> None:
    job = Cluster(config, coordinator, tmp_path).submitted("flights")
    leadership = lead_newest(config, coordinator, job)
    task: dict[str, Any] = {"task_id": "task", "job_id": "flights"}
    tasks = [
        (each, context(run_id=f"manual__{number}"))
        for number, each in enumerate(
            [
                SparkHaStopOperator(**task, savepoint=True),
                SparkHaStopOperator(**task, savepoint=True),
                SparkHaStopOperator(**task),
                SparkHaStopOperator(**task, mode="terminate"),
                SparkHaCancelOperator(**task),
            ]
        )
    ]
    waiting = [(*each, deferral(*each)) for each in tasks]

    first = next(iter(operations.list_operations(coordinator, job.paths)))
    end = RunEnd.of(first, {"checkpoint": 7, "savepoint_id": "s1", "path": "savepoints/s1"})
    at = SystemClock().now()
    result = RunResult(state=JobState.FINISHED, epoch=leadership.epoch, checkpoint=7, end=end, at=at)
    leadership.commit(job.runs.result_op(1, result), *operations.ending_ops(coordinator, job.paths, 1, result))
    leadership.release()

    results = [resume_task(*each)[0] for each in waiting[:3]]
    assert [(each["checkpoint"], each["savepoint_id"]) for each in results] == [(7, "s1")] * 3
    for refused, missing in zip(waiting[3:], ("not drained", "not cancelled"), strict=True):
        with pytest.raises(AirflowFailException, match=f"was suspended .checkpoint 7. by operation .*{missing}"):
            resume_task(*refused)
