"""The runbook for a lost or damaged job: find the latest checkpoint that can be restored, and restore it.

1. ``select_checkpoint`` verifies newest first; its log shows each rejected candidate with its file and the reason.
2. ``plan`` shows what a restore would do: age, batches to execute again, what the sinks have, and the verdict.
3. ``restore`` starts a new run from exactly what was selected, and succeeds once it runs.
4. ``follow`` follows that run to its end and submits it again when its driver is lost. Beside it, the sensors show a
   leader and the first new checkpoint; ``report`` sums up.

Nothing is changed before step 3, and a restore that is refused ends the DAG run, so no task waits for it. Run it as
often as needed. To restore as another job, give another ``job_id``, and ``arguments`` that name another output.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param, task

from airflow_provider_ha.operators.follow import SparkHaFollowOperator
from airflow_provider_ha.operators.plan_restore import SparkHaPlanRestoreOperator
from airflow_provider_ha.operators.restore import SparkHaRestoreOperator
from airflow_provider_ha.operators.select_checkpoint import SparkHaSelectCheckpointOperator
from airflow_provider_ha.sensors.checkpoint import SparkHaCheckpointSensor
from airflow_provider_ha.sensors.leader import SparkHaLeaderSensor


READ_AGAIN: dict[str, Any] = {"retries": 2, "retry_delay": timedelta(seconds=10)}  # what could not be read

log = logging.getLogger(__name__)

with DAG(
    dag_id="disaster_recovery",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    render_template_as_native_obj=True,  # lists stay lists
    # No retries are set: the operators retry by themselves, and a try finds the first request again.
    tags=["spark-ha"],
    params={
        "source_job": Param("flight_delays", type="string", description="Job to restore from"),
        "job_id": Param("flight_delays", type="string", description="Job to restore as"),
        "start_from": Param(
            "latest", type="string", description="latest, checkpoint-<n>, savepoint-<id> or before <time>"
        ),
        "fallback": Param(
            default=True,
            type="boolean",
            description="Take an older one when what is wanted is known to be bad; else refuse",
        ),
        "output": Param(
            "continue", type="string", enum=["continue", "fresh"], description="For another output directory"
        ),
        "accept_verdicts": Param(
            ["SAFE"], type="array", description="Verdicts to go on with; SAFE loses and repeats nothing"
        ),
        "accept_unverified": Param([], type="array", description="Queries for which unverified facts are accepted"),
        "reset_query_ids": Param([], type="array", description="Queries with a Delta table that get a fresh id"),
        "application": Param(None, type=["null", "string"], description="Another script; empty: as it was"),
        "arguments": Param(None, type=["null", "array"], description="Other arguments; empty: as they were"),
        "if_lost": Param(
            None,
            type=["null", "string"],
            enum=[None, "restart", "recover"],
            description="A run that has lost its driver: end it and restore, or go on with it; empty: refuse",
        ),
        "force": Param(default=False, type="boolean", description="Act although the job belongs to another DAG"),
        "seen_run": Param(
            None, type=["null", "integer"], description="Newest run when this was decided: refuse if there is another"
        ),
        "spark_ha_conn_id": Param("spark_ha_default", type="string", description="Connection of the cluster"),
    },
) as dag:
    cluster: dict[str, Any] = {"spark_ha_conn_id": "{{ params.spark_ha_conn_id }}"}
    select = SparkHaSelectCheckpointOperator(
        task_id="select_checkpoint",
        job_id="{{ params.source_job }}",
        start_from="{{ params.start_from }}",
        fallback="{{ params.fallback }}",
        **cluster,
        **READ_AGAIN,
    )

    request: dict[str, Any] = {
        "job_id": "{{ params.job_id }}",
        "source_job": "{{ params.source_job }}",
        # The restore uses the plan that was shown.
        "start_from": "{{ ti.xcom_pull(task_ids='select_checkpoint')['chosen']['source'] }}",
        "fallback": False,
        "output_mode": "{{ params.output }}",
        "accept_unverified": "{{ params.accept_unverified }}",
        "reset_query_ids": "{{ params.reset_query_ids }}",
        "application": "{{ params.application }}",
        "arguments": "{{ params.arguments }}",
        "start": {
            "accept_verdicts": "{{ params.accept_verdicts }}",
            "if_lost": "{{ params.if_lost }}",
            "force": "{{ params.force }}",
        },
        **cluster,
    }
    plan = SparkHaPlanRestoreOperator(task_id="plan", **request, **READ_AGAIN)
    restore = SparkHaRestoreOperator(task_id="restore", wait_for="running", seen_run="{{ params.seen_run }}", **request)
    follow = SparkHaFollowOperator(
        task_id="follow",
        job_id="{{ params.job_id }}",
        # Named, because a restore that is cleared after its run FAILED makes another one.
        run="{{ ti.xcom_pull(task_ids='restore')['run'] }}",
        **cluster,
    )

    leader = SparkHaLeaderSensor(
        task_id="wait_for_leader", job_id="{{ params.job_id }}", timeout=timedelta(minutes=15), **cluster
    )
    checkpoint = SparkHaCheckpointSensor(
        task_id="wait_for_checkpoint",
        job_id="{{ params.job_id }}",
        newer_than="{{ ti.xcom_pull(task_ids='plan')['latest_number'] }}",
        timeout=timedelta(minutes=15),
        **cluster,
    )

    @task
    def report(selection: Any, planned: Any, led: Any, made: Any) -> None:
        """Say in the log what was restored and that it works."""
        rejected = [candidate for candidate in selection["candidates"] if not candidate["accepted"]]
        log.info("Restored from %s, verdict %s", selection["chosen"]["source"], planned["verdict"])
        for candidate in rejected:
            log.info("Rejected %s: %s: %s", candidate["source"], candidate["file"], candidate["reason"])
        log.info("Run %s is led by epoch %s on %s", led["run"], led["epoch"], led["host"])
        log.info("Its first new checkpoint is number %s", made["checkpoint"])

    select >> plan >> restore >> [follow, leader]
    leader >> checkpoint
    report(select.output, plan.output, leader.output, checkpoint.output)
