"""A night, click by click, as the how-to page "The night" tells it: lost for good at three, restored from the page.

Both tests look at one job in one Airflow, through its own login, in a real Chromium; the second one stops the job. The
pictures of the how-to are taken on the way: ``PICTURES=write``.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.jobs.options.job_spec import JobSpec
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.browser import browser
from tests.support.pictures import check_picture
from tests.system.harness.first_dag import Output
from tests.system.harness.rest import DagRun
from tests.system.harness.servers import REPOSITORY, USER
from tests.system.small_airflow import PATIENCE, CountedJob, SmallAirflow, lose_host, told


pytestmark = [pytest.mark.system, pytest.mark.spark, pytest.mark.hours, pytest.mark.timeout(1800)]

JOB_ID = "orders"
VIEWER = "vera"
PATIENT = PATIENCE * 1000  # milliseconds
# What a picture must not show of this machine.
RENAME = """([from, to]) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(from, to);
}"""


@pytest.fixture(scope="module")
def airflow() -> Iterator[SmallAirflow]:
    """An Airflow with the DAGs that we ship, a person on call and a viewer; nothing in it recovers a job."""
    home, users = REPOSITORY / "build" / "test-airflow-night", f"{USER}:admin,{VIEWER}:viewer"
    servers = SmallAirflow(home, shipped_dags=True, more={"AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": users})
    with servers.running("alerts", "disaster_recovery", "recover_jobs"):
        servers.api.request("PATCH", "/api/v2/dags/recover_jobs", json={"is_paused": True})
        yield servers


@pytest.fixture(scope="module")
def job(airflow: SmallAirflow, client: HaClient, output: Output) -> Iterator[CountedJob]:
    """A job that no task follows, running."""
    client.job(JOB_ID).submit(
        JobSpec(
            job_id=JOB_ID,
            request_id="by-day",
            application=str(REPOSITORY / "tests" / "apps" / "system" / "counting.py"),
            arguments=["--output", str(output.path)],
            conf={"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"},
            master="local[1]",
            driver_memory="512m",
        )
    )
    counted = CountedJob.of(airflow, client.coordinator, JOB_ID)
    counted.wait_until_running()
    yield counted
    if counted.result() is None:
        client.job(JOB_ID).request_cancel(operation_id="the-end", requested_by="test")
    wait_until(lambda: counted.result() and not counted.drivers(), timeout=PATIENCE, what="the job to be over")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture
def open_page(chromium: Browser) -> Iterator[Callable[[], Page]]:
    """Open an empty page of a browser in which no user has logged in."""
    contexts = []

    def opened() -> Page:
        contexts.append(chromium.new_context(viewport={"width": 1280, "height": 900}, timezone_id="UTC"))
        page = contexts[-1].new_page()
        page.set_default_timeout(60_000)
        return page

    yield opened
    for context in contexts:
        context.close()


def log_in(page: Page, airflow: SmallAirflow, user: str = USER) -> None:
    """Fill in Airflow's own form."""
    page.locator('input[name="username"]').fill(user)
    page.locator('input[name="password"]').fill(airflow.password(user))
    page.locator('button[type="submit"]').click()


def picture(page: Page, airflow: SmallAirflow, name: str, height: int) -> None:
    """Compare the page with its picture in the how-to."""
    page.set_viewport_size({"width": 1280, "height": height})
    for found, shown in ((str(airflow.home), "/srv/spark-ha"), (socket.gethostname(), "worker-1")):
        page.evaluate(RENAME, [found, shown])
    check_picture(page, name)


def check_accessible(page: Page) -> None:
    """Check the page wide and light, and narrow and dark."""
    for theme, width in (("dark", 400), ("light", 1280)):
        page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        page.set_viewport_size({"width": width, "height": 900})
        page.locator(f'html[data-theme="{theme}"]').wait_for()
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def check_reasons(page: Page) -> None:
    """Check that the page of the lost job says why, and what comes next."""
    [why] = page.locator('#epoch-table td[data-label="Reason"]').all_inner_texts()
    box = page.locator(".problem").inner_text()
    assert len(why) > 1, "a dash says nothing"
    assert "Last failure, attempt 1: " in box
    answers = page.locator(".answer").inner_text()
    assert "Its driver is lost." in answers
    # The trigger of a DAG that is paused may be there still, and recovers nothing.
    assert "no process will restart it" in answers or "while that DAG is paused, it recovers no job" in box, box


def check_followed(airflow: SmallAirflow) -> None:
    """Check that a task follows the restored run, and that the alerts tell of its leader."""
    [restored] = airflow.api.request("GET", "/api/v2/dags/disaster_recovery/dagRuns")["dag_runs"]
    run = DagRun("disaster_recovery", restored["dag_run_id"])
    airflow.api.wait_for_task(run, "follow", "deferred", timeout=PATIENCE)
    wait_until(lambda: any("is led again" in text for text in told(airflow.api)), timeout=PATIENCE, what="its end")


def test_a_driver_that_is_lost_for_good_is_restored_from_its_page(
    airflow: SmallAirflow, job: CountedJob, output: Output, open_page: Callable[[], Page]
) -> None:
    assert told(airflow.api) == [], "nothing was lost yet"
    page = open_page()

    # Three o'clock: the host of the driver is gone. Then the alert, which names the page.
    lose_host(job)
    wait_until(lambda: any("has no leader" in text for text in told(airflow.api)), timeout=PATIENCE, what="the alert")
    [alert] = [text for text in told(airflow.api) if "has no leader" in text][:1]
    link = re.search(rf"{re.escape(airflow.url)}/spark-ha/jobs/\S+", alert)
    assert link is not None, alert

    # The link leads to the job, by Airflow's login.
    page.goto(link[0])
    page.get_by_role("link", name="Log in").click()
    log_in(page, airflow)
    page.get_by_role("heading", name=JOB_ID, exact=True).wait_for()

    # What happened in the last hour: who led, and why that changed.
    page.get_by_role("link", name="1h", exact=True).click()
    page.wait_for_url("**span=1h**")
    assert page.locator(".headline").get_by_text("LOST").is_visible()
    check_reasons(page)
    assert page.locator("svg.timeline .bar-lost").count() == 1
    picture(page, airflow, "night-lost", 900)

    # The plan, to decide from.
    page.get_by_text("More actions").click()
    page.get_by_role("link", name="Restore from a checkpoint").click()
    page.get_by_role("heading", name="The plan").wait_for()
    assert page.get_by_text("SAFE", exact=True).first.is_visible()
    assert page.get_by_text("The lost run 1 ends.").is_visible()
    assert job.counts().submissions == {1: 1}, "nothing has happened yet"
    check_accessible(page)
    picture(page, airflow, "night-plan", 900)

    # Restore, and see it run with its first new checkpoint.
    page.get_by_role("button", name="Restore", exact=True).click()
    page.wait_for_url("**/restore-runs/**")
    followed = page.url
    page.get_by_text("Its first new checkpoint is number").wait_for(timeout=PATIENT)
    assert page.locator(".restored").get_by_text("No row is lost or written twice").is_visible()
    check_accessible(page)
    picture(page, airflow, "night-restored", 700)
    page.locator("main").get_by_role("link", name=JOB_ID, exact=True).click()
    page.locator(".headline").get_by_text("RUNNING").wait_for(timeout=PATIENT)

    counts = job.counts()
    assert (counts.submissions, counts.drivers) == ({1: 1, 2: 1}, 1)
    assert counts.epoch == 3, "the end of the lost run took epoch 2"
    rows, wrong = output.compare()
    assert (rows > 0, wrong) == (True, [])
    check_followed(airflow)

    # Inside Airflow, a link out of the frame takes Airflow along.
    page.goto(f"{airflow.url}/plugin/spark-ha")
    frame = page.frame_locator("iframe")
    frame.get_by_role("heading", name="Jobs").wait_for()
    page.locator("iframe").evaluate("(frame, to) => { frame.contentWindow.location = to; }", followed)
    frame.get_by_role("link", name="disaster_recovery, page-restore-").click()
    page.wait_for_url("**/dags/disaster_recovery/runs/page-restore-*")


def test_the_page_inside_airflow_is_for_its_users_and_stops_a_job(
    airflow: SmallAirflow, job: CountedJob, output: Output, open_page: Callable[[], Page]
) -> None:
    stop = f"{airflow.url}/spark-ha/jobs/{JOB_ID}/actions/stop"
    viewer, page = open_page(), open_page()

    # Without a user there is nothing to see, and a viewer only looks.
    without = viewer.goto(stop)
    viewer.get_by_role("link", name="Log in").click()
    log_in(viewer, airflow, VIEWER)
    viewer.get_by_role("heading", name="You may not see or do this").wait_for()
    refused = viewer.goto(stop)
    viewer.goto(f"{airflow.url}/spark-ha/jobs/{JOB_ID}")
    assert without is not None
    assert refused is not None
    assert (without.status, refused.status) == (401, 403)
    assert viewer.get_by_text("You have read access.").is_visible()

    # An editor finds it in Airflow's navigation, takes a savepoint and stops the job.
    page.goto(airflow.url)
    log_in(page, airflow)
    page.get_by_role("button", name="Browse").click()
    page.get_by_role("menuitem", name="Spark HA").click()
    page.wait_for_url("**/plugin/spark-ha")
    frame = page.frame_locator("iframe")
    frame.get_by_role("link", name=JOB_ID, exact=True).click()
    frame.get_by_role("link", name="Take a savepoint").click()
    frame.get_by_role("button", name="Take a savepoint").click()
    frame.get_by_text("The operation is COMPLETED").wait_for(timeout=PATIENT)
    frame.get_by_role("link", name=JOB_ID, exact=True).click()
    frame.get_by_text("More actions").click()
    frame.get_by_role("link", name="Stop with a checkpoint").click()
    frame.get_by_role("button", name="Stop with a checkpoint").click()
    frame.get_by_role("row", name="The run is FINISHED").wait_for(timeout=PATIENT)

    assert job.result() == "FINISHED"
    assert job.operations("COMPLETED") == 2
    rows, wrong = output.compare()
    assert (rows > 0, wrong) == (True, [])
