"""End a job: suspend it (to go on later), terminate it (drain it and be done) or cancel it (at once).

``suspend`` and ``terminate`` leave a sharp checkpoint; after ``cancel`` a restore reads the sources again from the
latest one, or from the savepoint. The task succeeds only when the run is over; a job whose savepoint fails goes on.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param, task

from airflow_provider_ha.operators.cancel import SparkHaCancelOperator
from airflow_provider_ha.operators.stop import SparkHaStopOperator


with DAG(
    dag_id="stop_job",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    # No retries are set: the operators retry by themselves, and a try finds the first request again.
    tags=["spark-ha"],
    params={
        "job_id": Param("flight_delays", type="string", description="Job to end"),
        "mode": Param("suspend", type="string", enum=["suspend", "terminate", "cancel"]),
        "savepoint": Param(default=False, type="boolean", description="Take a savepoint too; with cancel before it"),
        "force": Param(default=False, type="boolean", description="End it although it belongs to another DAG"),
    },
) as dag:

    @task.branch
    def choose(params: dict[str, Any] | None = None) -> str:
        """Take the way that the mode names."""
        return "cancel" if params and params["mode"] == "cancel" else "stop"

    stop = SparkHaStopOperator(
        task_id="stop",
        job_id="{{ params.job_id }}",
        mode="{{ params.mode }}",
        savepoint="{{ params.savepoint }}",
        force="{{ params.force }}",
        wait_timeout=timedelta(minutes=30),
    )
    cancel = SparkHaCancelOperator(
        task_id="cancel",
        job_id="{{ params.job_id }}",
        savepoint="{{ params.savepoint }}",
        force="{{ params.force }}",
        wait_timeout=timedelta(minutes=30),
    )
    choose() >> [stop, cancel]
