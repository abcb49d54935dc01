"""What the savepoint tests need besides the DAGs that we ship: a job to take savepoints of, and one made by hand."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, Param

from airflow_provider_ha.operators.savepoint import SparkHaSavepointOperator
from airflow_provider_ha.operators.submit import SparkHaSubmitOperator


SCRIPT = Path(os.environ["SPARK_HA_TEST_SCRIPTS"]) / "told.py"
RETRIES = {"retries": 2, "retry_delay": timedelta(seconds=1)}
JOB = {"job_id": Param("told", type="string")}

with DAG(
    dag_id="submit_told",
    schedule=None,
    catchup=False,
    default_args=RETRIES,
    params=JOB
    | {
        "report": Param("", type="string"),
        "words": Param("nothing", type="string"),
        "partitions": Param(1, type="integer"),
    },
):
    SparkHaSubmitOperator(
        task_id="submit",
        job_id="{{ params.job_id }}",
        application=str(SCRIPT),
        arguments=["{{ params.report }}", "--run={{ dag_run.run_id }}", "{{ params.words }}"],
        conf={
            "spark.sql.shuffle.partitions": "{{ params.partitions }}",
            "spark.told.words": "{{ params.words }}",
            "spark.ui.enabled": "false",
        },
        master="local[1]",
        driver_memory="512m",
        wait_for="finished",
        checkpoint_interval=timedelta(seconds=2),
        start_from="fresh",
        poll_interval=1.0,
    )

with DAG(dag_id="savepoint_by_hand", schedule=None, catchup=False, default_args=RETRIES, params=JOB):
    SparkHaSavepointOperator(task_id="savepoint", job_id="{{ params.job_id }}", poll_interval=1.0)
