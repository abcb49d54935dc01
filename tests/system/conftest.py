"""Fixtures that the tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator
from tests.system.harness.first_dag import Output
from tests.system.small_airflow import SmallAirflow


@pytest.fixture(scope="module")
def client(airflow: SmallAirflow) -> Iterator[HaClient]:
    with HaClient.open(airflow.config) as opened:
        yield opened


@pytest.fixture(scope="module")
def output(airflow: SmallAirflow) -> Output:
    """Where the job writes: numbers from 0 on, each once."""
    return Output(airflow.home / "orders")


@pytest.fixture(scope="module")
def zookeeper_session(airflow: SmallAirflow) -> Iterator[Coordinator]:
    session = KazooCoordinator.connect(airflow.config)
    yield session
    session.close()
