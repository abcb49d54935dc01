"""A job on a standalone cluster loses its host, with the disk and every process there, and goes on on another host.

Everything is real: two workers on test hosts, Spark's own drivers and executors, the client that submits. Working
directories lie on a directory that both hosts see, as NFS would be, or on an S3 server; then nothing of them is on the
file systems of the hosts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.jobs.options.job_options import HaOptions
from tests.support.clusters.standalone_cluster import StandaloneCluster, command_of
from tests.support.clusters.standalone_requests import (
    MARKS,
    SMALL_EXECUTOR,
    await_output,
    newest,
    recover_once_lost,
    submit_counts,
)
from tests.support.s3.s3_server import S3Access
from tests.support.s3.versitygw import ROOT_SECRET_KEY
from tests.support.spark.driver_helpers import Stream
from tests.support.spark.layered_job import on_s3


pytestmark = [*MARKS, pytest.mark.timeout(1800)]


@pytest.fixture(params=[pytest.param("mounted", marks=pytest.mark.hours), "s3"])
def config(config: HaConfig, request: pytest.FixtureRequest, tmp_path: Path) -> HaConfig:
    """A cluster, and the store of its jobs."""
    if request.param == "mounted":
        return config
    s3: S3Access = request.getfixturevalue("s3")
    return on_s3(config, s3, tmp_path)


@pytest.fixture
def client(config: HaConfig) -> Iterator[HaClient]:
    with HaClient.open(config) as opened:
        yield opened


@pytest.fixture
def job(client: HaClient, cluster: StandaloneCluster, stream: Stream) -> JobClient:
    """The job, with an executor in a separate process."""
    job = client.job("counts")
    options = HaOptions(checkpoint_interval=0, restart_delay=0, allow_remote_executors=True)
    submit_counts(job, cluster, stream, SMALL_EXECUTOR, options)
    return job


def test_a_job_that_loses_its_host_is_recovered_on_another_one(
    job: JobClient, cluster: StandaloneCluster, stream: Stream
) -> None:
    await_output(stream)
    lost = cluster.host_of(newest(job).submission_id)
    commands = [command_of(each) for host in cluster.hosts for each in host.processes()]
    assert not [command for command in commands if ROOT_SECRET_KEY in command]
    assert any(host.executors() for host in cluster.hosts), "state is written by another process than the driver's"

    lost.lose()
    recover_once_lost(job, stream)

    snapshot = job.snapshot()
    assert (snapshot.epoch, newest(job).attempt) == (2, 2)
    assert cluster.host_of(newest(job).submission_id) is not lost
