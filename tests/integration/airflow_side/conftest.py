"""Triggers read real state through a counted session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from playwright.sync_api import Browser

from airflow_provider_ha.airflow_side.compat import AIRFLOW_V_3_1_PLUS
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.host.engines.registry import Engines
from airflow_provider_ha.operators._base import SparkHaBaseOperator
from tests.support import airflow_auth
from tests.support.browser import browser
from tests.support.clusters import submit_helpers as helpers
from tests.support.clusters.airflow_helpers import connection_json
from tests.support.clusters.cluster_helpers import Cluster
from tests.support.mounted_page import Page, page_of


# Airflow 3.0 has no pages of plugins, and not all that ours import.
collect_ignore_glob = [] if AIRFLOW_V_3_1_PLUS else ["test_page*.py"]


@pytest.fixture(autouse=True)
def _polls_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators read a job without a leader often."""
    monkeypatch.setattr(SparkHaBaseOperator, "poll_interval", 0.2)


@pytest.fixture
def injected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's configuration has drivers name their task as parent, and send events to the worker's receiver."""
    for name in ("PARENT_JOB", "TRANSPORT"):
        monkeypatch.setenv(f"AIRFLOW__OPENLINEAGE__SPARK_INJECT_{name}_INFO", "True")


@pytest.fixture
def airflow_connection(config: HaConfig, monkeypatch: pytest.MonkeyPatch) -> str:
    """The default connection leads to the test's own cluster."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_HA_DEFAULT", connection_json(config))
    return "spark_ha_default"


@pytest.fixture
def paths(cluster_paths: Any, coordinator: Coordinator) -> JobPaths:
    """The job that triggers watch."""
    made: JobPaths = cluster_paths.job("flights")
    return made


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Every client that the hub opened; real ones, only counted."""
    from airflow_provider_ha.triggers import _hub as hub

    real, clients = hub._open_client, []

    def counted(config: HaConfig) -> Any:
        client = real(config)
        clients.append(client)
        return client

    monkeypatch.setattr(hub, "_open_client", counted)
    yield clients
    assert not hub._hubs, "every hub was given back"


@pytest.fixture
def task_instance() -> Any:
    return SimpleNamespace(id="ti-1", dag_id="dag", task_id="task", run_id="run", map_index=-1, try_number=1)


@pytest.fixture
def page(config: HaConfig) -> Iterator[Page]:
    with page_of(config) as served:
        yield served


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A real browser."""
    with browser() as started:
        yield started


@pytest.fixture
def application(
    tmp_path: Path, config: HaConfig, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A script, and a Spark home whose spark-submit is the stand-in; every process of it is gone afterwards."""
    monkeypatch.setenv("SPARK_HOME", str(helpers.stand_in_spark(tmp_path / "spark")))
    yield str(helpers.script(tmp_path))
    helpers.kill_all(helpers.context(config, coordinator))


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Any:
    return airflow_auth.auth_manager(monkeypatch)


@pytest.fixture
def engine_remembers(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every client has the engine of the cluster, which only remembers launches."""
    monkeypatch.setattr(Engines, "of", lambda config: Engines.only(cluster.engine))


@pytest.fixture
def per_dag(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Airflow's auth manager with permissions for single DAGs."""
    return airflow_auth.per_dag_manager(monkeypatch)


@pytest.fixture(scope="module")
def database() -> Iterator[None]:
    """Airflow's database with the DAGs ``alpha`` and ``beta``."""
    airflow_auth.make_database()
    with airflow_auth.dags("alpha", "beta"):
        yield
