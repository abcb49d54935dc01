"""The shipped DAG ``recover_jobs`` on a real Airflow: a job that no task follows loses its driver and gets another.

Airflow sends states and alerts to a collector of OpenTelemetry.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.fleet.notify.notices import NO_LEADER
from airflow_provider_ha.jobs import metric_names
from airflow_provider_ha.jobs.metric_names import Metric
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import JobSpec
from airflow_provider_ha.jobs.runs.watchers import read_cluster_leader
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.airflow_stats import environment
from tests.support.receivers import Received, otlp
from tests.system.harness.rest import FINAL, DagRun
from tests.system.harness.servers import REPOSITORY
from tests.system.small_airflow import PATIENCE, CountedJob, Counts, SmallAirflow, kill


pytestmark = [pytest.mark.system, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

JOB_ID = "unfollowed"


@pytest.fixture(scope="module")
def collector() -> Iterator[Received]:
    with otlp() as received:
        yield received


@pytest.fixture(scope="module")
def airflow(collector: Received) -> Iterator[SmallAirflow]:
    """An Airflow with the DAGs that we ship."""
    home = REPOSITORY / "build" / "test-airflow-recoverer"
    servers = SmallAirflow(home, shipped_dags=True, more=environment("opentelemetry", collector))
    with servers.running("recover_jobs"):
        yield servers


@pytest.fixture(scope="module")
def job(airflow: SmallAirflow, client: HaClient) -> Iterator[CountedJob]:
    """A job that was submitted from outside of Airflow, running."""
    client.job(JOB_ID).submit(
        JobSpec(
            job_id=JOB_ID,
            request_id="by-hand",
            application=str(REPOSITORY / "tests" / "apps" / "system" / "told.py"),
            arguments=[str(airflow.home / "report.json")],
            conf={"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1", "spark.told.words": "none"},
            master="local[1]",
            driver_memory="512m",
            ha=HaOptions(restart_in_place=False),  # else its host is faster than any DAG
        )
    )
    counted = CountedJob.of(airflow, client.coordinator, JOB_ID)
    counted.wait_until_running()
    yield counted
    client.job(JOB_ID).request_cancel(operation_id="the-end", requested_by="test")
    wait_until(lambda: counted.result() and not counted.drivers(), timeout=PATIENCE, what="the job to be over")


def runs_of(airflow: SmallAirflow) -> list[DagRun]:
    found = airflow.api.request("GET", "/api/v2/dags/recover_jobs/dagRuns")["dag_runs"]
    return [DagRun("recover_jobs", each["dag_run_id"]) for each in found]


def test_a_job_that_nobody_follows_is_recovered_by_the_dag(
    airflow: SmallAirflow, client: HaClient, job: CountedJob
) -> None:
    assert runs_of(airflow) == [], "nothing was lost yet"
    [driver] = job.drivers()

    kill(driver.pid)
    job.wait_until_running(epoch=2)
    wait_until(
        lambda: (found := runs_of(airflow)) and all(airflow.api.run_state(run) in FINAL for run in found),
        timeout=PATIENCE,
        what="the DAG run to end",
    )

    assert job.counts() == Counts(submissions={1: 2}, recoveries=1, epoch=2)
    reports = [airflow.api.xcom(run, "recover_jobs") for run in runs_of(airflow)]
    assert [report for report in reports if JOB_ID in report.get("recovered", ())] == [{"recovered": [JOB_ID]}]
    assert read_cluster_leader(client.coordinator, client.paths) is None, "between two runs it has no leader"


@pytest.mark.usefixtures("job")
def test_the_metrics_of_a_job_without_a_task_come_from_the_triggerer(collector: Received) -> None:
    def sent(metric: Metric, **labels: str) -> list[float]:
        return collector.values(f"airflow.{metric.stats_name}", cluster="demo", job_id=JOB_ID, **labels)

    # The first report after the takeover may find it STARTING; the next one comes within a minute.
    wait_until(
        lambda: sent(metric_names.JOB_STATE, state=JobState.RUNNING.value)[-1:] == [1.0],
        timeout=PATIENCE,
        what="its state",
    )

    assert 1.0 in sent(metric_names.JOB_STATE, state=JobState.LOST.value)
    assert sent(metric_names.JOB_STATE, state=JobState.LOST.value)[-1] == 0.0
    assert set(sent(metric_names.JOB_STALLED)) == {0.0}
    alerts = sent(metric_names.JOB_ALERT, event=NO_LEADER)
    assert (alerts[0], alerts[-1]) == (1.0, 0.0)
