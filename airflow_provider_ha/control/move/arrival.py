"""The new place of a job that moves: its epoch, its application, its savepoint, and the run that ends the move.

Invariant: epochs go on from those of the old place, so that a token that an output knows is never given out again.
Everything is brought before the run is made; to bring it again changes nothing.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

from airflow_provider_ha.checkpoints.model import RestorePlan
from airflow_provider_ha.checkpoints.savepoints.layout import StoredSavepoint
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.control.job.requests import SubmittedRun
from airflow_provider_ha.control.job.stores import savepoint_store
from airflow_provider_ha.control.move.checks import moved_graph
from airflow_provider_ha.control.move.outcome import MoveRequest
from airflow_provider_ha.control.restore.restore import restored_start
from airflow_provider_ha.control.submission.launch import ensure_submitted
from airflow_provider_ha.control.submission.submission import Prepared, submit_run
from airflow_provider_ha.coordination.coordinator import Create, Delete, Op
from airflow_provider_ha.coordination.counter import counter_op, read_counter
from airflow_provider_ha.coordination.epochs import raise_epoch
from airflow_provider_ha.errors import CheckpointMissingError, JobStateError, NodeExistsError, NodeMissingError
from airflow_provider_ha.jobs.jobs import create_job
from airflow_provider_ha.jobs.model import Blob, JobGraph, OutputMode, StartKind
from airflow_provider_ha.jobs.moves import Arrival, cluster_name, read_arrival, read_moved
from airflow_provider_ha.pointers.ownership import ClaimMode, Owner
from airflow_provider_ha.recovery.conclude import brief_commit
from airflow_provider_ha.storage.blobs import fetch_blob, get_blob, put_blob


MOVED_HERE = b"moved"  # in place of the attempt id that an acquisition writes: it belongs to no process


def announce(source: JobContext, target: JobContext, move_id: str, *, by: str) -> str:
    """Note that the job comes here; return the id of the move, which is that of an earlier attempt where there is one.

    :raises JobStateError: It comes from elsewhere.
    """
    create_job(target.coordinator, target.paths)
    origin = cluster_name(source.config)
    arrival = Arrival(move_id=move_id, cluster=origin, by=by, at=target.clock.now())
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
    """Make sure that a move makes no run here any more.

    :raises JobStateError: It has made one.
    """
    found = read_arrival(target.coordinator, target.paths)
    if found is not None and found[0].move_id == move_id:
        with suppress(NodeMissingError):  # the run was made at this moment, or another process has withdrawn it
            target.commit(Delete(found[1].path, found[1].version))
    if (run := run_of(target, move_id)) is not None:
        raise JobStateError(
            f"job {target.job_id!r} has arrived: it is run {run} there",
            next_step="Repeat the move to end it, and move the job back after that",
        )


def run_of(target: JobContext, move_id: str) -> int | None:
    """Return the number of the run that a move has made; ``None`` when it has made none."""
    made = (number for number, run in target.runs.runs(target.runs.numbers()).items() if run.request_id == move_id)
    return next(made, None)


def submitted(target: JobContext, move_id: str) -> int | None:
    """Return the run that a move has made, and have it submitted; ``None`` when it has made none.

    It may have written to the outputs since: what it was planned with does not hold any more.
    """
    made = run_of(target, move_id)
    if made is not None and target.runs.result(made) is None:
        ensure_submitted(target, made, by=move_id)
    return made


def bring(source: JobContext, target: JobContext, stored: StoredSavepoint, graph: JobGraph) -> None:
    """Copy the application and the savepoint, and go on with epoch and counter of the old place. Repeatable.

    :raises CheckpointCorruptError: The savepoint is damaged, or its copy.
    :raises StorageError: Something could not be read or written.
    """
    _bring_files(source, target, graph)
    put_blob(target.store, get_blob(source.store, stored.savepoint.graph))  # what the savepoint names
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
    """Make the run that ends the move, or find it again, and have it submitted.

    :param plan: As it was made at the old place: it names the savepoint that was brought.
    :raises JobStateError: The move was abandoned.
    :raises CheckpointMissingError: The savepoint that was brought was removed before the run was made.
    """

    def prepare() -> Prepared:
        return Prepared(
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
    ) as error:  # a submission would name another start: the start of a move is its savepoint
        raise CheckpointMissingError(
            error.message, next_step="Repeat the move: it brings the savepoint again; no run was made"
        ) from error
    target.journal.stays()  # what it had left for earlier
    return run


def planned_here(target: JobContext, plan: RestorePlan, savepoint_id: str) -> RestorePlan:
    """Return the plan of the old place for the savepoint as it lies here: replays and outputs are the same. Pure."""
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
    return JobStateError(
        f"the move of job {target.job_id!r} was abandoned", next_step="Move it again when it is to be moved"
    )


def _bring_files(source: JobContext, target: JobContext, graph: JobGraph) -> None:
    with tempfile.TemporaryDirectory(prefix="spark-ha-move-") as scratch:
        for number, blob in enumerate(blobs_of(graph)):
            path = Path(scratch) / str(number)
            fetch_blob(source.store, blob.sha256, path)
            put_blob(target.store, path)
            path.unlink()


def blobs_of(graph: JobGraph) -> tuple[Blob, ...]:
    """Return every file of an application, each once."""
    return tuple({artifact.blob.sha256: artifact.blob for artifact in graph.artifacts}.values())
