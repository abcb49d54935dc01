"""The tasks of the idempotency tests: the real operators, which a test can hold at one point of one try.

A try is held while ``<control>/<run id>-<point>-<try number>.hold`` exists; it leaves its process id beside it.
"""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param, get_current_context

from airflow_provider_ha.operators.savepoint import SparkHaSavepointOperator
from airflow_provider_ha.operators.submit import SparkHaSubmitOperator


CONTROL = Path(os.environ["SPARK_HA_TEST_CONTROL"])
SCRIPT = Path(os.environ["SPARK_HA_TEST_SCRIPTS"]) / "ticking.py"


def hold(point: str) -> None:
    """Wait here as long as the test wants this try to."""
    instance = get_current_context()["ti"]
    gate = CONTROL / f"{instance.run_id}-{point}-{instance.try_number}.hold"
    gate.with_suffix(".pid").write_text(str(os.getpid()))
    while gate.exists():
        time.sleep(0.05)
    gate.with_suffix(".passed").touch()


class HeldSubmit(SparkHaSubmitOperator):
    """Submit that can be held around its submission."""

    def start_run(self, job: Any, request: str) -> Any:
        hold("before")
        run = super().start_run(job, request)
        hold("after")
        return run


class HeldSavepoint(SparkHaSavepointOperator):
    """Savepoint that can be held around its request."""

    def ask(self, job: Any, operation_id: str, requested_by: str) -> Any:
        hold("before")
        operation = super().ask(job, operation_id, requested_by)
        hold("after")
        return operation


JOB = {"job_id": Param("ticking", type="string")}

with DAG(
    dag_id="submit_held", schedule=None, catchup=False, params=JOB | {"when_killed": Param("detach", type="string")}
):
    HeldSubmit(
        task_id="submit",
        job_id="{{ params.job_id }}",
        application=str(SCRIPT),
        conf={"spark.sql.shuffle.partitions": "1", "spark.ui.enabled": "false"},
        target={"master": "local[1]"},
        driver_memory="512m",
        wait_for="finished",
        ha={
            "when_killed": "{{ params.when_killed }}",
            # Long enough for a triggerer to be killed and replaced while the loss of a driver waits to be recovered.
            "restart_delay": timedelta(seconds=30),
            "checkpoint_interval": timedelta(seconds=2),
        },
        start_from="fresh",
        start={"accept_verdicts": ["SAFE", "LOSS_POSSIBLE"]},  # its function remembers no numbers of batches
        retries=3,
        retry_delay=timedelta(seconds=1),
    )

with DAG(dag_id="savepoint_held", schedule=None, catchup=False, params=JOB):
    HeldSavepoint(
        task_id="savepoint",
        job_id="{{ params.job_id }}",
        retries=3,
        retry_delay=timedelta(seconds=1),
    )
