"""The pages in a real Chromium: accessible in both themes and widths, and refreshed without losing focus.

One Chromium and one server serve the module, and a page is loaded once for both themes and widths: a browser's time is
what these tests cost. The time until a page refreshes itself is that of the browser's clock, which is put forward.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from playwright.sync_api import Browser, BrowserContext, Page

from airflow_provider_ha.airflow_side.page import actions, recovery_pages, tabs
from airflow_provider_ha.airflow_side.page.app import create_app
from airflow_provider_ha.airflow_side.page.clusters import Clusters
from airflow_provider_ha.airflow_side.page.recovery import recover_conf
from airflow_provider_ha.airflow_side.page.recovery_pages import trigger
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import SetData
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.jobs.drivers.driver_home import DriverHome
from airflow_provider_ha.jobs.drivers.driver_spec import write_secrets
from airflow_provider_ha.jobs.model import JobState, OperationKind
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.runs.submissions import DriverHandle, SubmissionStarted
from airflow_provider_ha.jobs.runs.watchers import Announcement
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.open_storage import open_store
from airflow_provider_ha.testing.waiting import wait_until
from tests.conftest import FAST
from tests.support import airflow_auth, shipped_dags
from tests.support.clusters.cluster_helpers import Cluster
from tests.support.clusters.lost_jobs import lose
from tests.support.clusters.shown_cluster import ShownJob, now, write_cluster
from tests.support.mounted_page import mounted, serving
from tests.support.pictures import check_picture


pytestmark = pytest.mark.airflow
BROUGHT_BACK = "page-recover-1"
RUN_ID = "manual__2026-11-24T03:00:00+00:00"
FRAME = """<!doctype html><html class="{theme}" lang="en"><title>Airflow</title><body>
<iframe title="Spark HA" id="page" src="/spark-ha/" width="900" height="600"
sandbox="allow-scripts allow-same-origin allow-forms allow-downloads"></iframe></body></html>"""
PAGES = {
    "list": "",
    "job": "jobs/orders",
    "lost": "jobs/payments",
    "standby drivers": "jobs/sensor-01",
    "error": "jobs/nothing",
    "action": "jobs/orders/actions/savepoint",
    "refused action": "jobs/clicks/actions/stop",
    "cancel with a savepoint": "jobs/orders/actions/cancel?savepoint=yes",
    "operation": "jobs/sensor-03/operations/asked",
    "restore": "jobs/flights/restore?accept=DUPLICATES_POSSIBLE",
    "restore without a plan": "jobs/payments/restore",
    "recover": "jobs/flights/recover",
    "refused recover": "jobs/orders/recover",
    "brought back": f"jobs/flights/recover-runs/{BROUGHT_BACK}",
    "no web UI": "jobs/clicks/spark-ui",
    "log": "jobs/sensor-01/log",
    "log elsewhere": "jobs/orders/log",
    "tab": f"dag-runs/orders/{RUN_ID}",
    "empty tab": f"dag-runs/orders/{RUN_ID}/tasks/other/-1",
}
# Other text in the frame of another page: in `make test-long`.
AGAIN = {
    "error",
    "refused action",
    "cancel with a savepoint",
    "restore without a plan",
    "refused recover",
    "brought back",
    "no web UI",
    "log elsewhere",
    "empty tab",
}
Looks = tuple[tuple[Literal["light", "dark"], int], ...]  # themes, and widths in pixels
EACH_LOOK: Looks = (("light", 1280), ("light", 400), ("dark", 1280), ("dark", 400))
# Each theme and each width once: a theme has colours, and a width has sizes.
LOOKS: Looks = (("light", 1280), ("dark", 400))
HEIGHT = 900
EVERY = 5_000  # milliseconds between two refreshes of a page

# Task -> XCom: two jobs, and a task that told of none.
TOLD: dict[str, dict[str, Any]] = {
    "other": {},
    **{
        f"run_{name}": {"spark_ha_run": {"job_id": name, "run": 1, "conn_id": "spark_ha_default"}}
        for name in ("orders", "payments", "nothing")
    },
}
# Picture of the documentation -> page, theme and height; written with PICTURES=write.
PICTURES: dict[str, tuple[str, str, int]] = {
    "page-list": ("?cluster=pictured", "light", 560),
    "page-job": ("jobs/orders?cluster=pictured", "light", 1100),
    "page-lost": ("jobs/payments?cluster=pictured", "dark", 640),
}


@dataclass(frozen=True, slots=True)
class Served:
    """The pages of a cluster on a port of this host."""

    url: str
    cluster: ClusterPaths
    config: HaConfig
    coordinator: KazooCoordinator

    @property
    def origin(self) -> str:
        """Where everything that the pages load lies."""
        return self.url.removesuffix("spark-ha/")


@pytest.fixture(scope="module")
def served(zookeeper_server: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The application as Airflow mounts it, for a user who is logged in, and a page that has it in a frame."""
    storage = tmp_path_factory.mktemp("page") / "storage"
    config = HaConfig.build(
        zookeeper=zookeeper_server.hosts, storage_root=f"file://{storage}", cluster_id="page", timings=FAST
    )
    coordinator, cluster = KazooCoordinator.connect(config), ClusterPaths(config.root, config.cluster_id)
    write_cluster(coordinator, open_store(config), cluster, others=30)
    pictured = config.model_copy(update={"cluster_id": "pictured", "storage_root": f"file://{storage}-pictured"})
    of_pictures = ClusterPaths(config.root, "pictured")
    write_cluster(coordinator, open_store(pictured), of_pictures, odd="hourly")
    coordinator.ensure(of_pictures.job("orders").watchers)
    coordinator.commit(Announcement.of_task(of_pictures.job("orders"), "orders.submit, run 12").create())
    clusters = Clusters(
        names=lambda: ["spark_ha_default"], config_of=lambda name: pictured if name == "pictured" else config
    )
    keep_log(config, coordinator, cluster.job("sensor-01"))
    ask(coordinator, cluster.job("sensor-03"))
    lose(Cluster(config, coordinator, tmp_path_factory.mktemp("lost")))
    with pytest.MonkeyPatch.context() as patch:
        keep_loaded(patch)
        app = mounted(airflow_auth.signed_in(create_app(clusters), patch))
        app.get("/frame")(lambda theme="light": HTMLResponse(FRAME.format(theme=theme)))
        with (
            serving(app) as url,
            airflow_auth.dag_run("orders", RUN_ID, TOLD),
            shipped_dags.shipped("disaster_recovery", "recover_jobs"),
        ):
            trigger("recover_jobs", BROUGHT_BACK, recover_conf("spark_ha_default", "flights", 1), by="someone")
            yield Served(f"{url}/spark-ha/", cluster, config, coordinator)
    clusters.close()
    coordinator.close()


def keep_log(config: HaConfig, coordinator: KazooCoordinator, paths: JobPaths) -> None:
    """Have this host keep the log of a job's driver."""
    home = config.home_path / JobKeys(paths.job_id).application(1, 1)
    home.mkdir(parents=True)
    (home / "driver.log").write_text("".join(f"batch {number} <b>is committed</b>\n" for number in range(200)))
    write_secrets(DriverHome(home).script_secrets, {"abracadabra-4711"})
    started = SubmissionStarted(handle=DriverHandle(engine="local", log_uri=f"file://worker-1{home}/driver.log"))
    coordinator.commit(SetData(paths.submission_started(1, 1), started.to_bytes()))


def ask(coordinator: KazooCoordinator, paths: JobPaths) -> None:
    """Ask a job for what no driver is there to do."""
    operations.request(
        coordinator,
        paths,
        OperationKind.CANCEL_WITH_SAVEPOINT,
        operation_id="asked",
        arguments={},
        requested_by="someone",
        clock=SystemClock(),
    )


def keep_loaded(patch: pytest.MonkeyPatch) -> None:
    """Let no page load itself again, which it would do while axe looks at it: test_page_security.py has that header."""
    for module in (actions, recovery_pages, tabs):
        patch.setattr(module, "REFRESH_SECONDS", 3600)


@pytest.fixture
def open_page(chromium: Browser, served: Served) -> Iterator[Callable[..., Page]]:
    """Open a page; at the end no page has loaded anything from elsewhere, or has failed."""
    contexts: list[BrowserContext] = []
    troubles: list[str] = []

    def opened(
        path: str = "", *, width: int = 1280, theme: Any = "light", zone: str = "UTC", clock: bool = False
    ) -> Page:
        context = chromium.new_context(
            viewport={"width": width, "height": HEIGHT}, color_scheme=theme, timezone_id=zone, locale="en-GB"
        )
        contexts.append(context)
        page = context.new_page()
        if clock:
            page.clock.install()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda sent: troubles.append(sent.url) if not sent.url.startswith(served.origin) else None)
        page.on("console", lambda said: troubles.append(said.text) if "Content Security" in said.text else None)
        page.goto(served.url + path)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert troubles == []


def check_accessible(page: Page, looks: Looks) -> None:
    """Assert that a page is accessible in some themes and widths, fits into each, and has run no text of a record."""
    for theme, width in looks:
        page.emulate_media(color_scheme=theme)
        page.set_viewport_size({"width": width, "height": HEIGHT})
        page.locator(f'html[data-theme="{theme}"]').wait_for()
        found = Axe().run(page)

        assert found.violations_count == 0, f"{theme}, {width} pixels: {found.generate_report()}"
        assert page.evaluate("document.documentElement.scrollWidth") <= width, (theme, width)
        assert "taken over" not in page.title()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in AGAIN else []) for name in PAGES]
)
def test_a_page_is_accessible_and_fits(open_page: Callable[..., Page], name: str) -> None:
    check_accessible(open_page(PAGES[name]), LOOKS)


@pytest.mark.long
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_accessible_and_fits_in_each_theme_and_width(open_page: Callable[..., Page], name: str) -> None:
    check_accessible(open_page(PAGES[name]), EACH_LOOK)


def test_each_route_is_among_the_pages_that_axe_looks_at() -> None:
    routes = [route for route in create_app(Clusters(names=list)).routes if isinstance(route, APIRoute)]
    pages = [route for route in routes if "GET" in route.methods]

    shown = {next(route.path for route in pages if route.path_regex.match(address(path))) for path in PAGES.values()}

    assert {route.path for route in pages} - shown == {"/static/{name}"}, "add a page to PAGES"
    # What a form leads to is a redirect, or the page of an error.
    assert {route.path for route in routes} == {route.path for route in pages}


def address(path: str) -> str:
    """Return an address as the application below its prefix sees it."""
    return f"/{path.partition('?')[0]}"


def test_a_page_that_begins_dark_is_dark_at_once(open_page: Callable[..., Page]) -> None:
    page = open_page("jobs/nothing", theme="dark", width=400)

    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert Axe().run(page).violations_count == 0


def test_an_action_is_taken_with_the_keyboard_alone(open_page: Callable[..., Page], served: Served) -> None:
    page = open_page("jobs/sensor-02")
    page.locator('[data-key="savepoint"]').focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/actions/savepoint")

    page.get_by_label("Label (optional)").focus()
    page.keyboard.type("before the upgrade")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Take a savepoint"
    page.keyboard.press("Enter")
    page.wait_for_url("**/operations/page-savepoint-*")

    (asked,) = operations.list_operations(served.coordinator, served.cluster.job("sensor-02"))
    assert asked.arguments["label"] == "before the upgrade"
    assert page.get_by_role("status").inner_text().startswith("The operation is REQUESTED.")


def test_the_way_to_cancel_is_chosen_with_the_keyboard_and_shown_before_it_is_confirmed(
    open_page: Callable[..., Page], served: Served
) -> None:
    page = open_page("jobs/sensor-04/actions/cancel")
    way = page.get_by_role("navigation", name="How to cancel").get_by_role("link", name="Take a savepoint first")
    way.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**savepoint=yes**")

    assert way.get_attribute("aria-current") == "page"
    assert page.get_by_text("When the savepoint fails, the run does not end").is_visible()
    page.get_by_role("button", name="Take a savepoint, then cancel").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/operations/page-cancel-*")

    (asked,) = operations.list_operations(served.coordinator, served.cluster.job("sensor-04"))
    assert asked.operation is OperationKind.CANCEL_WITH_SAVEPOINT


def test_a_log_opens_at_its_end(open_page: Callable[..., Page]) -> None:
    log = open_page("jobs/sensor-01/log").get_by_role("region", name="Last lines")

    below, above = "log => log.scrollHeight - log.clientHeight - log.scrollTop", "log => log.scrollTop"
    wait_until(lambda: log.evaluate(above) > 0 and log.evaluate(below) < 5, timeout=20, what="the end of the log")


def test_a_log_is_scrolled_with_the_keyboard(open_page: Callable[..., Page]) -> None:
    page = open_page("jobs/sensor-01/log")
    page.get_by_role("region", name="Last lines").focus()

    page.keyboard.press("End")

    scrolled = "document.activeElement.scrollTop"
    wait_until(lambda: page.evaluate(scrolled) > 0, timeout=20, what="the log to be scrolled")
    assert "batch 199 <b>is committed</b>" in page.get_by_role("region", name="Last lines").inner_text()


@pytest.mark.long
@pytest.mark.parametrize("name", PICTURES)
def test_the_documentation_shows_these_pages(open_page: Callable[..., Page], name: str) -> None:
    path, theme, height = PICTURES[name]
    page = open_page(path, theme=theme)
    page.set_viewport_size({"width": 1280, "height": height})
    if name == "page-job":
        page.locator("figure canvas").first.wait_for()

    check_picture(page, name)


def test_charts_are_drawn_from_the_table_on_the_axis_of_the_timeline(open_page: Callable[..., Page]) -> None:
    page = open_page("jobs/orders", width=400)
    line, plot = page.locator("#timeline svg.timeline"), page.locator('[data-chart="lag"] .u-over')

    assert page.locator("figure canvas").count() == 3
    over, above = plot.bounding_box(), line.bounding_box()
    assert over is not None
    assert above is not None
    assert abs(over["x"] - above["x"]) <= 1
    assert abs(over["width"] - above["width"]) <= 1
    plot.hover()
    read = page.locator('[data-chart="lag"] .reading')
    read.get_by_text("revenue").wait_for()
    assert "late" not in read.inner_text(), "it tells no lag"


def test_the_figures_of_the_charts_are_read_with_the_keyboard(open_page: Callable[..., Page]) -> None:
    page = open_page("jobs/orders?span=1h")
    page.locator("#figures-details summary").focus()

    page.keyboard.press("Enter")
    page.keyboard.press("Tab")

    assert page.locator("#figures").is_visible()
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "The figures of the charts as a table"
    assert Axe().run(page).violations_count == 0


def test_charts_come_with_a_refresh_and_follow_the_theme(open_page: Callable[..., Page], served: Served) -> None:
    job = ShownJob(served.coordinator, open_store(served.config), served.cluster, "sensor-05", epoch=1)
    page = open_page("jobs/sensor-05?span=1h", clock=True)
    page.get_by_text("No batch was committed in this time").wait_for()
    assert page.locator("figure:visible").count() == 0

    job.commit_batches(now() - timedelta(hours=1), now())
    page.clock.fast_forward(EVERY)

    page.locator("figure canvas").nth(2).wait_for()
    first = page.locator("figure canvas").first
    light = first.evaluate("canvas => canvas.toDataURL()")
    page.emulate_media(color_scheme="dark")
    page.locator('html[data-theme="dark"]').wait_for()
    assert page.locator("figure canvas").count() == 3
    assert first.evaluate("canvas => canvas.toDataURL()") != light


def test_the_list_is_used_with_the_keyboard_alone(open_page: Callable[..., Page]) -> None:
    page = open_page()

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.get_by_label("Job", exact=True).focus()
    page.keyboard.type("order")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=order**")
    page.get_by_role("link", name="orders").focus()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/orders")

    assert page.get_by_role("heading", level=1).inner_text() == "orders"


def test_times_are_the_viewers_and_their_titles_utc(open_page: Callable[..., Page]) -> None:
    first = open_page("jobs/clicks", zone="Asia/Tokyo").locator("#epoch-table time").first

    utc = datetime.strptime(first.get_attribute("title") or "", "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=timezone.utc)
    assert first.inner_text() == f"{utc + timedelta(hours=9):%Y-%m-%d %H:%M:%S}"


def test_a_refresh_shows_what_has_changed_and_keeps_focus_and_scroll_position(
    open_page: Callable[..., Page], served: Served
) -> None:
    job = ShownJob(served.coordinator, open_store(served.config), served.cluster, "waiting")
    job.submit(now()).lead(now()).status(now())
    page = open_page("?sort=job", clock=True)
    link = page.get_by_role("link", name="waiting")
    link.focus()
    page.evaluate("window.scrollTo(0, 400)")
    scrolled = page.evaluate("window.scrollY")
    assert scrolled > 0

    job.lose(now(), reason="killed")
    page.clock.fast_forward(EVERY)

    page.locator("tr", has=link).get_by_text("LOST").wait_for()
    assert page.evaluate("document.activeElement.textContent") == "waiting"
    assert page.evaluate("window.scrollY") == scrolled
    job.submit_again(now()).end(now(), JobState.CANCELED)


def test_a_page_that_cannot_be_refreshed_says_since_when(open_page: Callable[..., Page]) -> None:
    page = open_page(clock=True)
    page.route("**/*", lambda route: route.fulfill(status=503, body="<h1>ZooKeeper does not answer</h1>"))
    page.clock.fast_forward(EVERY)

    page.get_by_text("Not refreshed since").wait_for()

    assert "ZooKeeper does not answer" in page.locator("#refreshed").inner_text()
    assert page.get_by_role("link", name="payments").is_visible(), "what was read last stays"


def test_the_theme_is_that_of_the_airflow_around_it(open_page: Callable[..., Page], served: Served) -> None:
    page = open_page("../frame?theme=dark", theme="light")
    frame = page.frame_locator("#page")
    theme = "document.getElementById('page').contentDocument.documentElement.dataset.theme"

    frame.get_by_role("heading", name="Jobs").wait_for()
    assert page.evaluate(theme) == "dark"
    page.evaluate("document.documentElement.className = 'light'")

    page.wait_for_function(f"{theme} === 'light'")
