"""Fixtures of the driver's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from tests.support.clusters import submit_helpers
from tests.support.spark.driver_helpers import ManagedJob, Stream
from tests.support.spark.supervised_job import SupervisedJob


@pytest.fixture
def managed(config: HaConfig, coordinator: Coordinator, tmp_path: Path) -> Iterator[ManagedJob]:
    """A job that is not submitted yet; what it started is dead afterwards."""
    job = ManagedJob(config, coordinator, tmp_path)
    yield job
    job.close()


@pytest.fixture
def gated(config: HaConfig, tmp_path: Path) -> Iterator[SupervisedJob]:
    """A job with the gated script under its supervisor, which is dead afterwards."""
    with HaClient.open(config) as client:
        job = SupervisedJob(client, Stream(tmp_path))
        yield job
        submit_helpers.kill_all(job.job._job)


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    """An empty stream."""
    return Stream(tmp_path)
