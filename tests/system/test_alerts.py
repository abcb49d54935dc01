"""The shipped DAG ``alerts`` on a real Airflow: a driver is killed with its supervisor, as the loss of a host would.

Airflow sends metrics to StatsD: the triggerer reports the job to it, which no task follows.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_provider_ha.control.client import HaClient
from airflow_provider_ha.control.job.requests import SubmitRequest
from airflow_provider_ha.jobs import metrics
from airflow_provider_ha.jobs.metrics import Metric
from airflow_provider_ha.jobs.options.ha_options import HaOptions
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.airflow_stats import environment
from tests.support.receivers import Received, statsd
from tests.system.harness.servers import REPOSITORY
from tests.system.small_airflow import PATIENCE, CountedJob, SmallAirflow, lose_host, told


pytestmark = [pytest.mark.system, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

JOB_ID = "alerted"


@pytest.fixture(scope="module")
def receiver() -> Iterator[Received]:
    with statsd() as received:
        yield received


@pytest.fixture(scope="module")
def airflow(receiver: Received) -> Iterator[SmallAirflow]:
    """An Airflow with the DAGs that we ship; nothing in it recovers a job."""
    home = REPOSITORY / "build" / "test-airflow-alerts"
    servers = SmallAirflow(home, shipped_dags=True, more=environment("statsd", receiver))
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


def sent(receiver: Received, metric: Metric, *labels: str) -> list[float]:
    """Return the values of a metric of the job that have arrived, in their order."""
    return receiver.values(".".join((f"airflow.{metric.stats_name}.demo.{JOB_ID}", *labels)))


@pytest.mark.usefixtures("job")
def test_the_metrics_of_a_job_without_a_task_come_from_the_triggerer(receiver: Received) -> None:
    wait_until(lambda: 1.0 in sent(receiver, metrics.JOB_STATE, "RUNNING"), timeout=PATIENCE, what="its state")

    assert sent(receiver, metrics.LEADER_EPOCH)[-1] == 1.0
    assert sent(receiver, metrics.CHECKPOINT_NUMBER)[-1] >= 1.0
    assert sent(receiver, metrics.ATTEMPTS_LIMIT)[-1] == -1.0
    assert sent(receiver, metrics.RESTARTS, "host")[-1] == 0.0


def test_a_driver_that_is_lost_with_its_host_is_told_and_so_is_its_recovery(
    airflow: SmallAirflow, client: HaClient, job: CountedJob
) -> None:
    assert told(airflow.api) == [], "nothing was lost yet"

    lose_host(job)
    wait_until(lambda: any("has no leader" in text for text in told(airflow.api)), timeout=PATIENCE, what="the alert")
    client.job(JOB_ID).recover(by="the person on call")
    job.wait_until_running(epoch=2)
    wait_until(lambda: any("is led again" in text for text in told(airflow.api)), timeout=PATIENCE, what="its end")

    lost = next(text for text in told(airflow.api) if "has no leader" in text)
    assert lost.startswith(f"Spark HA job {JOB_ID} has no leader\nWhy: run 1 has lost its driver, epoch 1")
    assert f"/spark-ha/jobs/{JOB_ID}" in lost
    assert "It had no leader for" in next(text for text in told(airflow.api) if "is led again" in text)


@pytest.mark.usefixtures("job")
def test_the_recovery_is_in_the_metrics_by_reason_and_phase(receiver: Received) -> None:
    wait_until(lambda: sent(receiver, metrics.RECOVERY, "lead"), timeout=PATIENCE, what="the recovery")

    assert sent(receiver, metrics.LEADER_EPOCH)[-1] == 2.0
    assert sent(receiver, metrics.RESTARTS, "host")[-1] == 1.0
