"""A host loses all its drivers in one moment, and one call of the cluster leader recovers every job."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil
import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.fleet.cluster_leader import ClusterLeader
from airflow_provider_ha.fleet.reconciler import ReconcileOutcome
from airflow_provider_ha.jobs.model import JobState
from tests.support.spark.driver_helpers import Stream
from tests.support.spark.supervised_job import SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]

JOBS = ("first", "second", "third")


@pytest.fixture
def jobs(client: HaClient, tmp_path: Path) -> list[SupervisedJob]:
    """Three jobs of one cluster, each with its own input and output."""
    for name in JOBS:
        (tmp_path / name).mkdir()
    return [
        SupervisedJob(client, Stream(tmp_path / name), ("windows", "rows"), job_id=name, master="local[1]")
        for name in JOBS
    ]


@pytest.mark.hours
def test_every_job_goes_on_exactly(client: HaClient, jobs: list[SupervisedJob]) -> None:
    for job in jobs:
        job.stream.feed(2)
        job.submit()
    for job in jobs:
        job.await_committed(1, 1)
        job.stream.feed(1)
    drivers = [process for job in jobs for process in job.driver()]

    for process in drivers:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    for job in jobs:
        job.await_lost()
    with ClusterLeader(client, by="test") as leader:
        leader.lead(timeout=0)
        attended = leader.settle(120)

    assert {each.job_id: each.outcome for each in attended} == dict.fromkeys(JOBS, ReconcileOutcome.RECOVERED)
    for job in jobs:
        job.await_committed(2, 2)
        assert job.job.snapshot().epoch == 2
    for job in jobs:
        job.stop("terminate")
    for job in jobs:
        result = job.await_result()
        assert result.state is JobState.FINISHED, result.reason
        assert job.stream.windows() == job.stream.expected_windows(3)
        assert job.stream.seen() == job.stream.expected_rows(3)
