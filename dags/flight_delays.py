"""Run the streaming job of ``apps/flight_delays.py`` and keep it running.

``submit`` follows the job to its end: when the driver is lost, it is submitted again from the persisted graph, and the
task goes on waiting without a worker slot. Beside it, two sensors show that the job really came up: it has a leader,
and it has made a checkpoint since.

By default the driver runs on the host of the task, with local executors. ``spark_conn_id`` names a connection of type
``spark`` in place of that; with deploy mode ``cluster`` a standalone cluster runs driver and executors.

End the job with the DAG ``stop_job``; then ``submit`` succeeds.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, Param

from airflow_provider_ha.operators.submit import SparkHaSubmitOperator
from airflow_provider_ha.sensors.checkpoint import SparkHaCheckpointSensor
from airflow_provider_ha.sensors.leader import SparkHaLeaderSensor


DATA = Path(os.environ.get("FLIGHTS_HOME") or Path.home() / "flights")

with DAG(
    dag_id="flight_delays",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    max_active_runs=1,
    # No retries are set: the operators retry by themselves, and a try finds the first request again.
    tags=["spark-ha"],
    params={
        "job_id": Param("flight_delays", type="string", description="Stable id of the job"),
        "input_dir": Param(str(DATA / "input"), type="string", description="Where one CSV file per day arrives"),
        "output_dir": Param(str(DATA / "hourly_delays"), type="string", description="Where the statistics go"),
        "table": Param(str(DATA / "long_delays.sqlite"), type="string", description="SQLite file of the long delays"),
        "airlines": Param(str(DATA / "airlines.csv"), type="string", description="CSV file of the carriers' names"),
        "max_files_per_trigger": Param(10, type="integer", minimum=1, description="Files in one batch at most"),
        "spark_conn_id": Param("", type="string", description="Connection of a Spark cluster; empty: this host"),
        "start_from": Param("latest", type="string", description="latest, fresh, checkpoint-<n> or savepoint-<id>"),
    },
) as dag:
    submit = SparkHaSubmitOperator(
        task_id="submit",
        job_id="{{ params.job_id }}",
        application=str(Path(__file__).parent / "apps" / "flight_delays.py"),
        arguments=[
            "--input={{ params.input_dir }}",
            "--output={{ params.output_dir }}",
            "--table={{ params.table }}",
            "--airlines={{ params.airlines }}",
            "--max-files-per-trigger={{ params.max_files_per_trigger }}",
        ],
        conf={"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"},
        spark_conn_id="{{ params.spark_conn_id }}",
        target={"master": "{{ '' if params.spark_conn_id else 'local[2]' }}"},
        ha={
            "allow_remote_executors": "{{ params.spark_conn_id != '' }}",
            "repeatable": ["long_delays"],  # it writes by key: a batch that comes again changes nothing
            "checkpoint_interval": timedelta(seconds=2),
        },
        driver_memory="1g",
        start_from="{{ params.start_from }}",
        wait_for="finished",
    )
    leader = SparkHaLeaderSensor(task_id="wait_for_leader", job_id="{{ params.job_id }}", timeout=timedelta(minutes=15))
    checkpoint = SparkHaCheckpointSensor(
        task_id="wait_for_checkpoint", job_id="{{ params.job_id }}", timeout=timedelta(minutes=15)
    )
    leader >> checkpoint
