"""A job on a standalone cluster loses its host, with the disk and every process there, and goes on on another host.

Everything is real: two workers on test hosts, Spark's own drivers and executors, the client that submits. Working
directories lie on a directory that both hosts see, as NFS would be, or on an S3 server; then nothing of them is on the
file systems of the hosts.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import JobSpec
from airflow_provider_ha.jobs.runs.submissions import Submission
from airflow_provider_ha.testing.waiting import wait_until
from airflow_provider_ha.timings import Timings
from tests.support.clusters.standalone_cluster import StandaloneCluster, command_of
from tests.support.clusters.standalone_requests import JOB_CONF, MARKS, PATIENCE, SMALL_EXECUTOR, submitted_to
from tests.support.s3.s3_server import S3Access
from tests.support.s3.versitygw import ROOT_SECRET_KEY
from tests.support.spark.driver_helpers import APPS, Stream
from tests.support.spark.layered_job import on_s3, s3a_class_path


pytestmark = [*MARKS, pytest.mark.timeout(1800)]
JOB = "counts"


@pytest.fixture(params=[pytest.param("mounted", marks=pytest.mark.hours), "s3"])
def config(config: HaConfig, request: pytest.FixtureRequest, tmp_path: Path) -> HaConfig:
    """A cluster whose leaders bear a busy machine: one leadership is lost here, and that one with its host."""
    patient = config.model_copy(update={"timings": Timings()})
    if request.param == "mounted":
        return patient
    s3: S3Access = request.getfixturevalue("s3")
    return on_s3(patient, s3, tmp_path)


@pytest.fixture
def client(config: HaConfig) -> Iterator[HaClient]:
    with HaClient.open(config) as opened:
        yield opened


@pytest.fixture
def stream(tmp_path_factory: pytest.TempPathFactory) -> Stream:
    return Stream(tmp_path_factory.mktemp("stream"))


@pytest.fixture
def job(client: HaClient, cluster: StandaloneCluster, stream: Stream) -> JobClient:
    """The job, with an executor in a separate process."""
    conf = JOB_CONF | SMALL_EXECUTOR
    if client.config.s3 is not None:
        conf |= s3a_class_path()
    stream.feed(3)
    job = client.job(JOB)
    job.submit(
        JobSpec(
            job_id=JOB,
            request_id=new_id(),
            application=str(APPS / "counts.py"),
            arguments=[*stream.arguments, "0"],
            conf=conf,
            ha=HaOptions(checkpoint_interval=0, restart_delay=0, allow_remote_executors=True),
            **submitted_to(cluster, client.config),
        )
    )
    return job


def newest(job: JobClient) -> Submission:
    run = job.snapshot().run
    assert run is not None
    assert run.newest is not None
    return run.newest.submission


def await_output(stream: Stream) -> None:
    """Wait until every row is in sqlite, and each window that is over in the output, once."""

    def complete() -> bool:
        try:
            rows, windows = stream.seen(), stream.windows()
        except (sqlite3.OperationalError, FileNotFoundError):  # nothing was written yet
            return False
        over = stream.expected_windows(stream.files - 1)
        return rows == stream.expected_rows(stream.files) and windows == over

    wait_until(complete, timeout=PATIENCE, what="the whole output")


def test_a_job_that_loses_its_host_is_recovered_on_another_one(
    job: JobClient, cluster: StandaloneCluster, stream: Stream
) -> None:
    await_output(stream)
    lost = cluster.host_of(newest(job).submission_id)
    commands = [command_of(each) for host in cluster.hosts for each in host.processes()]
    assert not [command for command in commands if ROOT_SECRET_KEY in command]
    assert any(host.executors() for host in cluster.hosts), "state is written by another process than the driver's"

    lost.lose()
    stream.feed(2)
    wait_until(lambda: job.snapshot().state is JobState.LOST, timeout=PATIENCE, what="the loss")
    job.recover(by="test")
    await_output(stream)

    snapshot = job.snapshot()
    assert (snapshot.epoch, newest(job).attempt) == (2, 2)
    assert cluster.host_of(newest(job).submission_id) is not lost
