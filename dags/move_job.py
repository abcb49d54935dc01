"""Move a job to the cluster of another connection, and with it to the store where that one works.

1. ``move`` stops the job with a checkpoint when ``stop`` says so, copies application and state, and succeeds once the
   job has its run in the new cluster. Outputs stay where they are, and the old cluster starts the job no more.
2. ``follow`` follows that run in the new cluster to its end, and submits it again when its driver is lost.

A clear of ``move`` goes on from where the move was. Name the new connection in the DAG of the job afterwards.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from airflow_provider_ha.operators.follow import SparkHaFollowOperator
from airflow_provider_ha.operators.move import SparkHaMoveOperator


with DAG(
    dag_id="move_job",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    render_template_as_native_obj=True,  # lists and mappings stay what they are
    # No retries are set: the operators retry by themselves, and a try goes on from where the move was.
    tags=["spark-ha"],
    params={
        "job_id": Param("flight_delays", type="string", description="Job to move"),
        "to": Param("spark_ha_s3", type="string", description="Connection of the cluster that it goes to"),
        "stop": Param(default=False, type="boolean", description="Stop it, with a checkpoint, when it runs"),
        "conf": Param({}, type="object", description="Spark conf that it needs there; an empty value removes a key"),
        "packages": Param(None, type=["null", "array"], description="Other Maven coordinates; empty: as they were"),
        "accept_verdicts": Param(
            ["SAFE"], type="array", description="Verdicts to go on with; SAFE loses and repeats nothing"
        ),
        "force": Param(default=False, type="boolean", description="Move it although it belongs to another DAG"),
    },
) as dag:
    move = SparkHaMoveOperator(
        task_id="move",
        job_id="{{ params.job_id }}",
        to_spark_ha_conn_id="{{ params.to }}",
        stop="{{ params.stop }}",
        conf="{{ params.conf }}",  # type: ignore[arg-type]  # a mapping once it is rendered
        packages="{{ params.packages }}",
        accept_verdicts="{{ params.accept_verdicts }}",
        force="{{ params.force }}",
        wait_timeout=timedelta(minutes=30),
    )
    follow = SparkHaFollowOperator(
        task_id="follow",
        job_id="{{ params.job_id }}",
        run="{{ ti.xcom_pull(task_ids='move')['run'] }}",
        spark_ha_conn_id="{{ params.to }}",
    )
    move >> follow
