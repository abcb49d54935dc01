"""The page of a log: the end of it is there, no secret is, and every known log is a link away."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import pytest
from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity

from airflow_provider_ha.airflow_side.page.app import create_app
from airflow_provider_ha.airflow_side.page.clusters import Clusters
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.jobs.drivers.driver_home import DriverHome
from airflow_provider_ha.jobs.drivers.driver_log import LogReader
from airflow_provider_ha.jobs.drivers.driver_spec import write_secrets
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.storage.keys import JobKeys, blob
from airflow_provider_ha.storage.open_storage import open_store
from tests.support import airflow_auth
from tests.support.clusters.shown_cluster import ShownJob, now
from tests.support.mounted_page import Page


pytestmark = pytest.mark.airflow
Write = Callable[..., Path]


@pytest.fixture
def page(config: HaConfig, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    """The pages of the test's own cluster, for an administrator."""
    clusters = Clusters(names=lambda: ["spark_ha_default"], config_of=lambda _: config, idle_seconds=0.2)
    yield Page(airflow_auth.signed_in(create_app(clusters), monkeypatch))
    clusters.close()


@pytest.fixture
def job(config: HaConfig, coordinator: Coordinator, cluster_paths: ClusterPaths) -> ShownJob:
    """A job whose first driver leads."""
    shown = ShownJob(coordinator, open_store(config), cluster_paths, "flights")
    return shown.submit(now()).lead(now())


@pytest.fixture
def write(config: HaConfig) -> Write:
    """Have this host keep the log of a driver; returns its directory."""

    def made(*lines: str, run: int = 1, attempt: int = 1) -> Path:
        home = config.home_path / JobKeys("flights").application(run, attempt)
        home.mkdir(parents=True, exist_ok=True)
        (home / "driver.log").write_text("".join(f"{line}\n" for line in lines))
        return home

    return made


def lines_of(shown: str) -> list[str]:
    """Return the lines of the log that a page shows; none when it shows no log."""
    found = re.search(r'<pre class="scroll log"[^>]*>(.*?)</pre>', shown, re.DOTALL)
    return html.unescape(found[1]).splitlines() if found is not None else []


def links_of(shown: str) -> dict[str, str]:
    """Return the links to logs that a page has: what each is called by a screen reader, and where it leads."""
    found = re.findall(r'<a ([^>]*href="([^"]*\?[^"]*run=[^"]*)"[^>]*)>([^<]*)</a>', shown)
    named = [(re.search(r'aria-label="([^"]*)"', attributes), text, at) for attributes, at, text in found]
    links = [(name[1] if name is not None else text, html.unescape(at)) for name, text, at in named]
    assert len(dict(links)) == len(links), "each has its own name"
    return dict(links)


@pytest.fixture
def past(job: ShownJob) -> ShownJob:
    """The job with three runs, of which the second has two attempts."""
    job.end(now(), JobState.FINISHED).submit(now()).lead(now()).lose(now()).submit_again(now()).lead(now())
    return job.end(now(), JobState.FINISHED).submit(now()).lead(now())


def test_the_last_of_many_long_lines_is_shown(page: Page, job: ShownJob, write: Write) -> None:
    written = [f"{number} ".ljust(300, "x") for number in range(500)]
    write(*written)

    shown = page.get("/jobs/flights/log").text

    assert lines_of(shown) == written
    assert re.search(r'<pre class="scroll log"[^>]* data-end', shown)


def test_lines_with_an_error_are_marked(page: Page, job: ShownJob, write: Write) -> None:
    good = ["26/11/28 INFO Batch: no error here", "an Error in the middle of a sentence", "<b>"]
    bad = [
        "26/11/28 03:00:00 ERROR MicroBatchExecution: Query orders terminated",
        "Traceback (most recent call last):",
        "KeyError: 'price'",
        "Caused by: java.io.IOException: <full>",
        "py4j.protocol.Py4JJavaError: An error occurred",
    ]
    write(*good, *bad)

    shown = page.get("/jobs/flights/log").text

    assert [html.unescape(each) for each in re.findall(r"<mark>(.*?)</mark>", shown)] == bad
    assert "5 with an error are marked" in shown


def test_secrets_behind_many_long_lines_are_hidden(page: Page, job: ShownJob, write: Write) -> None:
    home = write(*("x" * 300 for _ in range(300)), "password=geheim", "it is abracadabra-4711")
    write_secrets(DriverHome(home).script_secrets, {"abracadabra-4711"})

    shown = page.get("/jobs/flights/log").text

    assert lines_of(shown)[-2:] == ["password=***", "it is ***"]


def test_a_log_whose_secrets_cannot_be_known_is_named_and_not_shown(page: Page, job: ShownJob, write: Write) -> None:
    home = write("the environment has open-sesame-1704")
    job.store.delete(blob(job.graph.sha256))

    shown = page.get("/jobs/flights/log").text

    assert lines_of(shown) == []
    assert "open-sesame-1704" not in shown
    assert "The job graph, which lists the secrets in the log, cannot be read." in shown
    assert "spark-ha job logs flights --run 1 --attempt 1" in shown
    assert str(home / "driver.log") in shown


def test_a_secret_that_is_left_while_the_log_is_read_is_hidden(
    page: Page, job: ShownJob, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, now_of = write("it is left-at-last"), LogReader.now

    def read(reader: LogReader) -> Iterator[bytes]:
        write_secrets(DriverHome(home).script_secrets, {"left-at-last"})
        return now_of(reader)

    monkeypatch.setattr(LogReader, "now", read)

    assert lines_of(page.get("/jobs/flights/log").text) == ["it is ***"]


def link(home: Path, outside: Path) -> None:
    (home / "driver.log").unlink()
    (home / "driver.log").symlink_to(outside / "driver.log")


def link_of_the_directory(home: Path, outside: Path) -> None:
    (home / "driver.log").unlink()
    home.rmdir()
    home.symlink_to(outside)


def pipe(home: Path, _: Path) -> None:
    (home / "driver.log").unlink()
    os.mkfifo(home / "driver.log")


@pytest.mark.timeout(30)  # a pipe blocks
@pytest.mark.parametrize(
    ("put", "kind"),
    [(link, "a symbolic link"), (link_of_the_directory, "a symbolic link"), (pipe, "a pipe")],
    ids=["link", "directory", "pipe"],
)
def test_what_a_driver_puts_in_the_place_of_its_log_is_named_and_not_read(  # noqa: PLR0917  # they are fixtures
    page: Page, job: ShownJob, write: Write, tmp_path: Path, put: Callable[[Path, Path], None], kind: str
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "driver.log").write_text("of this host alone\n")
    put(write("line"), tmp_path / "outside")

    shown = page.get("/jobs/flights/log")

    assert shown.status_code == 200
    assert lines_of(shown.text) == []
    assert f"is {kind}. It is not read" in shown.text
    assert "of this host alone" not in shown.text


def test_each_attempt_of_a_jobs_page_leads_to_its_own_log(page: Page, past: ShownJob, write: Write) -> None:
    written = {(3, 1): "of the third", (2, 2): "of the second, again", (2, 1): "of the second", (1, 1): "of the first"}
    for (run, attempt), line in written.items():
        write(line, run=run, attempt=attempt)

    links = links_of(page.get("/jobs/flights").text)

    assert list(links) == [f"Log of run {run}, attempt {attempt}" for run, attempt in written]
    led_to = [page.get(urljoin("/jobs/flights", at)).text for at in links.values()]
    assert [lines_of(shown) for shown in led_to] == [[line] for line in written.values()]


def test_a_jobs_page_leads_to_no_log_that_its_user_may_not_read(
    page: Page, past: ShownJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = get_auth_manager()
    allowed = manager.is_authorized_dag

    def without_logs(**asked: Any) -> bool:
        return asked.get("access_entity") is not DagAccessEntity.TASK_LOGS and allowed(**asked)

    monkeypatch.setattr(manager, "is_authorized_dag", without_logs)

    shown = page.get("/jobs/flights")

    assert shown.status_code == 200
    assert not re.search(r'href="[^"]*/log', shown.text)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (1, {"attempt 1": (1, 1), "next run, 2": (2, None)}),
        (2, {"attempt 1": (2, 1), "attempt 2": (2, 2), "previous run, 1": (1, None), "next run, 3": (3, None)}),
        (3, {"attempt 1": (3, 1), "previous run, 2": (2, None)}),
    ],
)
def test_a_log_leads_to_its_attempts_and_to_the_runs_beside_its_own(
    page: Page, past: ShownJob, run: int, expected: dict[str, tuple[int, int | None]]
) -> None:
    links = links_of(page.get("/jobs/flights/log", params={"run": run}).text)

    asked = {name: parse_qs(urlsplit(at).query) for name, at in links.items()}
    assert asked == {
        name: {"run": [str(number)]} | ({"attempt": [str(attempt)]} if attempt is not None else {})
        for name, (number, attempt) in expected.items()
    }
