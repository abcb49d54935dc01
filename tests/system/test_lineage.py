"""OpenLineage in a real Airflow: the DAG of the how-to, the listeners of Airflow and Spark, and a receiver."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.testing.waiting import wait_until
from tests.docs.blocks import blocks_of
from tests.support.lineage_receiver import LISTENER, LineageReceiver, listener_jar, receiving
from tests.system.harness.rest import DagRun
from tests.system.harness.servers import REPOSITORY
from tests.system.small_airflow import PATIENCE, CountedJob, SmallAirflow


pytest.importorskip("airflow.providers.openlineage")
pytestmark = [pytest.mark.system, pytest.mark.spark, pytest.mark.hours, pytest.mark.timeout(900)]

DAG_ID, TASK, JOB_ID = "told_stream", "told_stream.run", "orders"
RESTORED_DAG, RESTORED_TASK = "restored_stream", "restored_stream.restore"
RESTORED = f"""
from airflow.sdk import DAG

from airflow_provider_ha.operators.restore import SparkHaRestoreOperator

with DAG({RESTORED_DAG!r}, schedule=None):
    SparkHaRestoreOperator(task_id="restore", job_id={JOB_ID!r}, wait_for="finished", retries=0)
"""
SCRIPT = REPOSITORY / "tests" / "apps" / "system" / "counting.py"


@pytest.fixture(scope="module")
def receiver() -> Iterator[LineageReceiver]:
    with receiving() as started:
        yield started


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the job writes."""
    return tmp_path_factory.mktemp("orders")


@pytest.fixture(scope="module")
def airflow(
    receiver: LineageReceiver, output: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SmallAirflow]:
    """An Airflow with the DAG of the how-to; the script in it is one of this host, and so is the listener's jar."""
    folder = tmp_path_factory.mktemp("dags")
    page = REPOSITORY / "docs" / "how-to" / "lineage.md"
    text = next(block.text for block in blocks_of(page) if f'DAG("{DAG_ID}"' in block.text)
    here = {
        'application="/opt/jobs/orders.py"': f"application={str(SCRIPT)!r}, arguments=['--output', {str(output)!r}]",
        f'packages=["io.openlineage:openlineage-spark_2.13:{LISTENER}"]': f"jars=[{listener_jar()!r}]",
    }
    for written, instead in here.items():
        assert written in text
        text = text.replace(written, instead)
    (folder / "told_stream.py").write_text(text, encoding="utf-8")
    (folder / "restored_stream.py").write_text(RESTORED, encoding="utf-8")
    told = {
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(receiver.transport),
        "AIRFLOW__OPENLINEAGE__NAMESPACE": "tests",
        "AIRFLOW__OPENLINEAGE__SPARK_INJECT_PARENT_JOB_INFO": "True",
        "AIRFLOW__OPENLINEAGE__SPARK_INJECT_TRANSPORT_INFO": "True",
    }
    servers = SmallAirflow(REPOSITORY / "build" / "test-airflow-lineage", dags=folder, more=told)
    with servers.running(DAG_ID, RESTORED_DAG):
        yield servers


@pytest.fixture(scope="module")
def run(airflow: SmallAirflow, receiver: LineageReceiver) -> DagRun:
    """A run of the DAG, over: its job ran until the driver's listener had sent something, and was stopped."""
    made = airflow.api.trigger(DAG_ID, "told", {})
    with HaClient.open(airflow.config) as client:
        CountedJob.of(airflow, client.coordinator, JOB_ID).wait_until_running()
        wait_until(lambda: of_driver(receiver), timeout=PATIENCE, what="an event of the driver")
        client.job(JOB_ID).request_stop(operation_id="the-end", requested_by="test")
    airflow.api.wait_for_run(made, timeout=PATIENCE)
    wait_until(lambda: receiver.of(TASK, "COMPLETE"), timeout=PATIENCE, what="the end of the task")
    return made


def of_driver(receiver: LineageReceiver) -> list[dict[str, Any]]:
    """Return the events that are not of Airflow's listener."""
    return [each for each in list(receiver.events) if "integration/spark" in each["producer"]]


@pytest.mark.usefixtures("run")
def test_airflow_tells_the_beginning_and_the_end_of_a_submit_with_the_run_of_the_job(
    receiver: LineageReceiver, output: Path
) -> None:
    start, complete = receiver.of(TASK, "START")[0], receiver.of(TASK, "COMPLETE")[-1]

    assert start["run"]["facets"]["sparkHa_run"]["jobId"] == JOB_ID
    assert "run" not in start["run"]["facets"]["sparkHa_run"], "it has none yet"
    known = complete["run"]["facets"]["sparkHa_run"]
    assert (known["cluster"], known["run"], known["attempt"], known["epoch"]) == ("demo", 1, 1, 1)
    assert (known["state"], known["start"]["kind"]) == ("FINISHED", "fresh")
    assert known["checkpoint"] >= 1
    assert complete["job"]["facets"]["sparkHa_job"]["processingType"] == "STREAMING"
    assert [(each["namespace"], each["name"]) for each in complete["outputs"]] == [("file", str(output))]


@pytest.mark.usefixtures("run")
def test_the_events_of_the_driver_name_the_task_of_airflow_as_their_parent(receiver: LineageReceiver) -> None:
    [task_run] = {each["run"]["runId"] for each in receiver.of(TASK)}
    [dag_run] = {each["run"]["runId"] for each in receiver.of(DAG_ID)}

    parents = [each["run"]["facets"]["parent"] for each in of_driver(receiver)]

    own = [parent for parent in parents if parent["job"]["name"] == TASK]
    assert own, parents
    assert {parent["run"]["runId"] for parent in own} == {task_run}
    assert {parent["job"]["namespace"] for parent in own} == {"tests"}
    assert {parent["root"]["run"]["runId"] for parent in parents} == {dag_run}


@pytest.mark.usefixtures("run")
def test_a_restore_that_is_canceled_is_told_as_one_that_failed_with_what_it_started_from(
    airflow: SmallAirflow, receiver: LineageReceiver
) -> None:
    airflow.api.trigger(RESTORED_DAG, "restored", {})
    with HaClient.open(airflow.config) as client:
        job = client.job(JOB_ID)
        CountedJob.of(airflow, client.coordinator, JOB_ID).wait_until_running(epoch=2)
        job.request_cancel(operation_id="canceled", requested_by="test")

    wait_until(lambda: receiver.of(RESTORED_TASK, "FAIL"), timeout=PATIENCE, what="the failure of the task")

    failed = receiver.of(RESTORED_TASK, "FAIL")[-1]["run"]["facets"]
    known = failed["sparkHa_run"]
    assert (known["jobId"], known["run"], known["state"]) == (JOB_ID, 2, "CANCELED")
    assert (known["start"]["kind"], known["start"]["verdict"]) == ("checkpoint", "SAFE")
    assert known["start"]["source"].startswith("checkpoint-")
