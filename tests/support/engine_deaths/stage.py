"""A standalone cluster of two masters and two test hosts, and a ZooKeeper for the jobs, for all events of a proof."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.host.engines.registry import Engines
from airflow_provider_ha.host.engines.standalone import StandaloneEngine
from tests.support.clusters import submit_helpers
from tests.support.clusters.standalone_cluster import StandaloneCluster, standalone_cluster
from tests.support.clusters.standalone_jobs import StandaloneJob


OpenJob = Callable[[], AbstractContextManager[StandaloneJob]]


@contextmanager
def stage(folder: Path) -> Iterator[OpenJob]:
    """Yield what opens a job; the cluster is whole at the beginning of each.

    :param folder: Of everything; it is made anew.
    """
    with (
        EmbeddedZooKeeper(folder / "zookeeper", tick_ms=200) as zookeeper,
        standalone_cluster(folder / "cluster", masters=2, hosts=2) as cluster,
    ):
        yield partial(_job, folder, zookeeper.hosts, cluster)


@contextmanager
def _job(folder: Path, zookeeper: str, cluster: StandaloneCluster) -> Iterator[StandaloneJob]:
    root = folder / new_id()[:8]
    root.mkdir(parents=True)
    config = HaConfig.build(zookeeper=zookeeper, storage_root=(root / "storage").as_uri(), cluster_id=root.name)
    session = KazooCoordinator.connect(config)
    try:
        with one_job(config, session, cluster, root) as job:
            yield job
    finally:
        session.close()


@contextmanager
def one_job(
    config: HaConfig, coordinator: Coordinator, cluster: StandaloneCluster, root: Path
) -> Iterator[StandaloneJob]:
    """Yield a job that is not submitted yet. Afterwards nothing of it runs, and the cluster is whole."""
    cluster.await_workers()
    submit_helpers.stand_in_spark(root / "spark")
    engines = Engines({StandaloneEngine.name: StandaloneEngine(config)})
    job = StandaloneJob(replace(submit_helpers.context(config, coordinator), engines=engines), cluster, root)
    try:
        yield job
    finally:
        job.end()
        cluster.make_whole()
