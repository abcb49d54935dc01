"""Take a savepoint of a running job every hour, and keep the newest three of this schedule, for a week at most.

The job does not pause. A savepoint is a copy with a manifest, verified before the task succeeds; those taken by
hand or by another schedule are never deleted here.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from airflow.sdk import DAG, Param

from airflow_provider_ha.operators.savepoint import SparkHaSavepointOperator


with DAG(
    dag_id="scheduled_savepoint",
    doc_md=__doc__,
    schedule="0 * * * *",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    # No retries are set: the operators retry by themselves, and a try finds the first request again.
    tags=["spark-ha"],
    params={
        "job_id": Param("flight_delays", type="string", description="Job to take a savepoint of"),
        "schedule": Param("hourly", type="string", description="Name that savepoints of this schedule bear"),
        "retain": Param(3, type="integer", minimum=1, description="How many of them are kept"),
        "retain_days": Param(
            7, type=["number", "null"], exclusiveMinimum=0, description="Days they are kept; the newest one stays"
        ),
    },
) as dag:
    SparkHaSavepointOperator(
        task_id="savepoint",
        job_id="{{ params.job_id }}",
        schedule="{{ params.schedule }}",
        retain="{{ params.retain }}",
        retain_days="{{ params.retain_days or '' }}",
        savepoint_label="{{ dag_run.run_id }}",
        wait_timeout=timedelta(minutes=30),
        skip_unknown_job=True,  # until the job is submitted for the first time
    )
