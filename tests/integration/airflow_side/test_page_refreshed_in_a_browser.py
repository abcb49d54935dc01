"""An open page in a real Chromium: what a refresh brings, and what it says where it brings nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, Route

from airflow_provider_ha.airflow_side.page.app import create_app
from airflow_provider_ha.airflow_side.page.clusters import Clusters
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.verification.verification_records import DrillVerdict
from airflow_provider_ha.storage.open_storage import open_store
from tests.support import airflow_auth
from tests.support.clusters.shown_cluster import HOURS, ShownJob, a_plan, break_storage, now
from tests.support.mounted_page import mounted, serving


pytestmark = pytest.mark.airflow
EVERY = 5_000  # milliseconds between two refreshes of a page


@pytest.fixture
def orders(config: HaConfig, coordinator: Coordinator, cluster_paths: ClusterPaths) -> ShownJob:
    """A job that runs, and was neither restored nor drilled."""
    job = ShownJob(coordinator, open_store(config), cluster_paths, "orders")
    return job.submit(now() - HOURS).lead(now() - HOURS).status(now())


@pytest.fixture
def open_page(
    chromium: Browser, config: HaConfig, orders: ShownJob, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], Page]]:
    """Open the page of that job, in a browser whose clock is put forward."""
    clusters = Clusters(names=lambda: ["spark_ha_default"], config_of=lambda _: config)
    app = mounted(airflow_auth.signed_in(create_app(clusters), monkeypatch))
    context = chromium.new_context(timezone_id="UTC", locale="en-GB")

    with serving(app) as url:

        def opened() -> Page:
            page = context.new_page()
            page.clock.install()
            page.set_default_timeout(20_000)
            page.goto(f"{url}/spark-ha/jobs/{orders.job_id}")
            return page

        yield opened
        context.close()
    clusters.close()


def test_the_first_drill_comes_to_an_open_page(open_page: Callable[[], Page], orders: ShownJob) -> None:
    page = open_page()
    page.get_by_text("No drill yet").wait_for()

    orders.drill(now(), DrillVerdict.PASSED)
    page.clock.fast_forward(EVERY)

    page.locator("#drill-table").get_by_text("PASSED").wait_for()
    assert not page.get_by_text("No drill yet").is_visible()


def test_drills_that_cannot_be_read_any_more_are_not_shown_as_if_they_were(
    open_page: Callable[[], Page], orders: ShownJob, config: HaConfig
) -> None:
    orders.drill(now(), DrillVerdict.PASSED)
    page = open_page()
    page.locator("#drill-table").wait_for()

    break_storage(config)
    page.clock.fast_forward(EVERY)

    page.get_by_text("Drills cannot be shown").wait_for()
    assert page.get_by_text("The last verification cannot be shown").is_visible()
    assert page.locator("#drill-table").count() == 0


def test_the_plan_of_a_restore_comes_to_an_open_page(open_page: Callable[[], Page], orders: ShownJob) -> None:
    page = open_page()
    page.get_by_text("The newest run began without a restore").wait_for()

    orders.end(now(), JobState.CANCELED)
    orders.submit(now(), a_plan(orders.store, "orders", now(), "before-upgrade"))
    page.clock.fast_forward(EVERY)

    page.locator("#planned").get_by_text("DUPLICATES_POSSIBLE").first.wait_for()
    assert not page.get_by_text("The newest run began without a restore").is_visible()


def test_a_part_that_is_missing_in_a_refresh_makes_the_page_say_that_it_is_old(
    open_page: Callable[[], Page], orders: ShownJob
) -> None:
    page = open_page()

    def without_queries(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text().replace('id="query-table"', 'id="another"'))

    page.route("**/jobs/orders", without_queries)
    orders.lose(now(), reason="killed")
    page.clock.fast_forward(EVERY)

    page.locator("#header").get_by_text("LOST").first.wait_for()
    page.get_by_text("Not refreshed since").wait_for()
    assert "query-table" in page.locator("#refreshed").inner_text()
