"""A running Spark job is cut off from ZooKeeper: for less than is promised it goes on, for longer it is replaced."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.testing.proxy import FaultProxy
from airflow_provider_ha.testing.waiting import wait_until
from airflow_provider_ha.timings import Timings
from tests.support.clusters import submit_helpers
from tests.support.clusters.submit_helpers import alive
from tests.support.spark.driver_helpers import PATIENCE, Stream
from tests.support.spark.supervised_job import SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]

DEFAULTS = Timings()


@pytest.fixture
def proxy(zookeeper: str) -> Iterator[FaultProxy]:
    """What lies between the driver and ZooKeeper."""
    with FaultProxy(zookeeper) as opened:
        yield opened


@pytest.fixture
def job(proxy: FaultProxy, tmp_path: Path) -> Iterator[SupervisedJob]:
    """A job with the default timings; its driver, its supervisor and this client see ZooKeeper through the proxy."""
    config = HaConfig.build(
        zookeeper=proxy.hosts,
        storage_root=f"file://{tmp_path}/storage",
        cluster_id=f"c-{new_id()[:12]}",
        timings=DEFAULTS,
    )
    with HaClient.open(config) as client:
        yield SupervisedJob(client, Stream(tmp_path), ("windows", "rows"))
        proxy.heal()
        for job_id in client.list_jobs():
            submit_helpers.kill_all(client.job(job_id)._job)


def terminate_and_compare(job: SupervisedJob, files: int) -> None:
    job.stop("terminate")
    result = job.await_result()
    assert result.state is JobState.FINISHED, result.reason
    assert job.stream.windows() == job.stream.expected_windows(files)
    assert job.stream.seen() == job.stream.expected_rows(files)


@pytest.mark.hours
def test_a_cut_of_85_percent_of_what_is_promised_stops_no_query(job: SupervisedJob, proxy: FaultProxy) -> None:
    job.stream.feed(2)
    job.submit()
    job.await_committed(1, 1)
    jvm = job.driver()[0].pid

    proxy.cut()
    job.stream.feed(1)
    threading.Event().wait(0.85 * DEFAULTS.tolerated_cut(hosts=1))
    proxy.heal()

    job.stream.feed(1)
    job.await_read(1)
    assert job.job.snapshot().epoch == 1
    assert alive(jvm), "the same driver goes on"
    terminate_and_compare(job, 4)


def test_after_a_longer_cut_the_driver_is_gone_before_its_session_and_the_next_one_is_exact(
    job: SupervisedJob, proxy: FaultProxy
) -> None:
    job.stream.feed(2)
    job.submit()
    job.await_committed(1, 1)
    driver, working = [process.pid for process in job.driver()], job.working(1)
    assert working is not None

    cut, cut_at = time.monotonic(), time.time()
    proxy.cut()
    job.stream.feed(1)
    wait_until(lambda: not any(map(alive, driver)), timeout=PATIENCE, what="the driver to end by itself")
    survived = time.monotonic() - cut
    threading.Event().wait(DEFAULTS.session_timeout - survived)
    proxy.heal()
    job.await_lost()

    commits = [path.stat().st_mtime for path in working.glob("*/commits/[0-9]*")]
    assert max(commits) < cut_at + DEFAULTS.session_timeout, "no batch is committed once another may lead"
    job.recover()
    job.stream.feed(1)
    job.await_read(2)
    terminate_and_compare(job, 4)
