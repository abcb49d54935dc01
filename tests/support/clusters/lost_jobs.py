"""What tests of lost jobs share: a job whose leader has vanished, with or without a checkpoint and work done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.areas.pins import pin
from airflow_provider_ha.checkpoints.model import Checkpoint, CheckpointKind, QueryCut, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Create
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.job_stores import checkpoint_store
from airflow_provider_ha.jobs.model import Generation
from airflow_provider_ha.jobs.options.job_spec import JobSpec
from tests.support.clusters.cluster_helpers import Cluster
from tests.support.spark.recorded_job import QUERY, copy_live, recorded_job
from tests.support.specs import changed


NUMBER = 1


def lose(cluster: Cluster, job_id: str = "flights", *, checkpoint: bool = True, worked: bool = True) -> JobContext:
    """Make a job whose leader of epoch 1 has vanished without a word.

    :param checkpoint: Whether it has made a checkpoint, which can be restored.
    :param worked: Whether its run has a working directory.
    """
    recorded = recorded_job() / "live"
    leadership, job = cluster.led(job_id, cluster.coordinator), cluster.context(job_id)
    view = job.runs.latest()
    assert view is not None
    if worked:
        generation = Generation(run=1, epoch=leadership.epoch, directory=job.keys.working_directory(1, "x"))
        copy_live(job.config.work_path / generation.directory)
        leadership.commit(Create(job.paths.generation, generation.to_bytes()))
    if checkpoint:
        key = job.keys.pin(NUMBER, leadership.epoch)
        batch = progress(LocalTree(recorded / QUERY)).committed
        pin(recorded, job.config.work_path / key, {QUERY: batch})
        made = Checkpoint(
            job_id=job_id,
            number=NUMBER,
            run=1,
            epoch=leadership.epoch,
            reason=CheckpointKind.PERIODIC,
            created_at=job.clock.now(),
            queries={QUERY: QueryCut(batch=batch, sink=QuerySink(kind=SinkKind.FOREACH_BATCH))},
            directory=job.keys.working_directory(1, "x"),
            pin=key,
            graph=view.run.graph.sha256,
            spark_version="4.2.0",
        )
        checkpoint_store(job).add(leadership, made)
    leadership.release()
    return job


def again(cluster: Cluster, request_id: str = "request-2", **changes: Any) -> JobSpec:
    """Return the same application as of :func:`lose`, asked for by another request."""
    return changed(cluster.request("flights"), request_id=request_id, **changes)


def other_graph(cluster: Cluster, **changes: Any) -> JobSpec:
    """Return a request of another graph for the same job."""
    return again(cluster, arguments=["--other"], **changes)


@contextmanager
def further_clients(config: HaConfig, cluster: Cluster) -> Iterator[Callable[[], HaClient]]:
    """Make clients with separate sessions, as other processes have them, for the time of the block."""
    sessions: list[KazooCoordinator] = []

    def connect() -> HaClient:
        sessions.append(KazooCoordinator.connect(config))
        return cluster.open(sessions[-1])

    yield connect
    for session in sessions:
        session.close()
