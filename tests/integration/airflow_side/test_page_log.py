"""The page of a log: the end of it is there, no secret is, and every known log is a link away."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.jobs.host.driver_home import DriverHome
from airflow_provider_ha.jobs.host.driver_log import LogReader
from airflow_provider_ha.jobs.host.driver_spec import write_secrets
from airflow_provider_ha.plugins._app import create_app
from airflow_provider_ha.plugins._clusters import Clusters
from airflow_provider_ha.storage.keys import JobKeys, blob
from airflow_provider_ha.storage.open import open_store
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


def test_the_last_of_many_long_lines_is_shown(page: Page, job: ShownJob, write: Write) -> None:
    written = [f"{number} ".ljust(300, "x") for number in range(500)]
    write(*written)

    shown = page.get("/jobs/flights/log").text

    assert lines_of(shown) == written


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
    assert "The job graph, which says what is secret in the log, cannot be read." in shown
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
