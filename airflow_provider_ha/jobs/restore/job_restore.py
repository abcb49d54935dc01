"""Restore: choose a cut, plan its effect on the outputs, then refuse it or submit a run with that plan.

The plan is stored as a blob before the run that names it, and the driver follows it instead of deciding again. A
restore changes nothing in its source, so it can be repeated.

A job continues with its own outputs. Another job that restores the cut has other outputs: two jobs with the same output
would repeat each other's batches.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from airflow_provider_ha.checkpoints.plan_model import RestorePlan, Verdict
from airflow_provider_ha.checkpoints.restore.facts import RestoreCase, gather_facts
from airflow_provider_ha.checkpoints.restore.plan import not_accepted, plan_restore
from airflow_provider_ha.checkpoints.restore.plan_execution import batches_in_common
from airflow_provider_ha.checkpoints.restore.query_records import RunStart
from airflow_provider_ha.checkpoints.restore.select import RestoreSource, Selection
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.checkpoints.store.checkpoint_pointers import pointer_path
from airflow_provider_ha.errors import (
    CheckpointError,
    CheckpointMissingError,
    JobStateError,
    RestoreRefusedError,
    RestoreUnknownError,
)
from airflow_provider_ha.jobs.application.application_files import ApplicationFiles
from airflow_provider_ha.jobs.job_context import JobContext, owner_of_job
from airflow_provider_ha.jobs.job_graph import Blob, JobGraph
from airflow_provider_ha.jobs.job_stores import RestoreLeases, checkpoint_store, select_checkpoint
from airflow_provider_ha.jobs.model import DrainedQuery, Generation, OutputMode, StartKind, StartPoint
from airflow_provider_ha.jobs.options.conf import merged
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.jobs.removal.removal_records import DeletedJob, read_life
from airflow_provider_ha.jobs.restore.choices import (
    check_claim,
    external_queries,
    options_of,
    plan_adoption,
    restore_choices,
)
from airflow_provider_ha.jobs.restore.recorded_past import last_directory, life_before, run_starts
from airflow_provider_ha.jobs.submit.preconditions import choose_for_restore, given_in_last_directory
from airflow_provider_ha.jobs.submit.preparation import FILES, resolve, upload_files
from airflow_provider_ha.jobs.submit.requests import SubmittedRun
from airflow_provider_ha.jobs.submit.run_submission import PreparedSubmission, submit_run
from airflow_provider_ha.storage.blobs import put_blob


log = logging.getLogger(__name__)

_CHOICES = 5


def restore_job(job: JobContext, request: RestoreRequest, *, seen: int | None = None) -> SubmittedRun:
    """Run a job from a checkpoint or savepoint as a new run, or find the request's existing run.

    :param seen: As in :func:`submit_run`.
    :raises JobStateError: The job has a live run of another request, or a newer run than the caller has seen. Raised
        before any change.
    :raises CheckpointMissingError: There is no restorable candidate; the message has the reason for each.
    :raises RestoreRefusedError: The request does not accept the verdict of the plan.
    :raises StorageUnavailableError: Storage is not writable, or does not refuse to create an existing object.
    """
    with RestoreLeases(job, request.request_id) as reading:

        def prepare() -> PreparedSubmission:
            chosen, plan = _plan(job, request, reading)
            graph, files = accepted_graph(job, request, chosen, plan)
            graph = upload_files(job, graph, files, _given_files(request))
            start = restored_start(job, plan, request.output_mode)
            blob = job.graphs.write_graph(graph)
            reading.planned(start.plan)
            return PreparedSubmission(graph=blob, start=start, owner=owner_of_job(job))  # a restore keeps the owner

        return submit_run(
            job,
            request.request_id,
            prepare,
            on_lost=partial(choose_for_restore, job, request),
            accept_loss=Verdict.LOSS_POSSIBLE in request.accept_verdicts,
            seen=seen,
        )


def accepted_graph(
    job: JobContext, request: RestoreRequest, chosen: RestoreSource, plan: RestorePlan
) -> tuple[JobGraph, ApplicationFiles | None]:
    """Return the graph of the new run, and the files that the request replaces. Writes nothing.

    :raises RestoreRefusedError: The request does not accept the verdict of the plan.
    :raises RestoreUnknownError: The content of a source or a sink is unknown.
    :raises JobStateError: The cut has no graph, because the job has no run yet.
    :raises ConfigurationError, ApplicationRefusedError: As :func:`resolve`.
    """
    require_accepted(plan, request.accept_verdicts)
    graph, given = _graph(job, request, chosen), _given_files(request)
    if given and "application" not in given:
        raise RestoreRefusedError(
            f"{sorted(given)} are replaced, but the application is not",
            next_step="Also name the application: its files are uploaded together",
        )
    return graph, resolve(job, graph, given)


def plan_for(job: JobContext, request: RestoreRequest) -> tuple[RestoreSource, RestorePlan]:
    """Choose the start of *request* and plan the restore. Changes nothing; leases another job's checkpoint."""
    with RestoreLeases(job, request.request_id) as reading:
        return _plan(job, request, reading)


def _plan(job: JobContext, request: RestoreRequest, reading: RestoreLeases) -> tuple[RestoreSource, RestorePlan]:
    if request.adopt:
        return plan_adoption(job, request)
    source = dataclasses.replace(job, job_id=request.source_job or job.job_id)
    gone = _kept_of(source)
    # Read the job first: an unknown job is an error, unlike a job without checkpoints. A deleted job has only
    # savepoints.
    generation = source.snapshot().generation if gone is None else None
    last = last_directory(source, generation) if generation is not None else None
    past = gone.past if gone is not None else life_before(source, last)
    selection, chosen = _choose(job, source, request, reading)
    claimed = check_claim(job, request, source, chosen)
    options = options_of(source, chosen)
    choices = restore_choices(request, chosen, job_id=job.job_id, source_job=source.job_id, options=options)
    drained = {**(past.drained if past is not None else {}), **_drained(source, generation)}
    starts = {run: RunStart(common) for run, common in (past.starts if past is not None else {}).items()}
    if generation is not None:
        starts |= run_starts(source, generation, after=chosen.run)
    facts = gather_facts(
        RestoreCase(
            chosen=chosen,
            at=job.clock.now(),
            root=job.area.tree(chosen.directory),
            payloads=checkpoint_store(source).payloads(),
            last=last,
            last_run=past.last_run if past is not None else None,
            unrecorded=past is not None and past.unrecorded,  # guard: batches-of-deleted-directories-are-forgotten
            starts=starts,
            drained=drained,
            candidates=selection.candidates,
            claimed=claimed,
            begun_later=_begun_later(source, generation, chosen) if choices.same_output else {},
            external=external_queries(source, request, chosen, replays=choices.same_output),
            reach=StorageAccess.of(source.config),
            writers_dead=_writers_dead(source, generation),
        )
    )
    plan = plan_restore(facts, choices)
    log.info(
        "restoring %s of %s as %s: %s %s", chosen.name, source.job_id, job.job_id, plan.verdict.value, plan.reasons
    )
    return chosen, plan


def _begun_later(source: JobContext, generation: Generation | None, chosen: RestoreSource) -> Mapping[str, int]:
    given = given_in_last_directory(source, generation, {}) if generation is not None else None
    return {name: batch for name, batch in (given or {}).items() if name not in chosen.queries and batch >= 0}


def _kept_of(source: JobContext) -> DeletedJob | None:
    """Return the record of a deleted job with kept savepoints; ``None`` for any other job."""
    deleted = read_life(source.coordinator, source.paths).deleted
    return deleted if deleted is not None and deleted.complete and deleted.keep_savepoints else None


def _choose(
    job: JobContext, source: JobContext, request: RestoreRequest, reading: RestoreLeases
) -> tuple[Selection, RestoreSource]:
    """Select a checkpoint, and keep the leader of another job from removing it."""
    for _ in range(_CHOICES):
        selection = select_checkpoint(source, start_from=str(request.start_from), fallback=request.fallback)
        chosen = selection.require()
        if source.job_id == job.job_id:
            return selection, chosen  # only a leader removes checkpoints, and the restored job is not led
        reading.hold(source, chosen)  # guard: restores-without-a-lease
        # Create the lease, then read the pointer: either the pointer is missing, or the remover finds the lease.
        if source.coordinator.find(pointer_path(source.paths, chosen.name)) is not None:
            return selection, chosen
    raise CheckpointMissingError(
        f"the checkpoints of job {source.job_id!r} are removed faster than they can be verified",
        next_step="Raise its retained_checkpoints, or restore from a savepoint",
    )


def _drained(source: JobContext, generation: Generation | None) -> Mapping[str, DrainedQuery]:
    """Return the drain output of the last run that worked; runs that never worked wrote none."""
    result = source.runs.result(generation.run) if generation is not None else None
    return result.drained if result is not None else {}


def require_accepted(plan: RestorePlan, accept_verdicts: frozenset[Verdict]) -> None:
    """Refuse a plan whose verdict is not accepted.

    :raises CheckpointError: The verdict is not accepted.
    """
    if (refusal := refusal_of(plan, accept_verdicts)) is not None:
        raise refusal


def refusal_of(plan: RestorePlan, accept_verdicts: frozenset[Verdict]) -> CheckpointError | None:
    """Return the error that refuses a plan; ``None`` if the plan is accepted. Pure."""
    what = f"restoring {plan.name} of job {plan.source_job!r}"
    refused = not_accepted(plan, accept_verdicts)
    if plan.unknown and Verdict.IMPOSSIBLE not in refused:  # guard: unknown-is-restored
        reasons = "; ".join(reason for each in plan.unknown.values() for reason in each)
        return RestoreUnknownError(
            f"{what}: its effect is unknown: {reasons}",
            next_step="Resolve the reason, or accept the unknown: "
            f"{', '.join(f'accept_unverified={query}' for query in plan.unknown)}, accept_verdicts=LOSS_POSSIBLE",
            options=("accept_unverified", "accept_verdicts"),
        )
    if not refused:
        return None
    reasons = "; ".join(plan.reasons) or "the reason is unknown"
    accepted = ", ".join(f"accept_verdicts={verdict.value}" for verdict in refused)
    return RestoreRefusedError(
        f"{what} is {plan.verdict.value}: {reasons}",
        next_step="Restore from another checkpoint"
        if Verdict.IMPOSSIBLE in refused
        else f"Restore from another checkpoint, or restore it with {accepted}; the plan shows the ways out",
        options=("accept_verdicts",),
    )


def restored_start(job: JobContext, plan: RestorePlan, output: OutputMode) -> StartPoint:
    """Write the plan to storage, and return the start point for the run that follows it."""
    sha256, size = put_blob(job.store, plan.to_bytes())
    return StartPoint(
        kind=StartKind(plan.source),
        source_job=plan.source_job,
        source_id=plan.source_id,
        plan=Blob(sha256=sha256, size=size),
        output=output,
        claim_mode=plan.claim_mode,
        common=batches_in_common(plan),
    )


def _graph(job: JobContext, request: RestoreRequest, chosen: RestoreSource) -> JobGraph:
    """Return the graph of the new run: the graph that wrote the cut, with the request's replacements except files.

    An adopted directory has no graph and uses that of the job's newest run.
    """
    if not chosen.graph:
        raise JobStateError(
            f"job {job.job_id!r} has no run yet, so the application that continues from {chosen.source_id} is unknown",
            next_step="Submit the application with a start from the same directories (start_from)",
        )
    source = job.graphs.read_graph(Blob(sha256=chosen.graph, size=0))
    overrides: dict[str, Any] = {"job_id": job.job_id, "lineage": merged(source.lineage, request.lineage)}
    if source.name == source.job_id:
        overrides["name"] = job.job_id
    for name in ("name", "arguments", "packages", "conf", "env", "driver_memory", "options"):
        value = getattr(request, name)
        if value is not None:
            overrides[name] = tuple(value) if name in ("arguments", "packages") else value
    if request.master is not None:
        overrides["target"] = source.target.model_copy(update={"master": request.master})
    options = {
        name: value
        for name, value in (
            ("allow_new_queries", request.allow_new_queries),
            ("repeatable", request.repeatable),
            ("allow_remote_executors", request.allow_remote_executors or None),
            ("accept_duplicates", Verdict.DUPLICATES_POSSIBLE in request.accept_verdicts or None),
        )
        if value is not None
    }
    if options:
        overrides["options"] = (request.options or source.options).model_copy(update=options)
    return source.model_copy(update=overrides)


def _given_files(request: RestoreRequest) -> dict[str, Any]:
    return {name: getattr(request, name) for name in FILES if getattr(request, name) is not None}


def _writers_dead(source: JobContext, generation: Generation | None) -> bool:
    """Return whether every driver that could write to an output is proven dead; ``False`` if its run is unknown."""
    if generation is None:
        return True
    return generation.run in source.runs.numbers() and source.runs.get(generation.run).is_dead
