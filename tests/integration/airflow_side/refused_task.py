"""Tasks in Airflow's real task runner, each with the log that a worker's task process has: lines of JSON.

``python -m tests.integration.airflow_side.refused_task CASE...``. Each case has its own process, forked when Airflow
is imported. Only the connection to Airflow's supervisor is a stand-in: it keeps what the runner reports. The last line
of a case says which message and which state that was.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from tests.support.clusters.airflow_helpers import use_own_airflow_home


use_own_airflow_home()

import structlog  # noqa: E402  # after Airflow's home
from airflow.sdk import DAG  # noqa: E402
from airflow.sdk.api.datamodels._generated import DagRun, TIRunContext  # noqa: E402
from airflow.sdk.execution_time import task_runner  # noqa: E402
from airflow.sdk.log import configure_logging, reset_logging  # noqa: E402

from airflow_provider_ha.airflow_side.compat import AIRFLOW_V_3_1_PLUS  # noqa: E402
from airflow_provider_ha.operators._base import SparkHaBaseOperator, airflow_errors  # noqa: E402
from airflow_provider_ha.operators.recover_jobs import SparkHaRecoverJobsOperator  # noqa: E402
from airflow_provider_ha.operators.submit import SparkHaSubmitOperator  # noqa: E402
from airflow_provider_ha.sensors.leader import SparkHaLeaderSensor  # noqa: E402
from tests.support.airflow_exceptions import AirflowException  # noqa: E402


NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


class Broken(SparkHaBaseOperator):
    """Fails by a mistake of the package."""

    def execute(self, context: Any) -> None:
        """Meet something that is not expected."""
        with airflow_errors():
            raise ZeroDivisionError("a mistake")


class BrokenInside(SparkHaBaseOperator):
    """Fails by an error of Airflow's kind that this package did not raise: this module is not part of it."""

    def execute(self, context: Any) -> None:
        """Meet an error of another module."""
        raise AirflowException("inside")


def task(case: str) -> Any:
    """Return the operator of a case."""
    if case == "submit":
        task = SparkHaSubmitOperator(task_id="t", job_id="j", application="/nowhere.py", retries=3)
        task.wait_for = "nonsense"  # as a template renders: a word that is given so is refused at the import
        return task
    if case == "recover":
        return SparkHaRecoverJobsOperator(task_id="t", retries=3)
    if case == "sensor":
        return SparkHaLeaderSensor(task_id="t", job_id="j", retries=3)
    return {"broken": Broken, "inside": BrokenInside}[case](task_id="t", job_id="j", retries=3)


def main(cases: list[str]) -> None:
    """Run the cases, one after the other."""
    for case in cases:
        if child := os.fork():
            os.waitpid(child, 0)
        else:
            run(case)
            return


def run(case: str) -> None:
    """Run a case."""
    os.environ["AIRFLOW_CONN_SPARK_HA_DEFAULT"] = '{"conn_type": "spark_ha", "host": "127.0.0.1:1"}'  # no storage root
    reset_logging()  # type: ignore[no-untyped-call]  # Airflow's own has no types
    as_json = {"json_output": True} if AIRFLOW_V_3_1_PLUS else {"enable_pretty_log": False}
    configure_logging(**as_json, output=sys.stdout.buffer, sending_to_supervisor=True)
    sent: list[Any] = []

    def keep(msg: Any, **_: Any) -> None:
        sent.append(msg)

    task_runner.SUPERVISOR_COMMS = SimpleNamespace(send=keep, send_request=keep)  # type: ignore[assignment]
    with DAG("refusals", schedule=None):
        operator = task(case)
    facts = {"dag_id": "refusals", "run_id": "r", "run_after": NOW, "run_type": "manual", "state": "running"}
    facts |= dict.fromkeys(("logical_date", "data_interval_start", "data_interval_end", "start_date", "end_date"), NOW)
    facts |= {"consumed_asset_events": [], "partition_key": None}
    # A release refuses what it does not know.
    dag_run = DagRun.model_validate({name: facts[name] for name in DagRun.model_fields if name in facts})
    instance = task_runner.RuntimeTaskInstance.model_construct(
        id=uuid4(),
        task_id="t",
        dag_id="refusals",
        run_id="r",
        try_number=1,
        dag_version_id=uuid4(),
        task=operator,
        start_date=NOW,
        bundle_instance=SimpleNamespace(name="b", version=None),  # type: ignore[arg-type]  # only its name is read
    )
    instance._ti_context_from_server = TIRunContext(dag_run=dag_run, max_tries=3, should_retry=True)
    log = structlog.get_logger(logger_name="task")
    log.info("begin")  # the logger exists, and keeps its processors, before the operator executes
    state, message, _ = task_runner.run(instance, instance.get_template_context(), log)
    print(json.dumps({"state": state.value, "message": type(message).__name__}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
