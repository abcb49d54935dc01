"""Moving a job: every step leaves a trace that the next attempt goes on from, until the job has its run elsewhere.

Order: end the run, plan, announce the job at its new place, mark it at its old one, copy, make the run, note it. The
plan is made at the old place, which knows the records of the batches; the run follows it at the new place. So what the
sinks have is executed again with its own boundaries, as by any restore.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from airflow_provider_ha.checkpoints.model import RestorePlan
from airflow_provider_ha.checkpoints.restore.select import Chosen
from airflow_provider_ha.checkpoints.savepoints.in_tree import stored_savepoint
from airflow_provider_ha.checkpoints.working.pins import closure_of
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.control.job.job_owner import Acting, owner_of_job, refuse_others
from airflow_provider_ha.control.job.reader_lease import held
from airflow_provider_ha.control.job.spec import RestoreRequest
from airflow_provider_ha.control.job.stores import savepoint_store
from airflow_provider_ha.control.move import arrival, departure
from airflow_provider_ha.control.move.checks import (
    check_clusters,
    check_free,
    check_graph,
    check_outputs,
    check_store,
    moved_graph,
)
from airflow_provider_ha.control.move.outcome import Move, MoveRequest
from airflow_provider_ha.control.restore.restore import plan_for, require_accepted
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.jobs.model import Blob, JobGraph, StartKind
from airflow_provider_ha.jobs.moves import Moved, cluster_name, read_moved


log = logging.getLogger(__name__)


def plan_move(source: JobContext, target: JobContext, request: MoveRequest, acting: Acting) -> Move:
    """Return what :func:`move_job` would do. Changes nothing but probes of the target's store, which it removes.

    :raises HaError: As :func:`move_job`, for what it refuses before anything is changed.
    """
    begun = _checked(source, target, acting)
    if begun is not None and begun.run is not None:
        return _done(source, target, begun)
    described = Move(
        job_id=source.job_id,
        origin=cluster_name(source.config),
        destination=cluster_name(target.config),
        place=target.config.work_uri,
        state="planned",
        move_id=begun.move_id if begun else None,
    )
    if not departure.is_over(source):
        if not request.stop:
            departure.end_run(source, request)  # refuses
        newest = source.runs.latest()
        assert newest is not None, "a job that runs has a run"  # noqa: S101
        check_graph(target, moved_graph(source.graph_of(newest.run), request, target.config, target.engines))
        return replace(described, steps=("stop the job with a checkpoint", *_steps("that checkpoint")))
    chosen, plan, graph = _planned(source, target, request, "")
    files = _files(source, chosen)
    copied = len(files) + len(arrival.blobs_of(graph))
    return replace(
        described,
        steps=_steps(f"{chosen.name}, {len(files)} files of {sum(files)} bytes"),
        source=chosen.name,
        cut={query: part.batch for query, part in plan.queries.items()},
        replayed=_replayed(plan),
        files=copied,
        bytes=sum(files) + sum(blob.size for blob in arrival.blobs_of(graph)),
        verdict=plan.verdict,
    )


def move_job(source: JobContext, target: JobContext, request: MoveRequest, acting: Acting) -> Move:
    """Move a job to another cluster; repeatable after any failure, and then it goes on from where it was.

    The outputs stay where they are. What the job has at its old place stays there.

    :raises ConfigurationError: The target cannot be used for this job; nothing was changed.
    :raises JobStateError: The job runs and is not to be stopped, has other owners, is moved elsewhere, or the target
        has a job of that id.
    :raises RestoreRefusedError: The verdict of what it would go on from is not accepted.
    :raises StorageError: One of the stores could not be read or written.
    """
    begun = _checked(source, target, acting)
    if begun is not None and begun.run is not None:
        return _done(source, target, begun)
    if begun is None:
        newest = source.runs.latest()
        if newest is not None:
            check_graph(target, moved_graph(source.graph_of(newest.run), request, target.config, target.engines))
        departure.end_run(source, request)
        _planned(source, target, request, "")  # refused before the job is marked
        move_id = arrival.announce(source, target, f"move-{new_id()[:12]}", by=request.requested_by)
        begun = Moved(
            move_id=move_id,
            cluster=cluster_name(target.config),
            place=target.config.work_uri,
            by=request.requested_by,
            at=source.clock.now(),
        )
        departure.mark(source, begun)
        log.info("job %s is marked: it moves to %s as %s", source.job_id, begun.cluster, move_id)
    return _carried_out(source, target, request, begun.move_id)


def abandon_move(source: JobContext, target: JobContext, acting: Acting) -> Move:
    """Give up a move that has not made its run yet: the job may be started at its old place again.

    :raises JobStateError: No move to that cluster is under way, or it has made its run.
    """
    refuse_others(source, acting, "a move")
    found = read_moved(source.coordinator, source.paths)
    if found is None or found[0].cluster != cluster_name(target.config) or found[0].run is not None:
        raise JobStateError(
            f"job {source.job_id!r} is not on its way to cluster {cluster_name(target.config)}",
            next_step="Nothing needs to be done",
        )
    arrival.withdraw(target, found[0].move_id)
    departure.unmark(source, found[1])
    return replace(_done(source, target, found[0]), state="abandoned")


def _carried_out(source: JobContext, target: JobContext, request: MoveRequest, move_id: str) -> Move:
    if (made := arrival.submitted(target, move_id)) is not None:
        return replace(_done(source, target, _noted(source, made)), run=made)
    chosen, plan, graph = _planned(source, target, request, move_id)
    savepoint_id = departure.savepoint_of(source, chosen, move_id)
    with held(source, lambda: f"{StartKind.SAVEPOINT.value}-{savepoint_id}", by=f"{request.requested_by} ({move_id})"):
        stored = stored_savepoint(savepoint_store(source), savepoint_id)
        arrival.bring(source, target, stored, graph)
        planned = arrival.planned_here(target, plan, savepoint_id)
        run = arrival.start(target, planned, graph, request, move_id=move_id, owner=owner_of_job(source))
    _noted(source, run.run)
    log.info("job %s is moved to %s: run %d", source.job_id, cluster_name(target.config), run.run)
    return Move(
        job_id=source.job_id,
        origin=cluster_name(source.config),
        destination=cluster_name(target.config),
        place=target.config.work_uri,
        state="moved",
        move_id=move_id,
        source=f"{StartKind.SAVEPOINT.value}-{savepoint_id}",
        cut={query: part.batch for query, part in plan.queries.items()},
        replayed=_replayed(plan),
        files=len(stored.savepoint.files) + len(arrival.blobs_of(graph)),
        bytes=stored.savepoint.size + sum(blob.size for blob in arrival.blobs_of(graph)),
        verdict=plan.verdict,
        run=run.run,
    )


def _noted(source: JobContext, run: int) -> Moved:
    """Say at the old place which run the job has at its new one; return what is said there."""
    found = read_moved(source.coordinator, source.paths)
    if found is None:
        raise JobStateError(f"job {source.job_id!r} has come back to its old place since", next_step="Look at it there")
    moved = found[0].model_copy(update={"run": run})
    if found[0].run is None:
        departure.note_run(source, moved, found[1])
    return moved


def _checked(source: JobContext, target: JobContext, acting: Acting) -> Moved | None:
    """Return how far an earlier attempt has come; ``None`` when there was none."""
    check_clusters(source, target)
    source.snapshot()  # an unknown job is an error
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
) -> tuple[Chosen, RestorePlan, JobGraph]:
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
    check_graph(target, moved_graph(graph, request, target.config, target.engines))
    if not move_id:
        check_outputs(target, plan)
    return chosen, plan, graph


def _files(source: JobContext, chosen: Chosen) -> list[int]:
    """Return the sizes of the files of every query."""
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
        "mark the job: it cannot be started here any more",
        f"copy the application and {what}",
        "start the job there from the copy",
    )


def _done(source: JobContext, target: JobContext, moved: Moved) -> Move:
    return Move(
        job_id=source.job_id,
        origin=cluster_name(source.config),
        destination=moved.cluster,
        place=target.config.work_uri,
        state="moved",
        move_id=moved.move_id,
        run=moved.run,
    )
