"""Fixtures of the driver's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from tests.support.spark.driver_helpers import ManagedJob, Stream


@pytest.fixture
def job(config: HaConfig, coordinator: Coordinator, tmp_path: Path) -> Iterator[ManagedJob]:
    """A job that is not submitted yet; what it started is dead afterwards."""
    managed = ManagedJob(config, coordinator, tmp_path)
    yield managed
    managed.close()


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    """An empty stream."""
    return Stream(tmp_path)
