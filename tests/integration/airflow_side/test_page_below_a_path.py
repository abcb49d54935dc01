"""The pages of an Airflow that is served below a path (``[api] base_url`` of ``https://host/team/a``)."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from airflow_provider_ha.airflow_side.page.app import create_app
from airflow_provider_ha.airflow_side.page.clusters import Clusters
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.storage.open_storage import open_store
from tests.support import airflow_auth
from tests.support.clusters.shown_cluster import write_cluster
from tests.support.mounted_page import token_of


pytestmark = pytest.mark.airflow
HOST, BELOW = "http://airflow.test", "/team/a"
PAGES = f"{BELOW}/spark-ha/"


@pytest.fixture
def app(
    config: HaConfig, coordinator: Coordinator, cluster_paths: ClusterPaths, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FastAPI]:
    """The pages of a cluster with jobs in every state."""
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", f"{HOST}{BELOW}")
    write_cluster(coordinator, open_store(config), cluster_paths)
    clusters = Clusters(names=lambda: ["spark_ha_default"], config_of=lambda _: config, idle_seconds=0.2)
    yield create_app(clusters)
    clusters.close()


@pytest.fixture
def client(app: FastAPI) -> TestClient:
    """Sends requests to Airflow's own application, which knows the path that it is served below."""
    airflow = FastAPI(root_path=BELOW)
    airflow.mount("/spark-ha", app)
    return TestClient(airflow, base_url=HOST, follow_redirects=False)


def addresses(shown: Any) -> set[str]:
    """Return where the links, scripts and style sheets of a page lead on this host."""
    found = re.findall(r'(?:href|src|action)="([^"#]+)"', shown.text)
    every = {urljoin(str(shown.url), html.unescape(each)) for each in found}
    return {each for each in every if each.startswith(HOST)}


@pytest.mark.parametrize("page", ["", "jobs/orders", "jobs/orders/actions/stop", "jobs/payments/restore"])
def test_everything_that_a_page_leads_to_is_there(
    app: FastAPI, client: TestClient, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    airflow_auth.signed_in(app, monkeypatch)

    led_to = addresses(client.get(PAGES + page))

    of_pages = {each for each in led_to if urlsplit(each).path.startswith(PAGES)}
    assert len(of_pages) > 3
    assert {each: client.get(each).status_code for each in of_pages} == dict.fromkeys(of_pages, 200)
    assert {urlsplit(each).path.startswith(f"{BELOW}/dags/") for each in led_to - of_pages} <= {True}


def test_a_form_leads_to_its_outcome(app: FastAPI, client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    airflow_auth.signed_in(app, monkeypatch)
    at = f"{PAGES}jobs/orders/actions/savepoint"

    answer = client.post(at, data=token_of(client.get(at).text))

    assert answer.status_code == 303
    outcome = client.get(urljoin(str(answer.url), answer.headers["location"]))
    assert "The operation is <strong>REQUESTED</strong>" in outcome.text


def test_a_tab_leads_to_its_job(app: FastAPI, client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    airflow_auth.signed_in(app, monkeypatch)
    told = {"spark_ha_run": {"job_id": "orders", "run": 1, "conn_id": "spark_ha_default"}}

    with airflow_auth.dags("alpha"), airflow_auth.dag_run("alpha", "below", {"submit": told}):
        answer = client.get(f"{PAGES}dag-runs/alpha/below")

    assert client.get(urljoin(str(answer.url), answer.headers["location"])).status_code == 200


def test_the_login_is_below_the_path_and_leads_back(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    airflow_auth.make_database()
    airflow_auth.auth_manager(monkeypatch)

    refused = client.get(f"{PAGES}jobs/orders?cluster=prod")

    [login] = [each for each in addresses(refused) if "login" in each]
    assert refused.status_code == 401
    assert urlsplit(login).path == f"{BELOW}/api/v2/auth/login"
    assert parse_qs(urlsplit(login).query)["next"] == [f"{PAGES}jobs/orders?cluster=prod"]
