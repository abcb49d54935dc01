"""The new place of a job move: checks, epoch, application, savepoint, and the run that ends the move.

Invariant: epochs continue those at the old place, so a token known to an output is never issued again. All data is
copied before the run is created, and copying is idempotent.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

from airflow_provider_ha.checkpoints.ownership import ClaimMode, Owner
from airflow_provider_ha.checkpoints.plan_model import RestorePlan
from airflow_provider_ha.checkpoints.sinks.sink_registry import sink_connector
from airflow_provider_ha.checkpoints.spark.places import StorageAccess, is_local, is_s3, local_path
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import StoredSavepoint
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Create, Delete, Op
from airflow_provider_ha.coordination.znode_records import counter_op, raise_epoch, read_counter
from airflow_provider_ha.errors import (
    CheckpointMissingError,
    ConfigurationError,
    JobStateError,
    NodeExistsError,
    NodeMissingError,
)
from airflow_provider_ha.host.engines.registry import Engines
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.job_graph import Blob, JobGraph
from airflow_provider_ha.jobs.job_stores import savepoint_store
from airflow_provider_ha.jobs.model import OutputMode, StartKind
from airflow_provider_ha.jobs.move.move_records import (
    ArrivalRecord,
    MoveRequest,
    cluster_name,
    read_arrival,
    read_moved,
)
from airflow_provider_ha.jobs.observe import create_job
from airflow_provider_ha.jobs.options.conf import merged
from airflow_provider_ha.jobs.rebuild.rebuild import refuse_unknown
from airflow_provider_ha.jobs.recovery.transactions import brief_commit
from airflow_provider_ha.jobs.restore.job_restore import restored_start
from airflow_provider_ha.jobs.submit.launch import ensure_submitted
from airflow_provider_ha.jobs.submit.requests import SubmittedRun
from airflow_provider_ha.jobs.submit.run_submission import PreparedSubmission, submit_run
from airflow_provider_ha.storage.blobs import fetch_blob, get_blob, put_blob


def check_clusters(source: JobContext, target: JobContext) -> None:
    """Refuse a move into the same cluster or directory.

    A cluster has a single work root, so another store means another cluster with another id.

    :raises ConfigurationError: It is the same cluster, or both work in the same directory.
    """
    if cluster_name(source.config) == cluster_name(target.config):
        raise ConfigurationError(
            f"the target is the cluster {cluster_name(target.config)} that job {source.job_id!r} is in",
            next_step="Name a connection with another cluster_id, and with the work_root that the job is to have",
        )
    for name, ours, theirs in (
        ("work_root", source.config.work_uri, target.config.work_uri),
        ("storage_root", _storage(source), _storage(target)),
    ):
        if ours == theirs:
            raise ConfigurationError(
                f"both clusters have their {name} in {ours}", next_step="Give the target another one, or a cluster_id"
            )


def check_store(target: JobContext) -> None:
    """Check that the target is writable and keeps two drivers apart.

    :raises ConfigurationError: A lifecycle rule of the target removes files.
    :raises StorageUnavailableError: The target is not writable, or does not refuse to create an existing file.
    """
    target.store.check_writable()
    target.area.capabilities()


def check_free(source: JobContext, target: JobContext) -> None:
    """Check that the target has no job with that id, except a job that has moved away.

    :raises JobStateError: The target has such a job, or another move brings one.
    """
    refuse_unknown(target)  # before the job is stopped
    there = target.runs.latest()
    left = read_moved(target.coordinator, target.paths)
    if there is not None and there.result is None:
        raise _taken(target, f"already has a live run of the job, number {there.run.number}")
    if left is not None and left[0].run is None:
        raise _taken(target, f"is moving it to {left[0].cluster}")
    if there is not None and left is None:
        raise _taken(target, f"has {there.run.number} runs of the job that were never moved away")
    coming = read_arrival(target.coordinator, target.paths)
    if coming is not None and coming[0].cluster != cluster_name(source.config):
        raise _taken(target, f"receives it from {coming[0].cluster}")


def check_outputs(target: JobContext, plan: RestorePlan) -> None:
    """Check that every file sink, which is not moved, is the same directory for the target.

    :raises ConfigurationError: A sink is not usable there, or has other batches when the target reads it.
    :raises StorageUnavailableError: A sink could not be read.
    """
    reach = StorageAccess.of(target.config)
    for query, part in plan.queries.items():
        connector, path = sink_connector(part.sink, reach), part.sink.path
        if connector is None or path is None:
            continue
        if is_local(path) and part.sink.max_batch >= 0 and not Path(local_path(path)).is_dir():
            raise ConfigurationError(
                f"query {query!r} writes to {path}, which is not a directory of this host",
                next_step="Mount it on the hosts that run drivers of the target, and on this one",
            )
        if is_s3(path) and not target.config.work_uri.startswith("s3:"):
            raise ConfigurationError(
                f"query {query!r} writes files to {path}, and such a job needs a work root on S3; the target works in "
                f"{target.config.work_uri}",
                next_step="Move it to a cluster that works on S3",
            )
        reached = connector.reached()
        if reached != part.sink.max_batch:
            raise ConfigurationError(
                f"the output {path} of query {query!r} has batches up to {reached} as the target reaches it, and up to "
                f"{part.sink.max_batch} as job {target.job_id!r} does now: it is another one",
                next_step="Correct the target's connection (s3_endpoint_url, hdfs_namenodes)",
            )


def moved_graph(graph: JobGraph, request: MoveRequest, to: HaConfig, engines: Engines) -> JobGraph:
    """Return the graph with the request's changes and the options of the target's machines. Pure."""
    conf = {**graph.conf, **request.conf}
    changed: dict[str, object] = {
        "conf": {key: value for key, value in conf.items() if value},
        "lineage": merged(graph.lineage, request.lineage),
    }
    if request.packages is not None:
        changed["packages"] = request.packages
    options = engines.cluster_options(to, graph.target.engine)
    target = graph.target.model_copy(update={"cluster_options": options})
    changed["target"] = target if request.master is None else target.model_copy(update={"master": request.master})
    return graph.model_copy(update=changed)


def _storage(job: JobContext) -> str:
    return f"{job.config.storage_root}/{job.config.cluster_id}"


def _taken(target: JobContext, why: str) -> JobStateError:
    return JobStateError(
        f"job {target.job_id!r} cannot be moved to cluster {cluster_name(target.config)}, which {why}",
        next_step=f"Look at it there: `spark-ha job show {target.job_id}`",
    )


MOVED_HERE = b"moved"  # instead of an acquisition's attempt id: belongs to no process


def announce(source: JobContext, target: JobContext, move_id: str, *, by: str) -> str:
    """Record that the job arrives here; return the id of the move, which may come from an earlier attempt.

    :raises JobStateError: The job arrives from another cluster.
    """
    create_job(target.coordinator, target.paths)
    origin = cluster_name(source.config)
    arrival = ArrivalRecord(move_id=move_id, cluster=origin, by=by, at=target.clock.now())
    try:
        target.commit(Create(target.paths.arriving, arrival.to_bytes()))
    except NodeExistsError:
        found = read_arrival(target.coordinator, target.paths)
        if found is None or found[0].cluster != origin:
            raise JobStateError(
                f"another move of job {target.job_id!r} arrives there", next_step="Wait for its end"
            ) from None
        return found[0].move_id
    return move_id


def withdraw(target: JobContext, move_id: str) -> None:
    """Ensure that a move creates no run here any longer.

    :raises JobStateError: The move has already created its run.
    """
    found = read_arrival(target.coordinator, target.paths)
    if found is not None and found[0].move_id == move_id:
        with suppress(NodeMissingError):  # the run was just created, or another process has withdrawn the move
            target.commit(Delete(found[1].path, found[1].version))
    if (run := run_of(target, move_id)) is not None:
        raise JobStateError(
            f"job {target.job_id!r} has arrived: it is run {run} there",
            next_step="Repeat the move to end it, and move the job back after that",
        )


def run_of(target: JobContext, move_id: str) -> int | None:
    """Return the number of the run that a move has created; ``None`` without one."""
    made = (number for number, run in target.runs.runs(target.runs.numbers()).items() if run.request_id == move_id)
    return next(made, None)


def submitted(target: JobContext, move_id: str) -> int | None:
    """Return the run that a move has created, and ensure that it is submitted; ``None`` without one.

    The run may have written to the outputs since, so the move's plan is no longer valid.
    """
    made = run_of(target, move_id)
    if made is not None and target.runs.result(made) is None:
        ensure_submitted(target, made, by=move_id)
    return made


def bring(source: JobContext, target: JobContext, stored: StoredSavepoint, graph: JobGraph) -> None:
    """Copy the application and the savepoint, and continue epoch and counter of the old place. Repeatable.

    :raises CheckpointCorruptError: The savepoint is damaged, or its copy.
    :raises StorageError: A read or write failed.
    """
    _bring_files(source, target, graph)
    put_blob(target.store, get_blob(source.store, stored.savepoint.graph))  # the savepoint refers to it
    node = source.coordinator.find(source.paths.epoch)
    highest = node.version if node is not None else 0
    raise_epoch(
        target.coordinator, target.paths, lowest=highest, to=highest, by=MOVED_HERE
    )  # guard: epochs-begin-again
    commit = brief_commit(target, 0)
    savepoint_store(target).receive(commit, stored)
    counted = read_counter(source.coordinator, source.paths.checkpoint_id_counter)
    if counted > read_counter(target.coordinator, path := target.paths.checkpoint_id_counter):
        commit(counter_op(path, target.coordinator.find(path), counted))


def start(
    target: JobContext, plan: RestorePlan, graph: JobGraph, request: MoveRequest, *, move_id: str, owner: str | None
) -> SubmittedRun:
    """Create the run that ends the move, or find it again, and ensure that it is submitted.

    :param plan: The plan made at the old place, with the copied savepoint.
    :raises JobStateError: The move was abandoned.
    :raises CheckpointMissingError: The copied savepoint was removed before the run was created.
    """

    def prepare() -> PreparedSubmission:
        return PreparedSubmission(
            graph=target.graphs.write_graph(moved_graph(graph, request, target.config, target.engines)),
            start=restored_start(target, plan, OutputMode.CONTINUE),
            owner=owner,
            arrival=_arrival_ops(target, move_id),
        )

    try:
        run = submit_run(target, move_id, prepare, engine=graph.target.engine, arrives=True)
    except NodeMissingError:
        raise _abandoned(target) from None
    except (
        CheckpointMissingError
    ) as error:  # the error of a submission would suggest another start, but a move has only its savepoint
        raise CheckpointMissingError(
            error.message, next_step="Repeat the move: it copies the savepoint again"
        ) from error
    target.journal.stays()  # records of its earlier departure
    return run


def planned_here(target: JobContext, plan: RestorePlan, savepoint_id: str) -> RestorePlan:
    """Return the plan of the old place for the savepoint's copy here: replays and outputs are the same. Pure."""
    return plan.model_copy(
        update={
            "source": StartKind.SAVEPOINT.value,
            "source_id": savepoint_id,
            "directory": target.keys.savepoint(savepoint_id),
            "claim_mode": ClaimMode.CLAIM,
            "owner": Owner.JOB,
        }
    )


def _arrival_ops(target: JobContext, move_id: str) -> tuple[Op, ...]:
    found = read_arrival(target.coordinator, target.paths)
    if found is None or found[0].move_id != move_id:  # guard: abandoned-moves-go-on
        raise _abandoned(target)
    left = read_moved(target.coordinator, target.paths)
    back = () if left is None else (Delete(left[1].path, left[1].version),)
    return (Delete(found[1].path, found[1].version), *back)


def _abandoned(target: JobContext) -> JobStateError:
    return JobStateError(f"the move of job {target.job_id!r} was abandoned", next_step="Move it again if necessary")


def _bring_files(source: JobContext, target: JobContext, graph: JobGraph) -> None:
    with tempfile.TemporaryDirectory(prefix="spark-ha-move-") as scratch:
        for number, blob in enumerate(blobs_of(graph)):
            path = Path(scratch) / str(number)
            fetch_blob(source.store, blob.sha256, path)
            put_blob(target.store, path)
            path.unlink()


def blobs_of(graph: JobGraph) -> tuple[Blob, ...]:
    """Return the distinct files of an application."""
    return tuple({artifact.blob.sha256: artifact.blob for artifact in graph.artifacts}.values())
