"""What the benchmark of failovers runs through Airflow: one submit operator, as a user writes it."""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk import DAG, Param

from airflow_provider_ha.operators.submit import SparkHaSubmitOperator


SCRIPT = Path(os.environ["SPARK_HA_TEST_SCRIPTS"]) / "keyed_count.py"

with DAG(
    dag_id="failover",
    schedule=None,
    catchup=False,
    render_template_as_native_obj=True,
    params={
        "job_id": Param("counted", type="string"),
        "arguments": Param([], type="array"),
        "conf": Param({}, type="object"),
    },
):
    SparkHaSubmitOperator(
        task_id="run",
        job_id="{{ params.job_id }}",
        application=str(SCRIPT),
        arguments="{{ params.arguments }}",
        conf="{{ params.conf }}",  # a template that Airflow renders to a mapping
        target={"master": "local[2]"},
        driver_memory="1g",
        wait_for="finished",
    )
