"""A job with everything that a job can have, whose run is over: for tests of what is removed."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_ha.checkpoints.model import Checkpoint, CheckpointKind, QueryCut, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_store import SavepointRequest
from airflow_provider_ha.coordination.coordinator import Create
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.job_graph import GraphPointer
from airflow_provider_ha.jobs.job_stores import checkpoint_store, savepoint_store
from airflow_provider_ha.jobs.model import DrainedQuery, Generation, RunResult
from airflow_provider_ha.jobs.runs.output_claims import OutputClaims
from airflow_provider_ha.jobs.submit.preparation import upload
from tests.support.clusters import submit_helpers as helpers
from tests.support.clusters.jobs_helpers import NOON, a_result, a_run, a_submission, lead
from tests.support.spark.recorded_job import QUERY, recorded_job


SAVEPOINT = "before-the-end"
BATCH = 9  # of the savepoint
PLACE = "file:///out"
FUNCTION = QuerySink(kind=SinkKind.FOREACH_BATCH)


def whole_job(
    job: JobContext,
    script: Path,
    *,
    over: bool = True,
    drained: bool = False,
    stopped: bool = False,
    sink: QuerySink = FUNCTION,
) -> JobContext:
    """Make the job: a run, two checkpoints, a savepoint, a journal, an output, a quarantine, files in the home.

    :param drained: Whether a stop has ended it, and has drained it after the cut of the savepoint.
    :param stopped: Whether a stop has taken its checkpoint, and nothing says how it ended.
    :param sink: Where its query writes, as the savepoint and the checkpoint of the stop say.
    """
    graph = job.graphs.write_graph(upload(job, helpers.request(script)))
    run = a_run(1).model_copy(update={"graph": graph})
    job.coordinator.ensure(*job.paths.skeleton, job.paths.cluster.quarantine)
    job.coordinator.commit(
        job.runs.create_op(run),
        *job.runs.submission_ops(1, a_submission()),
        job.graphs.pointer_op(GraphPointer(graph=graph, run=1)),
        Create(job.paths.cluster.quarantined(job.job_id), b""),
    )
    with lead(job.coordinator, job.paths, job.config) as leadership:
        leadership.start_heartbeats(lambda reason: None)
        for number in (1, 2):
            (job.config.work_path / job.keys.pin(number, leadership.epoch)).mkdir(parents=True)
            checkpoint_store(job).add(leadership, _checkpoint(job, number, leadership.epoch, graph.sha256))
        request = SavepointRequest(
            savepoint_id=SAVEPOINT,
            run=1,
            epoch=leadership.epoch,
            cut={QUERY: BATCH},
            graph=graph.sha256,
            spark_version="4.2.0",
            sinks={QUERY: sink},
        )
        savepoint_store(job).create(leadership.commit, request, LocalTree(recorded_job() / "live"))
        OutputClaims(job.coordinator, job.paths, leadership.commit, 1).claim(PLACE, QUERY)
        if over:
            result: RunResult = a_result()
            if drained or stopped:
                _stop(job, leadership, graph.sha256, sink)
            if drained:
                result = result.model_copy(update={"drained": {QUERY: DrainedQuery(batch=BATCH + 1)}})
            job.journal.result(1, result)
            pointer = job.graphs.remove_op(1)
            leadership.commit(job.runs.result_op(1, result), *([pointer] if pointer is not None else []))
    for key in (f"{job.keys.live}e1-x/{QUERY}/offsets/0", f"{job.keys.application(1, 1)}/driver.log"):
        path = job.config.work_path / key
        path.parent.mkdir(parents=True)
        path.write_text("something")
    return job


def _stop(job: JobContext, leadership: Leadership, graph: str, sink: QuerySink) -> None:
    """Make the checkpoint of a stop, and say in which working directory it was."""
    stop = _checkpoint(job, 3, leadership.epoch, graph)
    cut = {QUERY: QueryCut(batch=BATCH, sink=sink)}
    (job.config.work_path / job.keys.pin(3, leadership.epoch)).mkdir(parents=True)
    sharp = stop.model_copy(update={"reason": CheckpointKind.STOP, "queries": cut})
    checkpoint_store(job).add(leadership, sharp)
    generation = Generation(run=1, epoch=leadership.epoch, directory=job.keys.working_directory(leadership.epoch, "x"))
    leadership.commit(Create(job.paths.generation, generation.to_bytes()))


def files_of(job: JobContext) -> list[Path]:
    """Return every file that lies below the job, in storage and in the work root."""
    base = job.config.work_path / job.keys.base
    return sorted(path for path in base.rglob("*") if path.is_file())


def _checkpoint(job: JobContext, number: int, epoch: int, graph: str) -> Checkpoint:
    return Checkpoint(
        job_id=job.job_id,
        number=number,
        run=1,
        epoch=epoch,
        reason=CheckpointKind.PERIODIC,
        created_at=NOON,
        queries={QUERY: QueryCut(batch=number, sink=QuerySink(kind=SinkKind.FOREACH_BATCH))},
        directory=job.keys.working_directory(1, "x"),
        pin=job.keys.pin(number, epoch),
        graph=graph,
        spark_version="4.2.0",
    )
