"""Lets a module run on the fake ensemble as well: it says ``BACKENDS = ("fake", "zookeeper")``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from tests.conftest import FAST
from tests.contract.clusters import Cluster, FakeCluster, RealCluster
from tests.support.clusters.pointer_helpers import leading
from tests.support.fake import FakeEnsemble
from tests.support.hdfs.hdfs_server import Hdfs, hdfs_server
from tests.support.s3.s3_server import S3Access, moto_server, real_server


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "backend" in metafunc.fixturenames:
        metafunc.parametrize("backend", getattr(metafunc.module, "BACKENDS", ("zookeeper",)), scope="session")


@pytest.fixture
def config(backend: str, tmp_path: Path, request: pytest.FixtureRequest) -> HaConfig:
    """A cluster that no other test uses."""
    hosts = request.getfixturevalue("zookeeper") if backend == "zookeeper" else "fake:1"
    return HaConfig.build(
        zookeeper=hosts, storage_root=f"file://{tmp_path}/storage", cluster_id=f"c-{new_id()[:12]}", timings=FAST
    )


@pytest.fixture
def ensemble() -> FakeEnsemble:
    """The fake one."""
    return FakeEnsemble(tick=0.2)


@pytest.fixture
def coordinator(backend: str, config: HaConfig, ensemble: FakeEnsemble) -> Iterator[Coordinator]:
    """A session with the backend."""
    if backend == "fake":
        yield ensemble.connect(config)
        return
    from airflow_provider_ha.coordination._kazoo import KazooCoordinator

    session = KazooCoordinator.connect(config)
    yield session
    session.close()


@pytest.fixture
def cluster(backend: str, config: HaConfig, ensemble: FakeEnsemble) -> Iterator[Cluster]:
    """The backend, with what can go wrong with it."""
    cluster: Cluster = FakeCluster(config, ensemble) if backend == "fake" else RealCluster(config)
    yield cluster
    cluster.close()


@pytest.fixture(scope="session")
def moto() -> Iterator[S3Access]:
    with moto_server() as access:
        yield access


@pytest.fixture(scope="session")
def real() -> Iterator[S3Access]:
    with real_server() as access:
        yield access


@pytest.fixture(params=["moto", "real"])
def s3(request: pytest.FixtureRequest) -> S3Access:
    """An S3 server."""
    access: S3Access = request.getfixturevalue(request.param)
    return access


@pytest.fixture(scope="session")
def hdfs() -> Iterator[Hdfs]:
    """A real name node and data node, for all tests of this process."""
    with hdfs_server() as server:
        yield server


@pytest.fixture
def paths(cluster_paths: ClusterPaths) -> JobPaths:
    return cluster_paths.job("flights")


@pytest.fixture
def base(coordinator: Coordinator, cluster_paths: ClusterPaths) -> str:
    coordinator.ensure(cluster_paths.base)
    return cluster_paths.base


@pytest.fixture
def leadership(
    backend: str, config: HaConfig, coordinator: Coordinator, ensemble: FakeEnsemble
) -> Iterator[Leadership]:
    """The job that this process leads."""
    with leading(config, coordinator, clock=ensemble.clock if backend == "fake" else None) as led:
        yield led
