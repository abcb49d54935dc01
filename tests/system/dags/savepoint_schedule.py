"""What the savepoint tests need besides the DAGs that we ship: a job, a savepoint by hand, and the end of its life."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param

from airflow_provider_ha.operators.cancel import SparkHaCancelOperator
from airflow_provider_ha.operators.checkpoint import SparkHaCheckpointOperator
from airflow_provider_ha.operators.delete_job import SparkHaDeleteJobOperator
from airflow_provider_ha.operators.savepoint import SparkHaSavepointOperator
from airflow_provider_ha.operators.submit import SparkHaSubmitOperator


SCRIPT = Path(os.environ["SPARK_HA_TEST_SCRIPTS"]) / "told.py"
RETRIES = {"retries": 2, "retry_delay": timedelta(seconds=1)}
JOB = {"job_id": Param("told", type="string")}

TOLD = JOB | {
    "report": Param("", type="string"),
    "words": Param("nothing", type="string"),
    "partitions": Param(1, type="integer"),
}


def submitting(**kwargs: Any) -> SparkHaSubmitOperator:
    """Make the task that submits the job."""
    return SparkHaSubmitOperator(
        task_id="submit",
        job_id="{{ params.job_id }}",
        application=str(SCRIPT),
        arguments=["{{ params.report }}", "--run={{ dag_run.run_id }}", "{{ params.words }}"],
        conf={
            "spark.sql.shuffle.partitions": "{{ params.partitions }}",
            "spark.told.words": "{{ params.words }}",
            "spark.ui.enabled": "false",
        },
        target={"master": "local[1]"},
        driver_memory="512m",
        ha={"checkpoint_interval": timedelta(seconds=2)},
        **kwargs,
    )


with DAG(dag_id="submit_told", schedule=None, catchup=False, default_args=RETRIES, params=TOLD):
    submitting(wait_for="finished", start_from="fresh")

with DAG(dag_id="savepoint_by_hand", schedule=None, catchup=False, default_args=RETRIES, params=JOB):
    SparkHaSavepointOperator(task_id="savepoint", job_id="{{ params.job_id }}")

with DAG(dag_id="end_of_life", schedule=None, catchup=False, params=TOLD):
    (
        submitting(wait_for="running")
        >> SparkHaCheckpointOperator(task_id="checkpoint", job_id="{{ params.job_id }}")
        >> SparkHaCancelOperator(task_id="cancel", job_id="{{ params.job_id }}", savepoint=True)
        >> SparkHaDeleteJobOperator(task_id="delete", job_id="{{ params.job_id }}", keep_savepoints=True)
    )
