"""The shipped DAG ``alerts`` on a real Airflow: a driver is killed with its supervisor, as the loss of a host would.

A second job takes a checkpoint an hour, which is too old after a minute: the bound in the DAG is lowered. Airflow sends
metrics to StatsD: the triggerer reports the job to it, which no task follows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

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
BEHIND = "behind"  # whose batches go on without a checkpoint
BOUNDS = "grace=30.0, recovers=False"


@pytest.fixture(scope="module")
def receiver() -> Iterator[Received]:
    with statsd() as received:
        yield received


@pytest.fixture(scope="module")
def airflow(receiver: Received, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallAirflow]:
    """An Airflow with the DAG that we ship, for which a checkpoint of a minute is old; nothing in it recovers a job."""
    dags = tmp_path_factory.mktemp("dags")
    text = (REPOSITORY / "dags" / "alerts.py").read_text(encoding="utf-8")
    assert BOUNDS in text
    lowered = text.replace(BOUNDS, f"{BOUNDS}, max_checkpoint_age=60.0, health_interval=5.0")
    (dags / "alerts.py").write_text(lowered, encoding="utf-8")
    home = REPOSITORY / "build" / "test-airflow-alerts"
    servers = SmallAirflow(home, dags=dags, more=environment("statsd", receiver))
    with servers.running("alerts"):
        yield servers


@pytest.fixture(scope="module")
def client(airflow: SmallAirflow) -> Iterator[HaClient]:
    with HaClient.open(airflow.config) as opened:
        yield opened


@pytest.fixture(scope="module")
def job(airflow: SmallAirflow, client: HaClient) -> Iterator[CountedJob]:
    """A job that no task follows, running."""
    with running(airflow, client, JOB_ID, HaOptions(restart_in_place=False)) as counted:
        yield counted


@pytest.fixture
def behind(airflow: SmallAirflow, client: HaClient) -> Iterator[CountedJob]:
    """A job whose first checkpoint stays the newest one for an hour, while it commits a batch a second."""
    with running(airflow, client, BEHIND, HaOptions(checkpoint_interval=3600.0)) as counted:
        yield counted


@contextmanager
def running(airflow: SmallAirflow, client: HaClient, job_id: str, options: HaOptions) -> Iterator[CountedJob]:
    """Have a job that was submitted from outside of Airflow, running, for the time of the block."""
    client.job(job_id).submit(
        SubmitRequest(
            job_id=job_id,
            request_id="by-hand",
            application=str(REPOSITORY / "tests" / "apps" / "system" / "told.py"),
            arguments=[str(airflow.home / f"{job_id}.json")],
            conf={"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1", "spark.told.words": "none"},
            master="local[1]",
            driver_memory="512m",
            options=options,
        )
    )
    counted = CountedJob.of(airflow, client.coordinator, job_id)
    counted.wait_until_running()
    yield counted
    client.job(job_id).request_cancel(operation_id="the-end", requested_by="test")
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


def test_a_checkpoint_that_gets_old_while_batches_are_committed_is_told(
    airflow: SmallAirflow, behind: CountedJob
) -> None:
    def old() -> list[str]:
        return [text for text in told(airflow.api) if text.startswith(f"Spark HA job {BEHIND} has an old checkpoint")]

    wait_until(old, timeout=PATIENCE, what="the alert")

    [message] = old()
    found = re.search(r"Why: checkpoint 1 is (\d+) s old, and batches were committed that it does not hold", message)
    assert found is not None, message
    assert int(found[1]) >= 60
    assert f"/spark-ha/jobs/{BEHIND}" in message
    assert (behind.snapshot().state.value, behind.counts().epoch) == ("RUNNING", 1), "it runs, so nothing else is wrong"
