"""A job that can be moved, without Spark: its savepoints are those of the recorded job."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_store import SavepointRequest
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.job_stores import savepoint_store
from airflow_provider_ha.jobs.move.move_records import read_moved
from airflow_provider_ha.jobs.recovery.transactions import brief_commit
from tests.support.clusters.cluster_helpers import Cluster
from tests.support.spark.recorded_job import QUERY, recorded_job


LAST = 13  # batch of the recorded job, and of its output


def over(cluster: Cluster, job_id: str, output: Path) -> JobContext:
    """Make a job that is over, with a savepoint of its last batch; its file sink has exactly that."""
    job = cluster.ended(job_id)
    save(job, "stopped", LAST, output)
    return job


def save(job: JobContext, savepoint_id: str, batch: int, output: Path) -> None:
    """Take a savepoint of the recorded job at *batch*; no other process may lead the job."""
    newest = job.runs.latest()
    assert newest is not None
    sink = QuerySink(kind=SinkKind.FILE, format="json", path=str(output), max_batch=batch)
    live = job.area.create(job.keys.working_directory(7, new_id()[:6]))
    recorded = recorded_job() / "live"
    for path in sorted(path for path in recorded.rglob("*") if path.is_file()):
        live.write(str(path.relative_to(recorded)), path.read_bytes())
    request = SavepointRequest(
        savepoint_id=savepoint_id,
        run=1,
        epoch=job.coordinator.get(job.paths.epoch).version,
        cut={QUERY: batch},
        sinks={QUERY: sink},
        graph=newest.run.graph.sha256,
        spark_version="4.2.0",
    )
    savepoint_store(job).create(brief_commit(job, 1), request, live)


def moved_to(job: JobContext) -> tuple[str, int | None] | None:
    """Return the cluster that a job has gone to and its run there, as its old place says."""
    found = read_moved(job.coordinator, job.paths)
    return None if found is None else (found[0].cluster, found[0].run)
