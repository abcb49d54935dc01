"""Copies of state whose run or job is over: what removes them, and when."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.move.move_records import MoveRequest
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.s3.s3_server import S3Access
from tests.support.spark.driver_helpers import PATIENCE, Stream
from tests.support.spark.layered_job import LayeredJob, on_s3


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.hours, pytest.mark.timeout(900)]
DAY = 86_400


@pytest.fixture
def config(config: HaConfig, s3: S3Access, tmp_path: Path) -> HaConfig:
    """A cluster whose jobs work in a bucket."""
    return on_s3(config, s3, tmp_path)


@pytest.fixture
def job(client: HaClient, tmp_path: Path) -> LayeredJob:
    """The gated job with copies; it is not submitted yet."""
    made = LayeredJob(client, Stream(tmp_path), ("windows",))
    made.options = HaOptions(checkpoint_interval=0, local_recovery=True, local_recovery_dir=str(tmp_path / "copies"))
    return made


def run_to_its_end(job: LayeredJob) -> None:
    job.stream.feed(2)
    job.submit()
    job.await_read(1)
    job.stop("suspend")
    assert job.await_result().state is JobState.FINISHED


def held(job: LayeredJob, epoch: str = "*") -> list[Path]:
    """Return the copies of a job, and their notes."""
    live = Path(job.options.local_recovery_dir or "").glob(f"v1/**/jobs/{job.job_id}/live/{epoch}")
    return [path for each in live for path in each.rglob("*") if path.is_file()]


def test_a_new_run_removes_the_copies_of_the_run_before(job: LayeredJob) -> None:
    run_to_its_end(job)
    assert held(job, "e1-*")
    shutil.rmtree(job.stream.output)  # of the first run: no run begins from nothing beside it

    job.submit(start_from="fresh", accept=(Verdict.LOSS_POSSIBLE,))
    job.await_read(2)

    assert held(job, "e2-*")
    assert held(job, "e1-*") == []


def delete(job: LayeredJob, _: HaClient) -> None:
    job.job.delete(requested_by="test")


def move(job: LayeredJob, there: HaClient) -> None:
    moved = job.client.move_job(job.job_id, there, MoveRequest(requested_by="test"))
    assert moved.state == "moved"


@pytest.mark.parametrize("end", [delete, move])
def test_copies_of_a_job_that_is_gone_are_removed_a_week_later_by_a_start_on_the_host(
    job: LayeredJob, end: Callable[[LayeredJob, HaClient], None], config: HaConfig, s3: S3Access, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "other"
    elsewhere.mkdir()
    gone = replace(job, stream=Stream(elsewhere), job_id="gone")
    run_to_its_end(gone)
    other = HaConfig.model_validate({**config.model_dump(), "cluster_id": f"n-{new_id()[:12]}"})
    with HaClient.open(on_s3(other, s3, tmp_path / "new")) as there:
        end(gone, there)
    left = held(gone)
    assert left
    foreign = left[0].with_name("of-another")
    foreign.write_text("precious")
    for path in [foreign, *left]:
        os.utime(path, (time.time() - 8 * DAY,) * 2)

    job.stream.feed(1)
    job.submit()
    job.await_read(1)

    wait_until(lambda: held(gone) == [foreign], timeout=PATIENCE, what="the removal")
    assert held(job)
