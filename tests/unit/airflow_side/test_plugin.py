"""The plugin "Spark HA": what every process of Airflow loads, and what its API server mounts."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points

import pytest
from airflow.configuration import conf

from airflow_provider_ha.airflow_side import plugin
from airflow_provider_ha.airflow_side.compat import AIRFLOW_V_3_1_PLUS
from airflow_provider_ha.airflow_side.page.clusters import Clusters
from airflow_provider_ha.airflow_side.page_urls import has_pages
from airflow_provider_ha.airflow_side.plugin import SparkHaPlugin
from tests.support.clusters.airflow_helpers import AS_LIBRARY
from tests.support.mounted_page import Page


pytestmark = pytest.mark.slow  # the API server of Airflow takes seconds to import
RESERVED = ("/api/v2", "/ui", "/execution", "/auth", "/pluginsv2")  # airflow.api_fastapi.app


ON_3_1 = pytest.mark.skipif(not AIRFLOW_V_3_1_PLUS, reason="Airflow shows the pages of plugins from 3.1 on")


@pytest.fixture
def client() -> Page:
    from airflow_provider_ha.airflow_side.page.app import create_app  # Airflow 3.0 has not all that it imports

    return Page(create_app(Clusters(names=lambda: ["spark_ha_default"])))


def test_it_is_found_by_its_entry_point() -> None:
    found = {entry.name: entry.load() for entry in entry_points(group="airflow.plugins")}

    assert found["spark_ha"] is SparkHaPlugin


def test_a_process_that_mounts_no_pages_builds_none() -> None:
    heavy = ("kazoo", "boto3", "jinja2.loaders", "airflow_provider_ha.airflow_side.page.app", "airflow_provider_ha.api")
    program = (
        "import sys\n"
        "import airflow_provider_ha.airflow_side.plugin as module\n"
        "module.SparkHaPlugin().external_views\n"
        f"print(sorted(set({heavy!r}) & set(sys.modules) - {{'jinja2.loaders'}}))"
    )

    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert printed.strip().splitlines()[-1] == "[]"


@pytest.mark.parametrize(("release", "has"), [("3.0.6", False), ("3.1.0", True), ("3.3.2", True), ("4.0.0b1", True)])
def test_pages_need_airflow_3_1(release: str, has: bool) -> None:
    assert has_pages(release) is has


def test_airflow_3_0_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "airflow_version", "3.0.6")

    assert (SparkHaPlugin().fastapi_apps, SparkHaPlugin().external_views) == ([], [])


def test_an_airflow_outside_the_range_has_no_pages_and_logs_the_range() -> None:
    program = (
        "import airflow; airflow.__version__ = '3.4.0'\n"
        "from airflow_provider_ha.airflow_side.plugin import SparkHaPlugin\n"
        "print((SparkHaPlugin().fastapi_apps, SparkHaPlugin().external_views))"
    )
    environment = os.environ | AS_LIBRARY

    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)

    assert done.stdout.strip().splitlines()[-1] == "([], [])"
    assert "runs on Airflow 3.0 to 3.3; Airflow 3.4.0 is installed" in done.stdout + done.stderr


@ON_3_1
def test_the_application_is_one_and_not_below_a_path_of_airflow() -> None:
    (first,), (second,) = SparkHaPlugin().fastapi_apps, SparkHaPlugin().fastapi_apps

    assert first["app"] is second["app"]
    assert not first["url_prefix"].startswith(RESERVED)


@ON_3_1
@pytest.mark.parametrize(
    ("base_url", "href"), [("", "/spark-ha/"), ("http://airflow.example:8080/team/a/", "/team/a/spark-ha/")]
)
def test_the_navigation_leads_below_the_path_of_airflow(
    base_url: str, href: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conf, "get", lambda *_, **__: base_url)
    plugin._views.cache_clear()

    views = {view["destination"]: view for view in SparkHaPlugin().external_views}
    plugin._views.cache_clear()

    assert views["nav"]["href"] == href
    assert views["dag"]["href"] == f"{href}?dag={{DAG_ID}}"
    assert views["dag_run"]["href"] == f"{href}dag-runs/{{DAG_ID}}/{{RUN_ID}}"
    assert views["task_instance"]["href"] == f"{href}dag-runs/{{DAG_ID}}/{{RUN_ID}}/tasks/{{TASK_ID}}/{{MAP_INDEX}}"


@ON_3_1
def test_airflow_takes_every_entry_as_it_is() -> None:
    from airflow.api_fastapi.core_api.datamodels.plugins import ExternalViewResponse

    views = SparkHaPlugin().external_views
    taken = [ExternalViewResponse.model_validate(view) for view in views]

    assert [view.destination for view in taken] == ["nav", "dag", "dag_run", "task_instance"]
    assert len({view.url_route for view in taken}) == len(views), "Airflow drops the second of two equal ones"


@ON_3_1
@pytest.mark.parametrize("path", ["/", "/static/page.css", "/docs", "/redoc", "/openapi.json", "/unknown"])
def test_without_a_user_there_is_no_page(path: str, client: Page) -> None:
    answer = client.get(path)

    assert answer.status_code in {401, 404}
    assert "leader" not in answer.text


@ON_3_1
def test_an_anonymous_user_sees_the_next_step(client: Page) -> None:
    answer = client.get("/")

    assert answer.status_code == 401
    assert "Log in to Airflow in this browser" in answer.text


@ON_3_1
def test_every_answer_forbids_scripts_and_frames_from_elsewhere(client: Page) -> None:  # also an error page
    policy = client.get("/").headers["Content-Security-Policy"]

    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'self'" in policy
    assert "unsafe" not in policy
