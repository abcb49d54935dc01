"""``spark-ha`` against the test's own cluster, and two jobs: one to restore from, one to restore into."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.areas.pins import pin
from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.cli.app import app
from airflow_provider_ha.cli.session import ClusterTarget
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.submit.preparation import upload
from airflow_provider_ha.storage.open_storage import open_store
from airflow_provider_ha.testing.proxy import FaultProxy
from tests.support.checkpoints.checkpoint_helpers import Job, led_job
from tests.support.clusters import submit_helpers as helpers
from tests.support.clusters.cluster_helpers import Cluster
from tests.support.clusters.coordination_helpers import job_paths
from tests.support.clusters.lost_jobs import further_clients
from tests.support.clusters.shown_cluster import ShownJob
from tests.support.clusters.whole_jobs import whole_job
from tests.support.hdfs.hdfs_server import Hdfs, hdfs_server
from tests.support.s3.s3_server import S3Access, real_server
from tests.support.spark.recorded_job import QUERY, copy_output, recorded_job


RECORDED_BATCH = 9  # of checkpoint 1


@pytest.fixture
def environment(config: HaConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tell the command by its environment which cluster it is about."""
    monkeypatch.setenv("SPARK_HA_ZOOKEEPER", config.zookeeper)
    monkeypatch.setenv("SPARK_HA_STORAGE_ROOT", config.storage_root)
    monkeypatch.setenv("SPARK_HA_CLUSTER_ID", config.cluster_id)


@pytest.fixture
def spark_ha(environment: None) -> Any:
    """Call the command; returns (exit code, stdout, stderr)."""
    del environment

    def call(*words: str) -> tuple[int, str, str]:
        done = CliRunner().invoke(app, list(words), obj=ClusterTarget())
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.stdout, done.stderr

    return call


@pytest.fixture
def copy(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[JobContext]:
    """The job that is restored into."""
    monkeypatch.setenv("SPARK_HOME", str(helpers.stand_in_spark(tmp_path / "spark")))
    context = helpers.context(config, coordinator, job_id="copy")
    yield context
    helpers.kill_all(context)


@pytest.fixture
def source(config: HaConfig, coordinator: Coordinator, copy: JobContext, tmp_path: Path) -> Iterator[Job]:
    """The job that is restored from: it has a leader, and it has checkpoint 1, whose sink no other job shares."""
    graph = copy.graphs.write_graph(upload(copy, helpers.request(helpers.script(tmp_path))))
    with led_job(config, coordinator) as led:
        pin(recorded_job() / "live", led.pin_path(1), {QUERY: RECORDED_BATCH})
        shown = led.checkpoint(1, RECORDED_BATCH, sink=QuerySink(kind=SinkKind.OTHER, format="console"))
        led.checkpoints.add(led.leadership, shown.model_copy(update={"graph": graph.sha256}))
        yield led


@pytest.fixture
def job(config: HaConfig, coordinator: Coordinator) -> Iterator[Job]:
    with led_job(config, coordinator) as led:
        yield led


@pytest.fixture
def rival(config: HaConfig) -> Iterator[KazooCoordinator]:
    session = KazooCoordinator.connect(config)
    yield session
    session.close()


@pytest.fixture
def cluster(config: HaConfig, coordinator: KazooCoordinator, tmp_path: Path) -> Cluster:
    """The cluster that the connection leads to, with jobs whose graphs can be read."""
    return Cluster(config, coordinator, tmp_path)


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Access]:
    """A server that decides conditional requests in one step."""
    with real_server() as access:
        yield access


@pytest.fixture(scope="module")
def hdfs() -> Iterator[Hdfs]:
    """One HDFS for all of them."""
    with hdfs_server() as server:
        yield server


@pytest.fixture
def over(copy: JobContext, tmp_path: Path) -> JobContext:
    """A job that is over, with everything that a job can have."""
    return whole_job(copy, helpers.script(tmp_path))


@pytest.fixture
def context(job: Job) -> JobContext:
    return helpers.context(job.config, job.coordinator, job_id=job.paths.job_id)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """The output of the query at rest: its log has the batch that is not committed."""
    return copy_output(tmp_path / "out")


@pytest.fixture
def proxy(config: HaConfig) -> Iterator[FaultProxy]:
    with FaultProxy(config.zookeeper) as proxy:
        yield proxy


@pytest.fixture
def another(config: HaConfig, cluster: Cluster) -> Iterator[Callable[[], HaClient]]:
    with further_clients(config, cluster) as connect:
        yield connect


@pytest.fixture
def client(config: HaConfig) -> Iterator[HaClient]:
    with HaClient.open(config) as opened:
        yield opened
        for job_id in opened.list_jobs():
            helpers.kill_all(opened.job(job_id)._job)


@pytest.fixture
def orders(config: HaConfig, coordinator: Coordinator, cluster_paths: ClusterPaths) -> ShownJob:
    """A job of no run yet."""
    return ShownJob(coordinator, open_store(config), cluster_paths, "orders")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return copy_output(tmp_path / "out")


@pytest.fixture
def paths(config: HaConfig) -> JobPaths:
    return job_paths(config)
