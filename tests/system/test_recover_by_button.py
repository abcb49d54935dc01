"""The button *Recover* in a real Airflow and a real Chromium: a job without a task has lost its driver, and goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import JobSpec
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.browser import browser
from tests.system.harness.first_dag import Output
from tests.system.harness.rest import DagRun
from tests.system.harness.servers import REPOSITORY, USER
from tests.system.small_airflow import PATIENCE, CountedJob, Counts, SmallAirflow, kill


pytestmark = [pytest.mark.system, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

JOB_ID = "orders"
EDITOR = "edith"
PATIENT = PATIENCE * 1000  # milliseconds
WATCHED = 'SparkHaClusterTrigger(emit=["no_leader"]'


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallAirflow]:
    """An Airflow with the DAG that we ship; its watcher leaves a person an hour."""
    dags = tmp_path_factory.mktemp("dags")
    text = (REPOSITORY / "dags" / "recover_jobs.py").read_text(encoding="utf-8")
    assert WATCHED in text
    (dags / "recover_jobs.py").write_text(text.replace(WATCHED, f"{WATCHED}, grace=3600.0"), encoding="utf-8")
    home, users = REPOSITORY / "build" / "test-airflow-button", f"{USER}:admin,{EDITOR}:user"
    servers = SmallAirflow(home, dags=dags, more={"AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": users})
    with servers.running("recover_jobs"):
        yield servers


@pytest.fixture(scope="module")
def job(client: HaClient, output: Output) -> Iterator[CountedJob]:
    """A job that was submitted from outside of Airflow, running."""
    client.job(JOB_ID).submit(
        JobSpec(
            job_id=JOB_ID,
            request_id="by-hand",
            application=str(REPOSITORY / "tests" / "apps" / "system" / "counting.py"),
            arguments=["--output", str(output.path)],
            conf={"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"},
            master="local[1]",
            driver_memory="512m",
            ha=HaOptions(restart_in_place=False),  # else its host is faster than any button
        )
    )
    counted = CountedJob(client.coordinator, client.paths.job(JOB_ID))
    counted.wait_until_running()
    yield counted
    client.job(JOB_ID).request_cancel(operation_id="the-end", requested_by="test")
    wait_until(lambda: counted.result() and not counted.drivers(), timeout=PATIENCE, what="the job to be over")


@pytest.fixture
def page(airflow: SmallAirflow, job: CountedJob) -> Iterator[Page]:
    """The page of the job, in the browser of an editor who has logged in."""
    with browser() as started:
        shown = started.new_context().new_page()
        shown.set_default_timeout(60_000)
        shown.goto(f"{airflow.url}/spark-ha/jobs/{job.paths.job_id}")
        shown.get_by_role("link", name="Log in").click()
        shown.locator('input[name="username"]').fill(EDITOR)
        shown.locator('input[name="password"]').fill(airflow.password(EDITOR))
        shown.locator('button[type="submit"]').click()
        shown.get_by_role("heading", name=JOB_ID, exact=True).wait_for()
        yield shown


def test_an_editor_recovers_a_lost_job_by_the_button(
    airflow: SmallAirflow, job: CountedJob, output: Output, page: Page
) -> None:
    [driver] = job.drivers()
    kill(driver.pid)
    wait_until(lambda: job.snapshot().state.value == "LOST", timeout=PATIENCE, what="the loss")
    page.reload()
    page.locator(".headline").get_by_text("LOST").wait_for()

    page.get_by_role("link", name="Recover", exact=True).click()
    page.get_by_role("button", name="Recover", exact=True).click()
    page.wait_for_url("**/recover-runs/**")
    page.get_by_text("Its first new checkpoint is number").wait_for(timeout=PATIENT)
    page.get_by_role("link", name="recover_jobs, page-recover-").wait_for()
    page.locator("main").get_by_role("link", name=JOB_ID, exact=True).click()
    page.locator(".headline").get_by_text("RUNNING").wait_for(timeout=PATIENT)

    [made] = airflow.api.request("GET", "/api/v2/dags/recover_jobs/dagRuns")["dag_runs"]
    airflow.api.wait_for_run(DagRun("recover_jobs", made["dag_run_id"]), timeout=PATIENCE)
    assert made["triggering_user_name"] == EDITOR
    assert made["conf"]["job_id"] == JOB_ID
    assert job.counts() == Counts(submissions={1: 2}, recoveries=1, epoch=2)
    rows, wrong = output.compare()
    assert (rows > 0, wrong) == (True, [])
