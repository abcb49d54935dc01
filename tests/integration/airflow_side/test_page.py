"""The pages of the jobs, served by the real application and read from a real ZooKeeper."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from airflow_provider_ha.airflow_side.page.app import create_app
from airflow_provider_ha.airflow_side.page.clusters import BoundedCalls, Clusters
from airflow_provider_ha.airflow_side.page.rendering import NOTHING
from airflow_provider_ha.checkpoints.verify.codes import MEANINGS, Code
from airflow_provider_ha.config import HaConfig, S3Options
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator, Create
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.jobs.model import JobState, Status
from airflow_provider_ha.jobs.runs.submissions import Failure, StartTimes
from airflow_provider_ha.jobs.runs.watchers import Announcement
from airflow_provider_ha.storage.open_storage import open_store
from airflow_provider_ha.testing.waiting import wait_until
from tests.conftest import FAST
from tests.support import airflow_auth
from tests.support.clusters.rebuild_helpers import job
from tests.support.clusters.shown_cluster import ShownJob, now, write_cluster
from tests.support.mounted_page import Page


pytestmark = pytest.mark.airflow
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def clusters(config: HaConfig) -> Iterator[Clusters]:
    """The test's own cluster."""
    made = Clusters(names=lambda: ["spark_ha_default"], config_of=lambda _: config, idle_seconds=0.2)
    yield made
    made.close()


@pytest.fixture
def app(clusters: Clusters, monkeypatch: pytest.MonkeyPatch) -> FastAPI:
    """The application, for a user who is logged in."""
    made = create_app(clusters)
    airflow_auth.signed_in(made, monkeypatch)
    return made


@pytest.fixture
def page(app: FastAPI) -> Page:
    return Page(app)


def rows(text: str) -> list[str]:
    """Return the jobs of a list in their order."""
    return re.findall(r'data-key="job-([^"]+)"', text)


@pytest.fixture(scope="module")
def filled(zookeeper_server: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HaConfig]:
    """A cluster with jobs in every state, which tests only read."""
    root = f"file://{tmp_path_factory.mktemp('shown')}/storage"
    config = HaConfig.build(zookeeper=zookeeper_server.hosts, storage_root=root, cluster_id="shown", timings=FAST)
    coordinator = KazooCoordinator.connect(config)
    write_cluster(coordinator, open_store(config), ClusterPaths(config.root, config.cluster_id), others=3)
    yield config
    coordinator.close()


@pytest.fixture(scope="module")
def shared(filled: HaConfig) -> Iterator[Clusters]:
    made = Clusters(names=lambda: ["spark_ha_default"], config_of=lambda _: filled)
    yield made
    made.close()


@pytest.fixture
def shown_page(shared: Clusters, monkeypatch: pytest.MonkeyPatch) -> Page:
    """The pages of that cluster."""
    made = create_app(shared)
    airflow_auth.signed_in(made, monkeypatch)
    return Page(made)


def test_the_list_begins_with_what_needs_attention_and_says_why(shown_page: Page) -> None:
    shown = shown_page.get("/").text

    assert rows(shown) == ["payments", "clicks", "orders", "sensor-00", "sensor-01", "sensor-02"]
    assert "2 need attention" in shown
    assert "the same error came 3 times at batch 310" in shown


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"q": "SENSOR"}, ["sensor-00", "sensor-01", "sensor-02"]),
        ({"state": "LOST"}, ["payments"]),
        ({"state": "attention"}, ["payments", "clicks"]),
        ({"state": "RUNNING", "sort": "job"}, ["orders", "sensor-00", "sensor-01", "sensor-02"]),
        ({"sort": "restarts"}, ["orders", "clicks", "payments", "sensor-00", "sensor-01", "sensor-02"]),
        ({"sort": "checkpoint", "state": "attention"}, ["clicks", "payments"]),
        ({"sort": "lag"}, ["orders", "sensor-02", "sensor-01", "clicks", "payments", "sensor-00"]),
        ({"sort": "host", "state": "RUNNING"}, ["orders", "sensor-00", "sensor-01", "sensor-02"]),
        ({"q": "nothing"}, []),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else "",
)
def test_the_list_is_searched_filtered_and_sorted(shown_page: Page, asked: dict[str, str], found: list[str]) -> None:
    assert rows(shown_page.get("/", params=asked).text) == found


def test_the_list_has_the_lag_that_a_leader_tells_and_no_other(shown_page: Page) -> None:
    shown = shown_page.get("/").text

    lag = dict(re.findall(r'data-key="job-([^"]+)".*?data-label="Lag \(rows\)">([^<]+)<', shown, re.DOTALL))
    unknown = dict.fromkeys(("payments", "clicks", "sensor-00"), NOTHING)
    assert lag == {"orders": "1,240", "sensor-01": "1", "sensor-02": "2", **unknown}


@pytest.mark.parametrize("asked", [{"page": "0"}, {"sort": "colour"}, {"page": "x"}])
def test_an_address_that_cannot_be_used_is_a_page_that_says_so(page: Page, asked: dict[str, str]) -> None:
    answer = page.get("/", params=asked)

    assert answer.status_code == 400
    assert "This address cannot be used" in answer.text


def test_a_jobs_page_shows_who_led_and_what_can_be_restored(shown_page: Page) -> None:
    shown = shown_page.get("/jobs/orders").text

    for text in (
        "led by <strong>worker-1</strong>",
        "its session ended in ZooKeeper",
        "recovered by cluster leader on airflow-1",
        "savepoint-before-upgrade",
        "a state file is 12 bytes short",
        "make the function idempotent by its batch id",
        "it took 32 s, and 30 s were allowed",
        "s3a://lake/revenue",
    ):
        assert text in shown


def test_a_jobs_page_shows_what_its_checkpoints_took_and_its_configuration(shown_page: Page) -> None:
    shown = shown_page.get("/jobs/orders").text

    assert ">0.8 s</td>" in shown
    assert ">3.4 GB</td>" in shown
    assert "3 kept; 0 failed under this driver; the job has resumed 3 times from one of them" in shown
    assert "<dt>checkpoint_interval</dt><dd>10.0</dd>" in shown
    assert "<dt>retained_checkpoints</dt><dd>3</dd>" in shown


def test_a_jobs_page_shows_its_standby_drivers(shown_page: Page) -> None:
    shown, other = shown_page.get("/jobs/sensor-01").text, shown_page.get("/jobs/sensor-02").text

    assert "<dt>Standby drivers</dt><dd>1 of 2 ready</dd>" in shown
    assert re.search(r"worker-1 \(process 5000\), ready since [^:]*<time", shown)
    assert "no warm-up" in shown
    assert "sensor-01/waits/driver.log" in shown
    assert "<dt>Standby drivers</dt>" not in other


def test_a_jobs_page_says_which_attempt_was_a_standby_driver(
    page: Page, config: HaConfig, coordinator: Coordinator, cluster_paths: ClusterPaths
) -> None:
    job, at = ShownJob(coordinator, open_store(config), cluster_paths, "flights"), now()
    job.submit(at).lead(at).lose(at).submit_again(at, standby=True).lead(at)

    shown = page.get("/jobs/flights").text

    assert re.findall(r"400[12](, promoted standby driver)?</span>", shown) == [", promoted standby driver", ""]


def test_a_jobs_page_shows_the_phases_of_a_recovery(
    page: Page, config: HaConfig, coordinator: Coordinator, cluster_paths: ClusterPaths
) -> None:
    job, at, second = ShownJob(coordinator, open_store(config), cluster_paths, "flights"), now(), timedelta(seconds=1)
    job.submit(at).lead(at).lose(at).submit_again(at + second).lead(at + 2 * second)
    times = StartTimes(bound_at=at + 3 * second, started_at=at + 4 * second, committed_at=at + 8 * second)
    status = Status(state=JobState.RUNNING, run=1, epoch=2, times=times, at=at)
    coordinator.commit(Create(job.paths.status, status.to_bytes()))

    shown = page.get("/jobs/flights").text

    assert "recovered in 8.0 s" in shown
    assert re.findall(r"</span> (\w+ [0-9.]+ s)</span>", shown) == [
        "submit 1.0 s",
        "lead 1.0 s",
        "bind 1.0 s",
        "start 1.0 s",
        "commit 4.0 s",
    ]


def test_a_job_that_fails_again_and_again_is_never_green(
    page: Page, config: HaConfig, coordinator: Coordinator, cluster_paths: ClusterPaths
) -> None:
    job = ShownJob(coordinator, open_store(config), cluster_paths, "flights")
    begin, mistake = now() - timedelta(minutes=3), Failure(error_class="SystemExit", message="2", batches={})
    job.submit(begin).lead(begin).lose(begin + timedelta(minutes=1), failure=mistake)
    job.submit_again(begin + timedelta(minutes=1)).lead(begin + timedelta(minutes=1))
    job.lose(begin + timedelta(minutes=2), failure=mistake).submit_again(begin + timedelta(minutes=2))

    listed, shown = page.get("/").text, page.get("/jobs/flights").text

    assert "No job needs attention" not in listed
    assert "1 needs attention" in listed
    assert "attempt 2: UNKNOWN SystemExit: 2 in the script before any batch" in listed
    assert "; 2 attempts in a row have failed" in listed
    assert "SUBMITTED" in shown
    assert "<strong>2 attempts in a row have failed.</strong>" in shown
    assert "<strong>Last failure, attempt 2, 2 in a row:</strong>" in shown
    assert "In the script before any batch." in shown


def test_a_jobs_page_shows_what_the_last_verification_has_found(shown_page: Page) -> None:
    bad, good, none = (shown_page.get(f"/jobs/{job_id}").text for job_id in ("payments", "orders", "clicks"))

    assert "NOT RESTORABLE" in bad
    assert "310.delta: it is not there" in bad
    assert MEANINGS[Code.STATE_MISSING].next_step.partition("`")[0] in bad
    assert "OF_A_LATER_RELEASE" in bad
    assert "RESTORABLE</span> <strong>checkpoint-3</strong>" in good
    assert "STATE_FALLBACK" in good
    assert "No verification yet" in none
    assert "SparkHaVerifyCheckpointOperator" in none


def test_a_lost_jobs_page_says_why_and_what_happens_next(shown_page: Page) -> None:
    shown = shown_page.get("/jobs/payments").text

    assert "<strong>Its driver is lost.</strong>" in shown
    assert "<strong>Last failure, attempt 1:</strong>" in shown
    assert "Recover it: no process will restart it." in shown
    assert "the next attempt is due" not in shown
    assert "unpause the DAG recover_jobs" in shown


@pytest.mark.parametrize("path", ["/", "/jobs/payments", "/jobs/orders", "/jobs/clicks", "/jobs/sensor-00"])
def test_no_text_of_a_record_becomes_a_part_of_the_page(shown_page: Page, path: str) -> None:
    shown = shown_page.get(path).text

    assert "<script>document" not in shown
    assert ("&lt;script&gt;document" in shown) or path == "/jobs/clicks"


@pytest.mark.parametrize("job_id", [HOSTILE, "%2e%2e", "a%00b", "x" * 300])
def test_a_job_id_that_cannot_be_one_is_refused_and_escaped(page: Page, job_id: str) -> None:
    answer = page.get(f"/jobs/{job_id}")

    assert answer.status_code in {400, 404}
    assert HOSTILE not in answer.text


def test_a_job_that_is_not_there_is_named(page: Page) -> None:
    answer = page.get("/jobs/nothing")

    assert answer.status_code == 404
    assert "Job &#39;nothing&#39; is not known" in answer.text


def test_a_job_that_is_not_there_leads_to_those_that_are(shown_page: Page) -> None:
    shown = shown_page.get("/jobs/nothing").text

    assert '<a href="../jobs/orders">orders</a>' in shown
    assert "Choose from [" not in shown


def test_a_run_that_failed_has_a_bar_that_says_so(shown_page: Page) -> None:
    shown = shown_page.get("/jobs/clicks").text

    assert 'class="bar bar-failed"' in shown
    assert "bar-finished" not in shown


def test_without_storage_a_page_shows_the_records_of_zookeeper_and_names_the_missing_parts(
    page: Page, clusters: Clusters, filled: HaConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "away").write_text("no directory")
    away = filled.model_copy(update={"storage_root": f"file://{tmp_path}/away"})
    monkeypatch.setattr(clusters, "_config_of", lambda _: away)

    shown = page.get("/jobs/orders").text

    assert "led by <strong>worker-1</strong>" in shown
    assert "The plan cannot be shown" in shown
    assert "The durations of batches cannot be shown" in shown


def test_storage_that_does_not_answer_costs_its_parts_of_a_page_and_no_others(
    page: Page, clusters: Clusters, filled: HaConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        s3 = {"endpoint_url": f"http://127.0.0.1:{silent.getsockname()[1]}", "access_key": "a", "secret_key": "s"}
        away = filled.model_copy(update={"storage_root": "s3://bucket/root", "s3": S3Options.model_validate(s3)})
        monkeypatch.setattr(clusters, "_config_of", lambda _: away)
        storage = BoundedCalls("storage", next_step="Check it", seconds=0.3)
        monkeypatch.setattr(clusters, "storage", lambda _: storage)

        shown = page.get("/jobs/orders").text

    assert "led by <strong>worker-1</strong>" in shown
    for part in ("The plan", "Drills", "The durations of batches"):
        assert f"{part} cannot be shown: storage does not answer: no answer within 0.3 s" in shown


def test_a_jobs_page_has_the_figures_of_its_batches_and_queries_by_any_name(shown_page: Page) -> None:
    shown = shown_page.get("/jobs/orders", params={"span": "1h"}).text
    row = re.search(r'<tr data-at="\d+" data-series="2">.*?>revenue</td>.*?</tr>', shown)

    assert row is not None
    assert re.search(r'data-name="batch_seconds" data-value="\d\.\d+">\d\.\d\d</td>', row[0])
    assert re.search(r'data-name="lag" data-value="\d+">[\d,]+</td>', row[0])
    assert shown.count('<td class="path">&lt;script&gt;document') == len(re.findall(r'data-series="0"', shown)) - 1
    assert "<script>document" not in shown


def test_a_jobs_page_without_a_history_says_so_and_shows_the_rest(shown_page: Page) -> None:
    shown = shown_page.get("/jobs/clicks").text

    assert "No batch was committed in this time." in shown
    assert "the same error came 3 times" in shown


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("charts.js", 200),
        ("uPlot.iife.min.js", 200),
        ("uPlot-LICENSE.txt", 200),
        ("../spark_ha.py", 404),
        ("%2e%2e%2fspark_ha.py", 404),
        ("vendor", 404),
    ],
)
def test_only_static_files_are_served(page: Page, name: str, status: int) -> None:
    assert page.get(f"/static/{name}").status_code == status


def test_a_record_that_cannot_be_read_is_shown_and_its_text_escaped(
    page: Page, config: HaConfig, coordinator: Coordinator
) -> None:
    paths = job(config, coordinator, "broken").paths
    coordinator.ensure(paths.lock, paths.runs)
    coordinator.commit(Create(paths.epoch), Create(paths.status, HOSTILE.encode()))

    shown = page.get("/").text

    assert "UNREADABLE" in shown
    assert HOSTILE not in shown


def test_a_server_that_does_not_answer_is_a_page_within_seconds(
    page: Page, zookeeper_server: EmbeddedZooKeeper
) -> None:
    assert page.get("/").status_code == 200
    pid = zookeeper_server.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        answer = page.get("/")
        took = time.monotonic() - began
    finally:
        os.kill(pid, signal.SIGCONT)

    assert answer.status_code == 503
    assert "ZooKeeper" in answer.text
    assert "Next step" in answer.text
    assert took < 30


def test_a_connection_that_does_not_exist_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    made = create_app(Clusters(names=lambda: ["spark_ha_default"]))
    airflow_auth.signed_in(made, monkeypatch)

    answer = Page(made).get("/", params={"cluster": "nowhere"})

    assert answer.status_code == 400
    assert "no connection &#39;nowhere&#39;" in answer.text
    assert "Admin, Connections" in answer.text


def test_requests_share_a_session_which_is_closed_when_idle(
    page: Page, clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_provider_ha.api.ha_client import HaClient

    opened: list[Any] = []
    real = HaClient.open

    def counted(*args: Any, **kwargs: Any) -> HaClient:
        client = real(*args, **kwargs)
        opened.append(client)
        return client

    monkeypatch.setattr(HaClient, "open", counted)
    page.get("/")
    page.get("/")

    assert len(opened) == 1
    wait_until(lambda: opened[0].coordinator._closed, timeout=20, what="the idle session to be closed")
    assert page.get("/").status_code == 200
    assert len(opened) == 2


def test_a_connection_that_was_edited_does_not_end_the_session_of_a_request(config: HaConfig) -> None:
    configs = [config, config.model_copy(update={"cluster_id": "other"})]
    clusters = Clusters(names=list, config_of=lambda _: configs[0])

    with clusters.client("spark_ha_default") as client:
        del configs[0]
        with clusters.client("spark_ha_default") as other:
            assert other.config.cluster_id == "other"

        assert client.list_jobs() == []
    clusters.close()


def test_a_job_that_only_event_triggers_watch_says_that_these_start_dags(
    page: Page, config: HaConfig, coordinator: Coordinator, cluster_paths: ClusterPaths
) -> None:
    write_cluster(coordinator, open_store(config), cluster_paths)
    coordinator.ensure(cluster_paths.watchers)
    said = "An event trigger only starts a DAG"

    unwatched = page.get("/jobs/payments").text
    coordinator.commit(Announcement.of_cluster(cluster_paths, "event trigger of spark_ha_default").create())
    told = page.get("/jobs/payments").text
    coordinator.commit(Announcement.of_cluster(cluster_paths, "recoverer").create())
    recovered = page.get("/jobs/payments").text

    assert "Its driver is lost." in unwatched
    assert (said in unwatched, said in told, said in recovered) == (False, True, False)
