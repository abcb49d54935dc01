"""Recover the jobs of a cluster: whenever one of them has no leader, submit it again from its persisted graph.

For jobs that no task follows any more: the task was cleared, its DAG was removed, its whole Airflow is gone. Acts for
every job of the cluster, however many events came. Several Airflow deployments may run this DAG on one cluster: exactly
one recovers, the others are skipped. A job that is in quarantine, or has used up its attempts, fails the task and needs
a person.

Triggered by hand, or from the page Spark HA, with a ``job_id``, it recovers that job alone, at once.
"""

from __future__ import annotations

from airflow.sdk import DAG, Asset, AssetWatcher, Param

from airflow_provider_ha.operators.recover_jobs import SparkHaRecoverJobsOperator
from airflow_provider_ha.triggers.cluster import SparkHaClusterTrigger


without_leader = Asset(
    name="spark_ha_jobs_without_leader",
    watchers=[AssetWatcher(name="spark_ha_cluster", trigger=SparkHaClusterTrigger(emit=["no_leader"]))],
)

with DAG(
    dag_id="recover_jobs",
    doc_md=__doc__,
    schedule=[without_leader],
    catchup=False,
    max_active_runs=1,
    # The retries of the operator repeat a request whose answer is unknown. The trigger repeats its event as long as
    # a job has no leader.
    tags=["spark-ha"],
    params={
        "job_id": Param("", type="string", description="Recover this job alone; empty: every lost job"),
        "seen_run": Param(
            None, type=["null", "integer"], description="With job_id: newest run when this was decided; refuse another"
        ),
        "spark_ha_conn_id": Param("spark_ha_default", type="string", description="Connection of the cluster"),
    },
) as dag:
    SparkHaRecoverJobsOperator(
        task_id="recover_jobs",
        job_id="{{ params.job_id }}",
        seen_run="{{ params.seen_run }}",
        spark_ha_conn_id="{{ params.spark_ha_conn_id }}",
    )
