"""The pages of an Airflow with several clusters: what one cannot do to the others, and who is told of which."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_ha.airflow_side.page.app import create_app
from airflow_provider_ha.airflow_side.page.clusters import AT_ONCE, Clusters, MissingConnectionError
from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import ConfigurationError, NotConnectedError
from airflow_provider_ha.testing.waiting import wait_until
from tests.support import airflow_auth
from tests.support.mounted_page import Page


pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("database")]
DEFAULT, OTHER = "spark_ha_default", "prod"


@pytest.fixture
def configs(config: HaConfig) -> dict[str, HaConfig]:
    """The connections of this Airflow: one cluster."""
    return {DEFAULT: config}


@pytest.fixture
def clusters(configs: dict[str, HaConfig]) -> Iterator[Clusters]:
    def config_of(name: str) -> HaConfig:
        if name == "warehouse":
            raise ConfigurationError("connection 'warehouse' is of type 'postgres'")
        if name not in configs:
            raise MissingConnectionError(f"Airflow has no connection {name!r}")
        return configs[name]

    made = Clusters(names=lambda: [DEFAULT, *configs], config_of=config_of, idle_seconds=0.2)
    yield made
    made.close()


@pytest.fixture
def page(clusters: Clusters) -> Page:
    return Page(create_app(clusters))


@pytest.fixture
def silent() -> Iterator[str]:
    """Address of a server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def in_threads(count: int, function: Any) -> list[threading.Thread]:
    threads = [threading.Thread(target=function) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads


def test_a_cluster_that_hangs_takes_nothing_from_the_pages_of_another(
    page: Page, per_dag: Any, clusters: Clusters, config: HaConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, end, answers = airflow_auth.headers_of(per_dag, "erin", "admin"), threading.Event(), []

    def config_of(name: str) -> HaConfig:
        if name == "hangs":
            end.wait()
        return config

    def ask() -> None:
        answers.append(page.get("/", params={"cluster": "hangs"}, headers=admin).status_code)

    monkeypatch.setattr(clusters, "_config_of", config_of)
    waiting = in_threads(AT_ONCE, ask)
    for thread in waiting:
        thread.join()
    healthy = page.get("/", headers=admin).status_code
    end.set()

    assert answers == [503] * AT_ONCE
    assert healthy == 200


def test_requests_that_wait_for_an_attempt_to_connect_share_its_outcome(
    clusters: Clusters, configs: dict[str, HaConfig], config: HaConfig, silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs["silent"] = config.model_copy(update={"zookeeper": silent})
    session = clusters._session("silent", configs["silent"])
    real, attempts, refused = HaClient.open, [], []

    def opened(*given: Any, **named: Any) -> HaClient:
        attempts.append(1)
        wait_until(lambda: session._users == 3, timeout=30, what="the others to wait")
        return real(*given, **named)

    def ask() -> None:
        with pytest.raises(NotConnectedError), clusters.client("silent"):
            pass
        refused.append(1)

    monkeypatch.setattr(HaClient, "open", opened)
    for thread in in_threads(3, ask):
        thread.join()

    assert (len(attempts), len(refused)) == (1, 3)


@pytest.mark.parametrize("name", ["warehouse", "nothing"])
def test_who_may_not_see_all_jobs_is_not_told_which_connections_there_are(page: Page, per_dag: Any, name: str) -> None:
    alpha, erin = (airflow_auth.headers_of(per_dag, *who) for who in (("alpha", "viewer"), ("erin", "admin")))

    stranger = page.get("/", params={"cluster": name}, headers=alpha)
    administrator = page.get("/", params={"cluster": name}, headers=erin)

    assert stranger.status_code == 403
    assert name not in stranger.text
    assert administrator.status_code == 400
    assert name in administrator.text


def test_the_list_names_no_other_connection_to_who_may_not_see_all_jobs(
    page: Page, per_dag: Any, configs: dict[str, HaConfig], config: HaConfig
) -> None:
    configs[OTHER] = config
    alpha, erin = (airflow_auth.headers_of(per_dag, *who) for who in (("alpha", "viewer"), ("erin", "admin")))

    stranger, administrator = page.get("/", headers=alpha), page.get("/", headers=erin)
    guessed = page.get("/", params={"cluster": OTHER}, headers=alpha)
    del configs[DEFAULT]
    led_on = page.get("/", headers=alpha)

    assert (stranger.status_code, guessed.status_code, led_on.status_code) == (200, 403, 403)
    assert f">{OTHER}</option>" in administrator.text
    assert OTHER not in stranger.text + guessed.text


def test_without_a_default_connection_the_list_leads_to_another_cluster(
    page: Page, per_dag: Any, configs: dict[str, HaConfig], config: HaConfig
) -> None:
    erin = airflow_auth.headers_of(per_dag, "erin", "admin")
    del configs[DEFAULT]
    without_any = page.get("/", headers=erin)
    configs[OTHER] = config

    answer, named = page.get("/", headers=erin), page.get("/", params={"cluster": DEFAULT}, headers=erin)

    assert without_any.status_code == 400
    assert (answer.status_code, answer.headers["location"]) == (303, f"?cluster={OTHER}")
    assert named.status_code == 400
