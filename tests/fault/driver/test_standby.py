"""A standby driver takes over from a lost leader, whichever of its processes died, and another one takes its place."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.runs.standbys import Standby
from airflow_provider_ha.testing.waiting import wait_until
from airflow_provider_ha.uris import split
from tests.support.clusters import submit_helpers
from tests.support.clusters.full_disk import SmallDisk, small_disk
from tests.support.hdfs.hdfs_server import CLIENT, Hdfs
from tests.support.s3.s3_server import S3Access
from tests.support.spark.driver_helpers import PATIENCE, Stream
from tests.support.spark.layered_job import LayeredJob, on_hdfs
from tests.support.spark.supervised_job import SupervisedJob, recoverer, terminate_and_compare


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


def test_a_standby_driver_takes_over_from_each_process_of_a_leader(
    gated: Callable[..., SupervisedJob], client: HaClient
) -> None:
    job = gated()
    job.options = HaOptions(checkpoint_interval=0, standby_drivers=1, class_archive=False)
    job.stream.feed(2)
    job.submit()
    job.await_committed(1, 1)

    take_over_from(job, job.jvm, 2)
    take_over_from(job, job.python, 3)
    with recoverer(client.config):
        take_over_from(job, job.supervisor, 4)
        job.await_standby()  # no supervisor was left that would start it

    terminate_and_compare(job, 5)
    wait_until(lambda: not job.standbys().living(), timeout=PATIENCE, what="the end of the standby drivers")


@pytest.mark.hours
def test_a_supervisor_that_is_asked_to_end_hands_the_job_over_between_two_batches(
    gated: Callable[..., SupervisedJob],
) -> None:
    """As the shutdown of a host does."""
    job = gated("windows", "rows")
    job.options = HaOptions(checkpoint_interval=0, standby_drivers=1, class_archive=False)
    job.stream.feed(2)
    job.submit()
    job.await_committed(1, 1)
    job.await_standby()

    job.supervisor().terminate()
    job.await_takeover(2)
    before = job.run.submissions[0].exit
    job.stream.feed(1)
    job.await_read(2)

    assert before is not None
    assert before.handed_over
    terminate_and_compare(job, 3)
    with sqlite3.connect(job.stream.database) as connection:
        assert connection.execute("select max(writes) from seen").fetchone() == (1,), "no batch is repeated"


@contextmanager
def job_on_small_disk(config: HaConfig, root: Path) -> Iterator[tuple[SupervisedJob, SmallDisk, Standby]]:
    """Yield a job that runs, the full disk of its drivers, and its standby driver, whose warm-up has failed."""
    with small_disk(root / "home", size="4m") as disk:
        small = HaConfig.model_validate({**config.model_dump(), "home_root": disk.path.as_uri()})
        with HaClient.open(small) as client:
            job = SupervisedJob(client, Stream(root), ("windows", "rows"))
            job.options = HaOptions(checkpoint_interval=0, standby_drivers=1, class_archive=False)
            job.stream.feed(2)
            try:
                job.submit()
                job.await_committed(1, 1)
                yield job, disk, wait_until(lambda: failed_warm_up(job), timeout=PATIENCE, what="a failed warm-up")
            finally:
                submit_helpers.kill_all(job.job._job)


@pytest.mark.hours
def test_a_standby_driver_whose_warm_up_fails_says_why_and_leads_after_the_loss_of_the_host(
    config: HaConfig, tmp_path: Path
) -> None:
    with job_on_small_disk(config, tmp_path) as (job, _, standby):
        assert "No space left on device" in standby.note
        assert not standby.is_ready
        assert job.job.snapshot().state is JobState.RUNNING

        job.supervisor().kill()
        job.await_takeover(2)
        job.stream.feed(1)
        job.await_read(2)

        assert job.run.submissions[1].submission.submission_id == standby.standby_id
        terminate_and_compare(job, 3)


@pytest.mark.hours
def test_a_standby_driver_whose_warm_up_failed_is_replaced_when_the_disk_has_room_again(
    config: HaConfig, tmp_path: Path
) -> None:
    with job_on_small_disk(config, tmp_path) as (job, disk, failed):
        disk.grow("400m")

        ready = wait_until(lambda: ready_standby(job), timeout=900, what="a ready standby driver", interval=1.0)

        assert ready.standby_id != failed.standby_id
        terminate_and_compare(job, 2)


def ready_standby(job: SupervisedJob) -> Standby | None:
    return next((each for each in job.standbys().living() if each.is_ready), None)


def failed_warm_up(job: SupervisedJob) -> Standby | None:
    return next((each for each in job.standbys().living() if "warm-up failed" in each.note), None)


def take_over_from(job: SupervisedJob, process: Callable[[], psutil.Process], attempt: int) -> None:
    """Kill a process of the leader, and have the standby driver become the next attempt."""
    standby = job.await_standby()
    assert job.job.snapshot().state is JobState.RUNNING
    process().kill()
    job.await_takeover(attempt)
    job.stream.feed(1)
    job.await_read(attempt)
    newest = job.run.newest
    assert newest is not None
    assert newest.submission.submission_id == standby.standby_id
    assert psutil.pid_exists(standby.pid)


@pytest.mark.usefixtures("jobs_on_s3")
def test_a_standby_driver_takes_over_a_job_on_s3(client: HaClient, tmp_path: Path, s3: S3Access) -> None:
    job = LayeredJob(client, Stream(tmp_path), ("windows", "rows"))

    take_over_twice(job)

    for view in job.run.submissions:
        epoch = view.submission.attempt  # each attempt has led, once
        found = writers(job, s3, epoch)
        assert f"{epoch}/{view.submission.submission_id}" in found
        assert {each.partition("/")[0] for each in found} <= {str(epoch), str(epoch + 1)}, "the next one fences it"


def test_a_standby_driver_takes_over_a_job_on_hdfs(config: HaConfig, hdfs: Hdfs, tmp_path: Path) -> None:
    with HaClient.open(on_hdfs(config, hdfs, tmp_path)) as client:
        try:
            take_over_twice(LayeredJob(client, Stream(tmp_path), ("windows", "rows"), conf=dict(CLIENT)))
        finally:
            submit_helpers.kill_all(client.job("gated")._job)


def writers(job: LayeredJob, s3: S3Access, epoch: int) -> set[str]:
    """Return epoch and submission of those that wrote the logs of an epoch."""
    root, found = split(job.client.config.work_uri), set()
    for name in job.content(epoch):
        if {"offsets", "commits"} & set(name.split("/")):
            key = f"{root.path.strip('/')}/{name}"
            head = s3.client().head_object(Bucket=root.authority, Key=key)
            found.add("/".join(head["Metadata"]["spark-ha-writer"].split("/")[:2]))
    return found


def take_over_twice(job: LayeredJob) -> None:
    """Have two drivers killed; the directory of each keeps what it had, and all rows are those of the truth."""
    job.options = HaOptions(checkpoint_interval=0, standby_drivers=1, class_archive=False)
    job.stream.feed(2)
    job.submit()
    job.await_committed(1, 1)

    for attempt in (2, 3):
        job.await_standby()
        job.jvm().kill()
        job.await_takeover(attempt)
        before = job.content(attempt - 1)
        job.stream.feed(1)
        job.await_read(attempt)
        after = job.content(attempt - 1)
        assert {name: after[name] for name in before} == before

    terminate_and_compare(job, 4)
