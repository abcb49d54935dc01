"""Fixtures of the driver's fault tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.control.client import HaClient
from tests.support.clusters import submit_helpers
from tests.support.spark.driver_helpers import Stream
from tests.support.spark.supervised_job import SupervisedJob


@pytest.fixture
def client(config: HaConfig) -> Iterator[HaClient]:
    """A client of an empty cluster; what its submissions started is dead afterwards."""
    with HaClient.open(config) as opened:
        yield opened
        for job_id in opened.list_jobs():
            submit_helpers.kill_all(opened.job(job_id)._job)


@pytest.fixture
def gated(client: HaClient, tmp_path: Path) -> Callable[..., SupervisedJob]:
    """Make the job with the gated script; it is not submitted yet."""
    return lambda *queries: SupervisedJob(client, Stream(tmp_path), queries or ("windows",))
