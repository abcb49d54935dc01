"""Rehearse the restore of a job every week: a savepoint that was never restored is a hope, not a backup.

The newest savepoint is copied, verified, loaded by Spark and started with the job's own application, with no sink, on
the worker. The job does not notice. The task fails when that savepoint cannot be restored, is older than ``max_age``
hours, or when the rehearsal took longer than ``max_duration`` minutes. ``spark-ha drill list`` shows all of them.
"""

from __future__ import annotations

from datetime import datetime, timezone

from airflow.sdk import DAG, Param

from airflow_provider_ha.operators.restore_drill import SparkHaRestoreDrillOperator


with DAG(
    dag_id="restore_drill",
    doc_md=__doc__,
    schedule="0 4 * * 0",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    # The operator retries twice by itself, for a Spark that gave no answer. A drill that failed is not repeated.
    tags=["spark-ha"],
    params={
        "job_id": Param("flight_delays", type="string", description="Job whose restore is rehearsed"),
        "start_from": Param(
            "savepoint", type="string", description="savepoint (the newest), latest, checkpoint-<n>, ..."
        ),
        "max_age": Param(
            24, type=["null", "number"], exclusiveMinimum=0, description="Hours; older fails (RPO); empty: any age"
        ),
        "max_duration": Param(
            30, type=["null", "number"], exclusiveMinimum=0, description="Minutes; longer fails (RTO); empty: any time"
        ),
        "start": Param(
            default=True, type="boolean", description="Start the job's application; else only load its state"
        ),
    },
) as dag:
    SparkHaRestoreDrillOperator(
        task_id="drill",
        job_id="{{ params.job_id }}",
        start_from="{{ params.start_from }}",
        max_age="{{ params.max_age * 3600 if params.max_age else '' }}",
        max_duration="{{ params.max_duration * 60 if params.max_duration else '' }}",
        start="{{ params.start }}",
        skip_unknown_job=True,  # until the job is submitted for the first time
    )
