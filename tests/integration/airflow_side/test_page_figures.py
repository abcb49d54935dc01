"""The list and a job's page say the same of a job, however many jobs and however long a past there are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from airflow_provider_ha.airflow_side.page.app import create_app
from airflow_provider_ha.airflow_side.page.clusters import Clusters
from airflow_provider_ha.airflow_side.page.job_data import DRILLS, SHOWN
from airflow_provider_ha.api.documents.overview import PAGE
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.observe import create_job
from airflow_provider_ha.jobs.verification.verification_records import DrillVerdict
from airflow_provider_ha.storage.local_store import LocalStore
from tests.conftest import FAST
from tests.support import airflow_auth
from tests.support.clusters.shown_cluster import HOURS, ShownJob, a_plan, break_storage, now
from tests.support.mounted_page import Page


pytestmark = pytest.mark.airflow
MINUTE = timedelta(minutes=1)
JOBS = [f"job-{number:03d}" for number in range(PAGE + 1)]


@pytest.fixture
def page(config: HaConfig, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    """The pages of the test's own cluster, for a user who is logged in."""
    with pages_of_cluster(config, monkeypatch) as made:
        yield made


@pytest.fixture
def full_page(full: HaConfig, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    """The pages of a cluster with many jobs, which tests only read."""
    with pages_of_cluster(full, monkeypatch) as made:
        yield made


@contextmanager
def pages_of_cluster(config: HaConfig, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    clusters = Clusters(names=lambda: ["spark_ha_default"], config_of=lambda _: config, idle_seconds=0.2)
    app = create_app(clusters)
    airflow_auth.signed_in(app, monkeypatch)
    yield Page(app)
    clusters.close()


def restarts_of_list(page: Page, **asked: str) -> dict[str, int]:
    shown = page.get("/", params=asked).text
    found = re.findall(r'data-key="job-([^"]+)".*?data-label="Restarts in 24 h">(\d+)<', shown, re.DOTALL)
    return {job_id: int(count) for job_id, count in found}


def restarts_of_page(page: Page, job_id: str) -> int:
    found = re.search(r"<dt>Restarts in 24 h</dt><dd>(\d+)</dd>", page.get(f"/jobs/{job_id}").text)
    assert found is not None
    return int(found[1])


def test_restarts_of_a_run_that_failed_count_in_the_list_as_on_the_jobs_page(page: Page, orders: ShownJob) -> None:
    at = now()
    orders.submit(at - 30 * HOURS).submit_again(at - 29 * HOURS).submit_again(at - 5 * HOURS)
    orders.end(at - 4 * HOURS, JobState.FAILED)
    orders.submit(at - 3 * HOURS).submit_again(at - 2 * HOURS).submit_again(at - HOURS)
    orders.end(at - 30 * MINUTE, JobState.FAILED)
    orders.submit(at - MINUTE)

    assert restarts_of_page(page, "orders") == 3
    assert restarts_of_list(page) == {"orders": 3}


def test_the_list_is_sorted_by_the_restarts_that_it_shows(
    page: Page, orders: ShownJob, coordinator: Coordinator, cluster_paths: ClusterPaths
) -> None:
    at = now()
    orders.submit(at - 3 * HOURS).submit_again(at - 2 * HOURS).submit_again(at - HOURS)
    orders.end(at - 30 * MINUTE, JobState.FAILED)
    orders.submit(at - MINUTE)
    clicks = ShownJob(coordinator, orders.store, cluster_paths, "clicks")
    clicks.submit(at - 3 * HOURS).submit_again(at - 2 * HOURS).end(at - HOURS, JobState.FAILED)
    clicks.submit(at - MINUTE)

    assert list(restarts_of_list(page, sort="restarts").items()) == [("orders", 2), ("clicks", 1)]


def test_a_jobs_page_has_the_same_parts_to_refresh_whatever_is_known(
    page: Page, orders: ShownJob, config: HaConfig
) -> None:
    orders.submit(now())
    first = live_parts(page, "orders")
    orders.drill(now(), DrillVerdict.PASSED)
    drilled = live_parts(page, "orders")

    break_storage(config)

    assert first == drilled == live_parts(page, "orders")
    assert {"header", "offers", "planned", "verified", "drilled"} <= first


def live_parts(page: Page, job_id: str) -> set[str]:
    shown = page.get(f"/jobs/{job_id}").text
    parts = re.findall(r"<\w+[^>]* data-live[ >]", shown)
    named = set(re.findall(r'id="([\w-]+)"', "".join(parts)))
    assert len(named) == len(parts), "each has a separate id"
    return named


def test_a_refresh_reads_no_drill_again_and_the_page_shows_only_the_newest(
    page: Page, orders: ShownJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.submit(now())
    for number in range(DRILLS + 1):
        orders.drill(now() - (DRILLS - number) * HOURS, DrillVerdict.PASSED)
    read = counted_reads(monkeypatch, "/drills/")

    shown = page.get("/jobs/orders").text
    first = len(read)
    page.get("/jobs/orders")

    assert shown.count('data-label="Drill"') == first == len(read) == DRILLS
    assert "spark-ha drill list orders</code> prints all" in shown


def counted_reads(monkeypatch: pytest.MonkeyPatch, part: str) -> list[str]:
    """Return a list that gets the key of each object that is read, of those with *part* in it."""
    real, found = LocalStore.read, list[str]()

    def read(store: LocalStore, key: str) -> bytes:
        found.extend([key] if part in key else [])
        return real(store, key)

    monkeypatch.setattr(LocalStore, "read", read)
    return found


def test_a_mark_on_the_axis_of_time_says_its_size_and_verdict(page: Page, orders: ShownJob) -> None:
    at = now()
    orders.submit(at - HOURS, a_plan(orders.store, "orders", at - HOURS, "weekly")).lead(at - HOURS)
    orders.take_savepoint("weekly", at - 2 * HOURS).take_checkpoint(at - MINUTE).take_checkpoint(at)

    titles = re.findall(r"<title>((?:checkpoint|savepoint) [^<]+)</title>", page.get("/jobs/orders?span=24h").text)

    assert titles == [
        "checkpoint 2 of epoch 1, record of 48.2 kB",
        "checkpoint 1 of epoch 1, record of 48.2 kB: a state file is 12 bytes short",
        "savepoint weekly, 3.4 GB: can be restored",
    ]


def test_a_jobs_page_shows_its_newest_epochs_and_says_which_it_leaves_out(page: Page, orders: ShownJob) -> None:
    at = now() - 20 * HOURS
    for _ in range(2):
        orders.submit(at).end(at, JobState.FAILED)
    orders.submit(at)
    for _ in range(SHOWN - 1):
        orders.submit_again(at + MINUTE)
    orders.end(at, JobState.FAILED)
    orders.submit(at)

    shown = page.get("/jobs/orders").text

    assert re.findall(r'data-label="Run">(\d+), attempt (\d+)', shown) == [
        ("4", "1"),
        *(("3", str(number)) for number in range(SHOWN, 1, -1)),
    ]
    assert "1 earlier attempts of run 3 are not shown: spark-ha job history orders" in shown
    assert "2 earlier runs are not shown: spark-ha job history orders --runs 100" in shown
    assert restarts_of_page(page, "orders") == SHOWN - 1, "those that are not shown count"


def test_a_jobs_page_shows_its_newest_states_and_says_how_many_it_leaves_out(page: Page, orders: ShownJob) -> None:
    at = now()
    orders.submit(at)
    for number in range(SHOWN + 2):
        orders.take_savepoint(f"s{number:02d}", at - (SHOWN + 2 - number) * MINUTE)
        orders.take_checkpoint(at - (SHOWN + 2 - number) * MINUTE)

    shown = page.get("/jobs/orders?span=24h").text

    named = re.findall(r'data-label="Name">(savepoint-s\d+|checkpoint-\d+)', shown)
    assert named[:SHOWN] == [f"savepoint-s{number:02d}" for number in range(SHOWN + 1, 1, -1)]
    assert named[SHOWN:] == [f"checkpoint-{number}" for number in range(SHOWN + 2, 2, -1)]
    assert f"{SHOWN} retained checkpoints and {SHOWN} savepoints; the tables below have the same" in shown
    assert "2 older savepoints are not shown: spark-ha savepoint list orders prints them all" in shown
    assert "2 older checkpoints are not shown: spark-ha checkpoint list orders prints them all" in shown


@pytest.fixture(scope="module")
def full(zookeeper_server: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> HaConfig:
    """A cluster with one job more than a page of the list shows, none of which was ever submitted."""
    root = f"file://{tmp_path_factory.mktemp('full')}/storage"
    made = HaConfig.build(zookeeper=zookeeper_server.hosts, storage_root=root, cluster_id="full", timings=FAST)
    session = KazooCoordinator.connect(made)
    for job_id in JOBS:
        create_job(session, ClusterPaths(made.root, made.cluster_id).job(job_id))
    session.close()
    return made


@pytest.mark.parametrize(
    ("asked", "jobs", "said", "links"),
    [
        ({}, JOBS[:PAGE], "101 of 101 jobs, page 1 of 2", {"next": "2"}),
        ({"page": "2"}, JOBS[PAGE:], "101 of 101 jobs, page 2 of 2", {"prev": "1"}),
        ({"page": "999"}, JOBS[PAGE:], "101 of 101 jobs, page 2 of 2", {"prev": "1"}),
        ({"page": "999", "q": "-00"}, JOBS[:10], "10 of 101 jobs, page 1 of 1", {}),
    ],
    ids=["first", "second", "beyond the last", "beyond the last of a search"],
)
def test_the_list_is_paged_and_leads_from_page_to_page(
    full_page: Page, asked: dict[str, str], jobs: list[str], said: str, links: dict[str, str]
) -> None:
    shown = full_page.get("/", params={"sort": "job", **asked}).text

    assert re.findall(r'data-key="job-([^"]+)"', shown) == jobs
    assert said in shown
    assert dict(re.findall(r'rel="(prev|next)" href="[^"]*page=(\d+)', shown)) == links
