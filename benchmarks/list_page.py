"""What the pages of Airflow's plugin cost with 1,000 jobs: the list and one job, from the request to the answer.

Each job has a graph, a run with one submission, and a leader that is lost: what costs most to read. The baseline is a
survey of the same jobs, which a cluster leader does as well. The page reads the state of every job and a hundred of
them as a whole, then renders; one that is sorted by the age of checkpoints reads all of them as a whole. The goal is a
first answer in less than a second.

A real Chromium then loads both pages from a server on a port, until it paints something (first contentful paint). One
browser serves all rounds, and each round has an empty cache.

A job's page reads ZooKeeper, then several parts of storage at the same time. While storage accepts connections and
answers none, its parts are given up together.
"""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from airflow.api_fastapi.core_api.security import get_user
from kazoo.client import KazooClient  # noqa: TID253  # fills ZooKeeper
from playwright.sync_api import Browser

from airflow_provider_ha.airflow_side.page.app import create_app, read_page
from airflow_provider_ha.airflow_side.page.clusters import Clusters
from airflow_provider_ha.airflow_side.page.security import permissions
from airflow_provider_ha.airflow_side.page_urls import PREFIX
from airflow_provider_ha.api.documents.overview import OverviewQuery
from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig, S3Options
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.fleet.fleet_overview import read_states
from airflow_provider_ha.jobs.observe import survey
from airflow_provider_ha.storage.open_storage import open_store
from airflow_provider_ha.testing.waiting import wait_until
from benchmarks.recovery import fill
from benchmarks.shared import effort, median, show
from tests.support.browser import browser
from tests.support.mounted_page import Page, mounted, serving


_PAINT = "performance.getEntriesByName('first-contentful-paint')"
SILENT = "silent"  # cluster whose storage does not answer


def main() -> None:
    """Measure and print."""
    given = effort(__doc__, pairs=5)
    count, rounds = 50 if given.quick else 1000, given.pairs
    with tempfile.TemporaryDirectory() as folder, EmbeddedZooKeeper(Path(folder) / "zk") as server:
        config = HaConfig.build(zookeeper=server.hosts, storage_root=f"file://{folder}/storage")
        cluster = ClusterPaths(config.root, config.cluster_id)
        raw = KazooClient(server.hosts)
        raw.start()
        fill(raw, open_store(config), cluster, count)
        raw.stop()
        raw.close()
        listener = socket.create_server(("127.0.0.1", 0))
        s3 = {"endpoint_url": f"http://127.0.0.1:{listener.getsockname()[1]}", "access_key": "a", "secret_key": "s"}
        silent = config.model_copy(update={"storage_root": "s3://bucket/root", "s3": S3Options.model_validate(s3)})
        clusters = Clusters(
            names=lambda: ["spark_ha_default"], config_of=lambda name: silent if name == SILENT else config
        )
        app = create_app(clusters)
        app.dependency_overrides |= {get_user: lambda: "someone", permissions: _Everything}
        page, jobs = Page(app), [f"job-{number:04d}" for number in range(count)]

        def asked(**params: str) -> None:
            answer = page.get("/", params=params)
            if answer.status_code != 200 or "job-0049" not in answer.text:  # noqa: PLR2004  # OK
                raise RuntimeError(f"the page was not shown: {answer.text[:500]}")

        def one_job(cluster: str) -> None:
            answer = page.get("/jobs/job-0049", params={"cluster": cluster})
            if answer.status_code != 200 or ("cannot be shown" in answer.text) != (cluster == SILENT):  # noqa: PLR2004
                raise RuntimeError(f"the page was not shown: {answer.text[:500]}")

        with HaClient.open(config) as client:
            coordinator = client.coordinator
            work: dict[str, Callable[[], object]] = {
                "a survey": lambda: list(survey(coordinator, cluster, jobs)),
                "the state of every job": lambda: read_states(coordinator, cluster, jobs, now=SystemClock().now()),
                "all that the first page reads": lambda: read_page(client, OverviewQuery(), jobs),
                "the first page, answered": asked,
                "sorted by the age of checkpoints, answered": lambda: asked(sort="checkpoint"),
                "sorted by lag, answered": lambda: asked(sort="lag"),
                "the page of one job, answered": lambda: one_job("spark_ha_default"),
                "the same while storage hangs": lambda: one_job(SILENT),
            }
            measured = {name: median([_seconds(do) for _ in range(rounds)]) for name, do in work.items()}
            with browser() as chromium, serving(mounted(app)) as url:
                for name, path in (("the first page", ""), ("the page of one job", "jobs/job-0049")):
                    painted = [_paint_seconds(chromium, f"{url}{PREFIX}/{path}") for _ in range(rounds)]
                    measured[f"{name}, painted"] = median(painted)
        clusters.close()
        listener.close()
    floor = measured["a survey"]
    show(
        f"the pages of {count} jobs",
        ("", "seconds", "ratio"),
        [(name, f"{seconds:.2f}", f"{seconds / floor:.1f}") for name, seconds in measured.items()],
    )


class _Everything:
    """The permissions of a user who may see all jobs, and act on none."""

    def may_see(self, _owner: str | None) -> bool:
        """Return that it is so."""
        return True

    def may_act(self, _owner: str | None) -> bool:
        """Return that it is not."""
        return False

    may_read_log = may_act


def _paint_seconds(chromium: Browser, url: str) -> float:
    """Return the time from the request of a page to its first contentful paint."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    answer = page.goto(url)
    if answer is None or not answer.ok or "job-0049" not in answer.text():
        raise RuntimeError(f"the page was not shown: {url}")
    # Asked from here: the pages let no text be evaluated as a script, so the page cannot wait for it itself.
    wait_until(lambda: page.evaluate(f"{_PAINT}.length > 0"), timeout=30.0, what="the first paint")
    painted = float(page.evaluate(f"{_PAINT}[0].startTime")) / 1000
    context.close()
    return painted


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
