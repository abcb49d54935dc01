"""The shipped DAG ``alerts`` on a real Airflow: a driver is killed with its supervisor, as the loss of a host would."""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest

from airflow_provider_ha.control.client import HaClient
from airflow_provider_ha.control.job.requests import SubmitRequest
from airflow_provider_ha.jobs.ha_options import HaOptions
from airflow_provider_ha.testing.waiting import wait_until
from tests.system.harness.rest import DagRun
from tests.system.harness.servers import REPOSITORY
from tests.system.small_airflow import PATIENCE, CountedJob, SmallAirflow, kill


pytestmark = [pytest.mark.system, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

JOB_ID = "alerted"


@pytest.fixture(scope="module")
def airflow() -> Iterator[SmallAirflow]:
    """An Airflow with the DAGs that we ship; nothing in it recovers a job."""
    servers = SmallAirflow(REPOSITORY / "build" / "test-airflow-alerts", shipped_dags=True)
    with servers.running("alerts"):
        servers.api.request("PATCH", "/api/v2/dags/recover_jobs", json={"is_paused": True})  # faster than alerts
        yield servers


@pytest.fixture(scope="module")
def client(airflow: SmallAirflow) -> Iterator[HaClient]:
    with HaClient.open(airflow.config) as opened:
        yield opened


@pytest.fixture(scope="module")
def job(airflow: SmallAirflow, client: HaClient) -> Iterator[CountedJob]:
    """A job that no task follows, running."""
    client.job(JOB_ID).submit(
        SubmitRequest(
            job_id=JOB_ID,
            request_id="by-hand",
            application=str(REPOSITORY / "tests" / "apps" / "system" / "told.py"),
            arguments=[str(airflow.home / "report.json")],
            conf={"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1", "spark.told.words": "none"},
            master="local[1]",
            driver_memory="512m",
            options=HaOptions(restart_in_place=False),
        )
    )
    counted = CountedJob.of(airflow, client.coordinator, JOB_ID)
    counted.wait_until_running()
    yield counted
    client.job(JOB_ID).request_cancel(operation_id="the-end", requested_by="test")
    wait_until(lambda: counted.result() and not counted.drivers(), timeout=PATIENCE, what="the job to be over")


def told(airflow: SmallAirflow) -> list[str]:
    """Return what the runs of the DAG have told until now."""
    found = airflow.api.request("GET", "/api/v2/dags/alerts/dagRuns")["dag_runs"]
    over = [DagRun("alerts", each["dag_run_id"]) for each in found if each["state"] == "success"]
    return [text for run in over for text in airflow.api.xcom(run, "tell")]


def lose_host(job: CountedJob) -> None:
    """Kill the driver and what would start it again: its supervisor, before that can report."""
    [driver] = job.drivers()
    for parent in psutil.Process(driver.pid).parents():
        if "airflow_provider_ha.supervisor" in " ".join(parent.cmdline()):
            kill(parent.pid)
    wait_until(lambda: not job.drivers(), timeout=60, what="the driver to die with its supervisor")


def test_a_driver_that_is_lost_with_its_host_is_told_and_so_is_its_recovery(
    airflow: SmallAirflow, client: HaClient, job: CountedJob
) -> None:
    assert told(airflow) == [], "nothing was lost yet"

    lose_host(job)
    wait_until(lambda: any("has no leader" in text for text in told(airflow)), timeout=PATIENCE, what="the alert")
    client.job(JOB_ID).recover(by="the person on call")
    job.wait_until_running(epoch=2)
    wait_until(lambda: any("is led again" in text for text in told(airflow)), timeout=PATIENCE, what="its end")

    lost = next(text for text in told(airflow) if "has no leader" in text)
    assert lost.startswith(f"Spark HA job {JOB_ID} has no leader\nWhy: run 1 has lost its driver, epoch 1")
    assert f"/spark-ha/jobs/{JOB_ID}" in lost
    assert "It had no leader for" in next(text for text in told(airflow) if "is led again" in text)
