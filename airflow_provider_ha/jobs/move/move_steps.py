"""Steps of a job move; each leaves a trace for the next attempt, up to the run in the new cluster.

Order: end the run, plan, announce the job at its new place, mark it at its old one, copy, create the run, record it.
The plan is made at the old place, which has the records of the batches; the run follows it at the new place. So batches
that the sinks already have are executed again with their own boundaries, as in any restore.

Invariant: the mark is written as the leader of the job, in a transaction that checks the result of its newest run. From
then on the old place refuses new runs; its data of the job is not removed.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import Any, Literal

from airflow_provider_ha.checkpoints.areas.pins import closure_of
from airflow_provider_ha.checkpoints.plan_model import RestorePlan
from airflow_provider_ha.checkpoints.restore.select import RestoreSource
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_lookup import stored_savepoint
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.coordination.coordinator import Check, Create, Delete, Node, SetData
from airflow_provider_ha.errors import JobStateError, NodeExistsError, OperationFailedError, OutcomeUnknownError
from airflow_provider_ha.jobs.job_context import CallerIdentity, JobContext, owner_of_job, refuse_others
from airflow_provider_ha.jobs.job_graph import Blob, JobGraph
from airflow_provider_ha.jobs.job_stores import held, savepoint_store
from airflow_provider_ha.jobs.model import OperationState, StartKind
from airflow_provider_ha.jobs.move import move_arrival
from airflow_provider_ha.jobs.move.move_arrival import (
    check_clusters,
    check_free,
    check_outputs,
    check_store,
    moved_graph,
)
from airflow_provider_ha.jobs.move.move_records import Move, MoveRecord, MoveRequest, cluster_name, read_moved
from airflow_provider_ha.jobs.operations import operations, stop
from airflow_provider_ha.jobs.operations.idle_savepoint import copy_request
from airflow_provider_ha.jobs.operations.stop import UnansweredStop
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.jobs.recovery.transactions import brief_commit, take_lock
from airflow_provider_ha.jobs.restore.job_restore import plan_for, require_accepted
from airflow_provider_ha.jobs.submit.preparation import resolve


_POLL = 0.5  # seconds


def end_run(job: JobContext, request: MoveRequest) -> None:
    """Stop a running job with a checkpoint; an ended job is left unchanged.

    The stop requests no savepoint, because a job that has lost its driver could not take one; it is ended here
    immediately.

    :raises JobStateError: The job is running, and the request does not allow a stop.
    :raises OperationFailedError: The stop failed, with the reason; the job continues.
    :raises OutcomeUnknownError: The job did not stop in time. Repeat the move.
    """
    if is_over(job):
        return
    if not request.stop:
        raise JobStateError(
            f"job {job.job_id!r} has a live run",
            next_step=f"Add --stop, or stop it first: `spark-ha job stop {job.job_id}`",
        )
    operation_id, unanswered = f"move-{new_id()[:12]}", UnansweredStop()

    def ask() -> None:
        stop.stop(job, operation_id=operation_id, requested_by=request.requested_by, mode="suspend", savepoint=False)

    ask()
    deadline = time.monotonic() + request.wait
    while not is_over(job):
        operation = operations.read(job.coordinator, job.paths, operation_id)
        if operation is not None and operation.state is OperationState.FAILED and not is_over(job):
            raise OperationFailedError(
                f"job {job.job_id!r} could not be stopped: {operation.error}",
                next_step="Remove the reason, then repeat the move",
            )
        if operation is not None and unanswered.due(job.snapshot(), operation):
            ask()
        if time.monotonic() > deadline:
            raise OutcomeUnknownError(
                f"job {job.job_id!r} did not stop within {request.wait:g} s; the request stays",
                next_step="Repeat the move: it continues from there",
            )
        job.sleep(_POLL)


def mark(job: JobContext, moved: MoveRecord) -> None:
    """Ensure that the job gets no new run here. Repeatable.

    :raises JobStateError: The job has a live run, or another move was faster.
    :raises LeadershipUnavailableError: Another process leads the job.
    """
    newest = job.runs.latest()
    if newest is None:
        raise JobStateError(f"job {job.job_id!r} has no run", next_step="Submit it at the target")
    number = newest.run.number
    with take_lock(job, number) as leadership:
        if not is_over(job):
            raise JobStateError(f"job {job.job_id!r} has a new run", next_step="Repeat the move")
        job.journal.moved(moved)
        try:
            leadership.commit(Check(job.paths.run_result(number)), Create(job.paths.moved, moved.to_bytes()))
        except NodeExistsError:
            found = read_moved(job.coordinator, job.paths)
            if found is None or found[0].move_id != moved.move_id:
                raise JobStateError(
                    f"another move of job {job.job_id!r} was faster", next_step="Look at it: repeat the move"
                ) from None


def note_run(job: JobContext, moved: MoveRecord, node: Node) -> None:
    """Record the job's run at its new place."""
    job.journal.moved(moved)
    _as_leader(job, SetData(node.path, moved.to_bytes(), node.version))


def unmark(job: JobContext, node: Node) -> None:
    """Allow new runs of the job here again."""
    _as_leader(job, Delete(node.path, node.version))
    job.journal.stays()


def savepoint_of(job: JobContext, chosen: RestoreSource, move_id: str) -> str:
    """Return the id of the chosen savepoint, or of a new savepoint made from the chosen checkpoint.

    :raises CheckpointError: The checkpoint is damaged.
    """
    if chosen.source == StartKind.SAVEPOINT.value:
        return chosen.source_id
    request, root = copy_request(job, chosen, move_id, label=f"copied from {chosen.name} for a move")
    return savepoint_store(job).create(brief_commit(job, chosen.run), request, root).savepoint_id


def is_over(job: JobContext) -> bool:
    """Return whether the job has no live run."""
    return job.runs.live_run() is None


def _as_leader(job: JobContext, *ops: SetData | Delete) -> None:
    newest = job.runs.latest()
    brief_commit(job, newest.run.number if newest else 0)(*ops)


log = logging.getLogger(__name__)


def plan_move(source: JobContext, target: JobContext, request: MoveRequest, acting: CallerIdentity) -> Move:
    """Return the move that :func:`move_job` would make. Writes only probes to the target's store, and removes them.

    :raises HaError: As :func:`move_job`, for refusals before the first change.
    """
    begun = _checked(source, target, acting)
    if begun is not None and begun.run is not None:
        return _done(source, target, begun)
    described = _move(source, target, "planned", move_id=begun.move_id if begun else None)
    if not is_over(source):
        if not request.stop:
            end_run(source, request)  # refuses
        newest = source.runs.latest()
        assert newest is not None, "a job that runs has a run"  # noqa: S101
        resolve(target, moved_graph(source.graph_of(newest.run), request, target.config, target.engines), {})
        return replace(described, steps=("stop the job with a checkpoint", *_steps("that checkpoint")))
    chosen, plan, graph = _planned(source, target, request, "")
    files = _files(source, chosen)
    copied = len(files) + len(move_arrival.blobs_of(graph))
    return replace(
        described,
        steps=_steps(f"{chosen.name}, {len(files)} files of {sum(files)} bytes"),
        source=chosen.name,
        cut={query: part.batch for query, part in plan.queries.items()},
        replayed=_replayed(plan),
        files=copied,
        bytes=sum(files) + sum(blob.size for blob in move_arrival.blobs_of(graph)),
        verdict=plan.verdict,
    )


def move_job(source: JobContext, target: JobContext, request: MoveRequest, acting: CallerIdentity) -> Move:
    """Move a job to another cluster. Repeatable after any failure: it continues from the last completed step.

    The outputs are not moved. The job's data at its old place stays there.

    :raises ConfigurationError: The target is not usable for this job; the job is unchanged.
    :raises JobStateError: The job is running and may not be stopped, has another owner, or is moved elsewhere, or the
        target has a job with that id.
    :raises RestoreRefusedError: The verdict on the job's start there is not accepted.
    :raises StorageError: A read or write failed in either store.
    """
    begun = _checked(source, target, acting)
    if begun is not None and begun.run is not None:
        return _done(source, target, begun)
    if begun is None:
        newest = source.runs.latest()
        if newest is not None:
            resolve(target, moved_graph(source.graph_of(newest.run), request, target.config, target.engines), {})
        end_run(source, request)
        _planned(source, target, request, "")  # raises a refusal before the job is marked
        move_id = move_arrival.announce(source, target, f"move-{new_id()[:12]}", by=request.requested_by)
        begun = MoveRecord(
            move_id=move_id,
            cluster=cluster_name(target.config),
            place=target.config.work_uri,
            by=request.requested_by,
            at=source.clock.now(),
        )
        mark(source, begun)
        log.info("job %s is marked: it moves to %s as %s", source.job_id, begun.cluster, move_id)
    return _carried_out(source, target, request, begun.move_id)


def abandon_move(source: JobContext, target: JobContext, acting: CallerIdentity) -> Move:
    """Give up a move that has not created its run yet: the job may be started at its old place again.

    :raises JobStateError: There is no such move to that cluster, or it has created its run.
    """
    refuse_others(source, acting, "a move")
    found = read_moved(source.coordinator, source.paths)
    if found is None or found[0].cluster != cluster_name(target.config) or found[0].run is not None:
        raise JobStateError(
            f"job {source.job_id!r} is not on its way to cluster {cluster_name(target.config)}",
            next_step="Nothing needs to be done",
        )
    move_arrival.withdraw(target, found[0].move_id)
    unmark(source, found[1])
    return replace(_done(source, target, found[0]), state="abandoned")


def _carried_out(source: JobContext, target: JobContext, request: MoveRequest, move_id: str) -> Move:
    if (made := move_arrival.submitted(target, move_id)) is not None:
        return replace(_done(source, target, _noted(source, made)), run=made)
    chosen, plan, graph = _planned(source, target, request, move_id)
    savepoint_id = savepoint_of(source, chosen, move_id)
    with held(source, lambda: f"{StartKind.SAVEPOINT.value}-{savepoint_id}", by=f"{request.requested_by} ({move_id})"):
        stored = stored_savepoint(savepoint_store(source), savepoint_id)
        move_arrival.bring(source, target, stored, graph)
        planned = move_arrival.planned_here(target, plan, savepoint_id)
        run = move_arrival.start(target, planned, graph, request, move_id=move_id, owner=owner_of_job(source))
    _noted(source, run.run)
    log.info("job %s is moved to %s: run %d", source.job_id, cluster_name(target.config), run.run)
    return _move(
        source,
        target,
        "moved",
        move_id=move_id,
        source=f"{StartKind.SAVEPOINT.value}-{savepoint_id}",
        cut={query: part.batch for query, part in plan.queries.items()},
        replayed=_replayed(plan),
        files=len(stored.savepoint.files) + len(move_arrival.blobs_of(graph)),
        bytes=stored.savepoint.size + sum(blob.size for blob in move_arrival.blobs_of(graph)),
        verdict=plan.verdict,
        run=run.run,
    )


def _noted(source: JobContext, run: int) -> MoveRecord:
    """Record at the old place the job's run at its new place; return that record."""
    found = read_moved(source.coordinator, source.paths)
    if found is None:
        raise JobStateError(f"job {source.job_id!r} has returned to its old place since", next_step="Look at it there")
    moved = found[0].model_copy(update={"run": run})
    if found[0].run is None:
        note_run(source, moved, found[1])
    return moved


def _checked(source: JobContext, target: JobContext, acting: CallerIdentity) -> MoveRecord | None:
    """Return the record of an earlier attempt; ``None`` without one."""
    check_clusters(source, target)
    source.snapshot()  # raises UnknownJobError
    refuse_others(source, acting, "a move")
    found = read_moved(source.coordinator, source.paths)
    if found is None:
        check_store(target)
        check_free(source, target)
        return None
    if found[0].cluster != cluster_name(target.config):
        is_moved = "was moved" if found[0].run is not None else "is being moved"
        raise JobStateError(
            f"job {source.job_id!r} {is_moved} to cluster {found[0].cluster}",
            next_step="Name that cluster, or give the move up there with --abandon while the job has no run there",
        )
    return found[0]


def _planned(
    source: JobContext, target: JobContext, request: MoveRequest, move_id: str
) -> tuple[RestoreSource, RestorePlan, JobGraph]:
    wanted = RestoreRequest(
        job_id=source.job_id,
        request_id=move_id or "move",
        accept_verdicts=request.accept_verdicts,
        accept_unverified=request.accept_unverified,
        kafka_bootstrap=dict(request.kafka_bootstrap),
    )
    chosen, plan = plan_for(source, wanted)
    require_accepted(plan, request.accept_verdicts)
    graph = source.graph(Blob(sha256=chosen.graph, size=0))
    resolve(target, moved_graph(graph, request, target.config, target.engines), {})
    if not move_id:
        check_outputs(target, plan)
    return chosen, plan, graph


def _files(source: JobContext, chosen: RestoreSource) -> list[int]:
    """Return the sizes in bytes of all queries' files."""
    root = source.area.tree(chosen.directory)
    return [
        size
        for query, part in chosen.queries.items()
        if part.batch >= 0
        for size in closure_of(root / query, part.batch).values()
    ]


def _replayed(plan: RestorePlan) -> dict[str, int]:
    return {query: len(part.replay) for query, part in plan.queries.items() if part.replay}


def _steps(what: str) -> tuple[str, ...]:
    return (
        "mark the job: it can no longer be started here",
        f"copy the application and {what}",
        "start the job there from the copy",
    )


def _done(source: JobContext, target: JobContext, moved: MoveRecord) -> Move:
    return _move(source, target, "moved", move_id=moved.move_id, run=moved.run)


def _move(here: JobContext, there: JobContext, state: Literal["planned", "moved"], **facts: Any) -> Move:
    return Move(
        job_id=here.job_id,
        origin=cluster_name(here.config),
        destination=cluster_name(there.config),
        place=there.config.work_uri,
        state=state,
        **facts,
    )
