"""A real driver on a disk that is really full: it lives, says why it takes no checkpoint, and goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.recovery.restart_policy import outage_of
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.full_disk import SmallDisk, config_on
from tests.support.clusters.submit_helpers import alive
from tests.support.spark.driver_helpers import APPS, PATIENCE
from tests.support.spark.supervised_job import SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]
Gated = Callable[..., SupervisedJob]


@pytest.fixture
def config(zookeeper: str, tmp_path: Path, disk: SmallDisk) -> HaConfig:
    """A cluster whose work root is a separate disk, without the storage."""
    return config_on(disk, zookeeper, tmp_path)


def message(job: SupervisedJob) -> str:
    status = job.job.snapshot().status
    return status.message if status is not None else ""


def outage(job: SupervisedJob) -> str:
    run = job.job.snapshot().run
    return outage_of(run) if run is not None else ""


def test_disk_that_is_full_at_a_pin_ends_no_driver_and_the_checkpoint_follows(
    gated: Gated, disk: SmallDisk, tmp_path: Path
) -> None:
    job = gated("rows")
    job.options = HaOptions(checkpoint_interval=30, restart_in_place=False, restart_delay=0)
    job.stream.feed(1)
    job.submit_script(APPS / "timed.py", [str(job.stream.source), str(tmp_path / "notes")])
    job.await_alive(lambda: job.job.snapshot().latest_checkpoint == 1, "the first checkpoint")
    driver = job.driver()
    job.stream.feed(1)
    job.await_committed(1, 1)

    assert job.job.snapshot().latest_checkpoint == 1
    disk.fill_inodes()  # before the next checkpoint is due, and after the commit that it is for
    wait_until(lambda: "No space left on device" in message(job), timeout=PATIENCE, what="the reason in the status")
    assert job.job.snapshot().latest_checkpoint == 1
    disk.free()

    job.await_alive(lambda: job.job.snapshot().latest_checkpoint == 2, "the next checkpoint")
    assert all(alive(process.pid) for process in driver[:1])  # the JVM
    assert job.job.snapshot().epoch == 1
    wait_until(lambda: message(job) == "", timeout=PATIENCE, what="a status without a reason")


@pytest.mark.hours
def test_driver_whose_storage_is_away_before_its_script_begins_counts_as_no_attempt(
    gated: Gated, config: HaConfig, tmp_path: Path
) -> None:
    job = gated("rows")
    job.stream.feed(1)
    generations = tmp_path / "storage" / config.cluster_id / "jobs" / job.job_id / "journal" / "generation"

    job.submit_script(APPS / "timed.py", [str(job.stream.source), str(tmp_path / "notes")])
    # Spark starts for seconds before the driver writes there; without a job in ZooKeeper files there are refused.
    generations.write_text("no directory: nothing can be written below it")
    job.await_lost()

    shown = wait_until(lambda: outage(job), timeout=PATIENCE, what="the outage")
    assert "none counts as an attempt" in shown
    assert "could not be created" in shown or "could not be written" in shown
    generations.unlink()
    job.recover()
    job.await_alive(lambda: job.job.snapshot().state is JobState.RUNNING, "RUNNING")
