"""Fixtures of the driver's fault tests: the cluster of a test, where its jobs work, and what runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.timings import Timings
from tests.support.clusters import submit_helpers
from tests.support.clusters.full_disk import SmallDisk, small_disk
from tests.support.clusters.standalone_cluster import StandaloneCluster, standalone_cluster
from tests.support.hdfs.hdfs_server import Hdfs, hdfs_server
from tests.support.s3.s3_server import S3Access, real_server
from tests.support.spark.driver_helpers import Stream
from tests.support.spark.kafka_server import Kafka, broker
from tests.support.spark.layered_job import on_s3
from tests.support.spark.supervised_job import SupervisedJob


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Access]:
    """A server that checks signatures and creates on condition."""
    with real_server() as access:
        yield access


@pytest.fixture
def jobs_on_s3() -> None:
    """Have the jobs of the test's cluster work in a bucket: for ``usefixtures``."""


@pytest.fixture
def config(config: HaConfig, request: pytest.FixtureRequest, tmp_path: Path) -> HaConfig:
    """A cluster that no other test uses, whose leaders bear a busy machine."""
    config = config.model_copy(update={"timings": Timings()})
    if "jobs_on_s3" not in request.fixturenames:
        return config
    return on_s3(config, request.getfixturevalue("s3"), tmp_path)


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """A standalone cluster with two workers, each on a test host."""
    with standalone_cluster(tmp_path_factory.mktemp("standalone"), hosts=2) as running:
        yield running


@pytest.fixture
def client(config: HaConfig) -> Iterator[HaClient]:
    """A client of an empty cluster; what its submissions started is dead afterwards."""
    with HaClient.open(config) as opened:
        yield opened
        for job_id in opened.list_jobs():
            submit_helpers.kill_all(opened.job(job_id)._job)


@pytest.fixture
def stream(tmp_path_factory: pytest.TempPathFactory) -> Stream:
    """Input, output and truth of ``counts.py``, outside of every test host."""
    return Stream(tmp_path_factory.mktemp("stream"))


@pytest.fixture
def gated(client: HaClient, tmp_path: Path) -> Callable[..., SupervisedJob]:
    """Make the job with the gated script; it is not submitted yet."""
    return lambda *queries: SupervisedJob(client, Stream(tmp_path), queries or ("windows",))


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    """One broker."""
    with broker() as running:
        yield running


@pytest.fixture(scope="module")
def hdfs() -> Iterator[Hdfs]:
    with hdfs_server() as server:
        yield server


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "work", size="64m", inodes=5000) as mounted:
        yield mounted


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    """A separate ZooKeeper, whose data can be lost."""
    with EmbeddedZooKeeper(tmp_path / "zookeeper") as running:
        yield running
