"""RUNNING is said of a job whose queries work, with a real Spark: not of one whose first batch has no end yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.jobs.model import JobState
from tests.support.clusters import submit_helpers
from tests.support.spark.driver_helpers import Stream
from tests.support.spark.supervised_job import SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
Gated = Callable[..., SupervisedJob]
HELD = "waiting for the first batch of 'rows'"


@pytest.fixture
def gated(config: HaConfig, tmp_path: Path) -> Iterator[Gated]:
    """Makes the job; its driver is dead afterwards."""
    with HaClient.open(config) as client:
        jobs: list[SupervisedJob] = []

        def make(*queries: str) -> SupervisedJob:
            jobs.append(SupervisedJob(client, Stream(tmp_path), queries))
            return jobs[-1]

        yield make
        for job in jobs:
            submit_helpers.kill_all(job.job._job)


def says(job: SupervisedJob, epoch: int) -> tuple[JobState, str] | None:
    """State and message of an epoch; ``None`` while it has said nothing."""
    snapshot = job.job.snapshot()
    status = snapshot.status
    return (snapshot.state, status.message) if status is not None and status.epoch == epoch else None


@pytest.mark.hours
@pytest.mark.long
def test_a_job_runs_in_each_epoch_once_its_first_batch_is_committed(gated: Gated) -> None:
    job = gated("rows")
    job.conf["spark.ui.enabled"] = "true"
    job.stream.feed(1)
    job.close_gate("batch")
    job.submit()
    job.await_held("batch")
    job.await_alive(lambda: says(job, 1) == (JobState.STARTING, HELD), "what the first epoch waits for")

    job.open_gate("batch")
    job.await_alive(lambda: says(job, 1) == (JobState.RUNNING, ""), "RUNNING")
    assert job.progress(1, "rows").committed >= 0
    status = job.job.snapshot().status
    assert status is not None
    assert (status.application_id[:6], status.spark_ui[:7]) == ("local-", "http://"), "a link leads to Spark's own page"

    job.close_gate("batch")
    job.stream.feed(1)
    job.await_held("batch")
    committed = job.progress(1, "rows").committed
    job.kill()
    job.recover()
    job.await_alive(lambda: says(job, 2) == (JobState.STARTING, HELD), "what the second epoch waits for")
    assert job.progress(2, "rows").committed == committed
    job.open_gate("batch")
    job.await_alive(lambda: says(job, 2) == (JobState.RUNNING, ""), "RUNNING again")
    assert job.progress(2, "rows").committed > committed


@pytest.mark.hours
@pytest.mark.long
def test_a_job_without_data_runs_once_its_first_trigger_has_found_none(gated: Gated) -> None:
    job = gated("rows")
    job.stream.source.mkdir(parents=True)

    job.submit()

    job.await_alive(lambda: says(job, 1) == (JobState.RUNNING, ""), "RUNNING without data")
    assert job.progress(1, "rows").planned == -1
