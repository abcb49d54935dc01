"""The pages of the jobs, served by the real application and read from a real ZooKeeper."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.api_fastapi.core_api.security import get_user
from fastapi import FastAPI

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Create
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.plugins._app import create_app
from airflow_provider_ha.plugins._clusters import Clusters
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.rebuild_helpers import drive, job, submit
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
def app(clusters: Clusters) -> FastAPI:
    """The application, for a user who is logged in."""
    made = create_app(clusters)
    made.dependency_overrides[get_user] = lambda: "someone"
    return made


@pytest.fixture
def page(app: FastAPI) -> Page:
    return Page(app)


def test_the_list_shows_a_job_with_its_state_and_leader(
    page: Page, config: HaConfig, coordinator: Coordinator, tmp_path: Path
) -> None:
    context = job(config, coordinator, "flights")
    driver = drive(context, submit(context, tmp_path))

    shown = page.get("/").text

    assert "flights" in shown
    assert "STARTING" in shown
    driver.leadership.release()


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
    assert "What to do" in answer.text
    assert took < 30


def test_a_connection_that_does_not_exist_is_named_with_what_to_do() -> None:
    made = create_app(Clusters(names=lambda: ["spark_ha_default"]))
    made.dependency_overrides[get_user] = lambda: "someone"

    answer = Page(made).get("/", params={"cluster": "nowhere"})

    assert answer.status_code == 400
    assert "no connection &#39;nowhere&#39;" in answer.text
    assert "Admin, Connections" in answer.text


def test_requests_share_a_session_which_is_closed_when_idle(
    page: Page, clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_provider_ha.control.client import HaClient

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
