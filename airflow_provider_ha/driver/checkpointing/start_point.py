"""Working directory of an epoch: empty, or from the previous epoch, the plan of a restore or a fallback.

Order: fence, then read, then fork (``docs/explanation/spark-facts.md`` section 1, condition 3). The fence renames the
directories of earlier epochs, so that a zombie dies at its next commit and cannot add to the files read here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from dataclasses import replace

from airflow_provider_ha.checkpoints.areas.drain import newest_drain
from airflow_provider_ha.checkpoints.areas.pins import keep_sink_logs, kept_in
from airflow_provider_ha.checkpoints.areas.work_area import Successor, WorkArea
from airflow_provider_ha.checkpoints.areas.working_records import (
    StartedQueries,
    StartedQueryRecord,
    carry,
    check_lengths,
    read_started,
    write_started,
)
from airflow_provider_ha.checkpoints.plan_model import QueryPlan, RestorePlan
from airflow_provider_ha.checkpoints.restore.plan_execution import prepare_recovery, prepare_restore, read_plan
from airflow_provider_ha.checkpoints.sinks.sink_registry import query_memory, sink_connector
from airflow_provider_ha.checkpoints.sinks.unread_sinks import DEBUG_FORMATS
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import Progress, progress
from airflow_provider_ha.checkpoints.spark.metadata_log import read_query_id
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.driver.checkpointing.in_flight import InFlightBatches
from airflow_provider_ha.driver.checkpointing.origin import Origin, OriginKind
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    CheckpointMissingError,
    DecisionNeededError,
    HaError,
    RecordCorruptError,
    RestoreRefusedError,
    RestoreUnknownError,
)
from airflow_provider_ha.jobs.model import Fallback, Generation, Run, StartKind
from airflow_provider_ha.jobs.runs.run_store import working_directory
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.object_store import ObjectStore


log = logging.getLogger(__name__)
FallBack = Callable[[Generation, HaError], Origin]
"""Makes the directory in which a run continues, given the lost one and why that cannot be continued."""
Judge = Callable[[Tree, Generation], InFlightBatches]
"""Judges the batches that the recovery of a lost directory executes again; raises :class:`DecisionNeededError`."""


def prepare_start(
    store: ObjectStore,
    area: WorkArea,
    paths: JobPaths,
    run: Run,
    previous: Generation | None,
    *,
    key: str,
    published: Mapping[str, int] | None = None,
    by: Successor | None = None,
    refusal: str = "",
    refused: str | None = None,
    lengths: Mapping[str, Mapping[str, int]] | None = None,
    fall_back: FallBack | None = None,
    reach: StorageAccess | None = None,
    judge: Judge | None = None,
) -> Origin:
    """Make the working directory *key* for *run*, and return its origin.

    Repeatable: the remains of a crashed attempt are under another key.

    :param store: Holds the restore plan.
    :param area: Holds the working directories.
    :param paths: The job.
    :param previous: The job's current generation; ``None`` before the first.
    :param published: Query -> last batch that a checkpoint of this run holds.
    :param by: The driver, for the record of the fence.
    :param refusal: Spark's message when it refused the directory of *previous*; empty when it did not.
    :param refused: The refused query; a display query starts without a past, and the others are continued.
    :param lengths: Query -> relative path -> bytes of the files of the last checkpoint that was taken there.
    :param fall_back: Makes another directory when the previous one cannot be continued; without it, the error is
        raised.
    :param reach: Access to the file systems of outputs; by default from the environment.
    :param judge: Judges the batches that a recovery executes again.
    :raises DecisionNeededError: It cannot be continued, and the next step needs a decision of the user.
    :raises RestoreRefusedError: The outputs have changed since the restore was planned.
    :raises RecordCorruptError: The generation or the plan names a directory outside of the job; no change was made.
    :raises CheckpointError: Its source is damaged or gone.
    :raises StorageUnavailableError: The work root, or an output, does not answer.
    """
    plan = _read_plan(store, run, previous)
    chosen = _chosen(area, paths, run, plan)  # refused before the fence renames anything
    fenced = _fence(area, paths, previous, by)
    reach = reach or StorageAccess()
    origin = Origin(OriginKind.FRESH, key, area.tree(key), area.uri(key), reach=reach)
    source = area.tree(chosen) if chosen else None  # that of an adoption is never read
    if plan is not None:
        origin = replace(origin, plan=plan, sinks=source, output=run.start.output, source=_name(run))
    if previous is not None and previous.run == run.number:
        origin = replace(origin, fallback=previous.fallback)
        try:
            with area.listed_once(fenced) if fenced is not None else nullcontext():
                dispensable = _dispensable(area.tree(fenced)) if fenced is not None else frozenset[str]()
                anew = frozenset({refused or ""}) & dispensable
                lost = _continuable(fenced, previous, "" if anew else refusal)
                check_lengths(
                    area.tree(lost), {name: each for name, each in (lengths or {}).items() if name not in dispensable}
                )
                if judge is not None:
                    found = judge(area.tree(lost), previous)
                    origin = replace(origin, lossy=found.lossy, message=found.message)
                area.create(key)
                return _recover(area, origin, lost, previous, published or {}, dispensable=dispensable, anew=anew)
        except (CheckpointCorruptError, CheckpointMissingError, RecordCorruptError) as error:
            if fall_back is None:
                raise
            made = fall_back(previous, error)
            if area.contains(key):
                area.remove(key)  # it is incomplete
            return made
    if plan is not None:
        if plan.same_output:  # another output is seeded, and does not depend on the old one
            check_facts(plan, source, reach)
        check_adopted(plan, reach)
        area.create(key)
        prepare_restore(area, chosen, plan, key, reach)
        if not plan.adopted and source is not None:
            keep_sink_logs(source, origin.directory)
        return replace(origin, kind=OriginKind.RESTORE, sinks=kept_in(origin.directory) or origin.sinks)
    area.create(key)
    return origin


def check_facts(plan: RestorePlan, directory: Tree | None, reach: StorageAccess) -> None:
    """Assert that file sinks and tables still have the same content as when the plan was made.

    :param directory: The chosen closure: one directory per query; ``None`` for an adoption.
    :raises RestoreRefusedError: The content of a sink differs: its new batches would be skipped, or repeated.
    """
    for name, query in plan.queries.items():
        adopted = reach.tree(plan.adopted[name].path) if name in plan.adopted else None
        reached = _reached(query, directory / name if adopted is None and directory is not None else adopted, reach)
        if reached is None:
            continue
        set_aside_before = bool(query.set_aside) and reached == min(query.set_aside) - 1
        if reached != query.sink.max_batch and not set_aside_before:
            raise RestoreRefusedError(
                f"the output of query {name!r} ({query.sink.path or query.sink.table}) has batches up to {reached}; "
                f"the restore was planned with {query.sink.max_batch}",
                next_step="Plan the restore again",
            )


def check_adopted(plan: RestorePlan, reach: StorageAccess) -> None:
    """Assert that no process works in the adopted directories: their queries are at the planned batches.

    :param reach: Access to their file systems.
    :raises RestoreRefusedError: A query has advanced, or is another one.
    """
    for name, adopted in plan.adopted.items():
        directory = reach.tree(adopted.path)
        now = progress(directory)
        if read_query_id(directory) != adopted.query_id or now != Progress(adopted.planned, adopted.committed):
            raise RestoreRefusedError(
                f"the checkpoint of query {name!r} in {adopted.path} has changed since the restore was planned: "
                f"batch {now.planned} is planned and {now.committed} committed",
                next_step="Stop the query that works there, then plan the restore again",
            )


def _reached(query: QueryPlan, directory: Tree | None, reach: StorageAccess) -> int | None:
    """Return the highest batch that the output has; ``None`` for an output that cannot be queried."""
    sink = sink_connector(query.sink, reach)
    if sink is not None and query.sink.path is not None:
        return sink.reached()
    memory = query_memory(query.sink, reach)
    if memory is None or query.sink.max_batch < 0 or directory is None:
        return None
    try:
        return memory.last_batch(read_query_id(directory))
    except RestoreUnknownError as error:
        log.warning("the restore continues, but the content of table %s is unknown: %s", query.sink.table, error)
        return None


def _chosen(area: WorkArea, paths: JobPaths, run: Run, plan: RestorePlan | None) -> str:
    """Return the key of the directory that the plan was made for; empty for an adoption, and without a plan."""
    if plan is None or plan.adopted:
        return ""
    source = f"the restore plan of znode {paths.run(run.number)}"
    return area.admit(plan.directory, inside=JobKeys(plan.source_job).restorable, source=source)


def _fence(area: WorkArea, paths: JobPaths, previous: Generation | None, by: Successor | None) -> str | None:
    """Fence the previous working directory; ``None`` if there is no such directory, or it is gone."""
    if previous is None:
        return None
    try:
        return area.fence(working_directory(area, paths, previous), by=by)  # guard: the-fence-takes-any-directory
    except CheckpointMissingError:
        return None


def _read_plan(store: ObjectStore, run: Run, previous: Generation | None) -> RestorePlan | None:
    """Return the plan that the run follows: that of its last fallback, else that of its start."""
    if previous is not None and previous.run == run.number and previous.fallback is not None:
        return read_plan(store, previous.fallback.plan.sha256)
    if run.start.kind is StartKind.FRESH or run.start.plan is None:
        return None
    return read_plan(store, run.start.plan.sha256)


def _continuable(fenced: str | None, previous: Generation, refusal: str) -> str:
    """Return the key of a lost directory that is there, and that Spark has not refused."""
    name = f"the working directory of epoch {previous.epoch} ({previous.directory})"
    if fenced is None:
        raise CheckpointMissingError(f"{name} is gone", next_step="Restore the job from its latest checkpoint")
    if refusal:
        raise CheckpointMissingError(f"Spark refused {name}: {refusal}", next_step="Restore the job from a checkpoint")
    return fenced


def _dispensable(lost: Tree) -> frozenset[str]:
    """Return the display queries of a lost directory.

    :raises RecordCorruptError: The record of the started queries is damaged.
    """
    started = read_started(lost)
    sinks = started.sinks if started is not None else {}
    return frozenset(name for name, sink in sinks.items() if (sink.format or "").lower() in DEBUG_FORMATS)


def _recover(
    area: WorkArea,
    origin: Origin,
    lost: str,
    previous: Generation,
    published: Mapping[str, int],
    *,
    dispensable: Collection[str],
    anew: Collection[str],
) -> Origin:
    recorded = {name: query.replay for name, query in origin.plans.items()}
    forked = prepare_recovery(area, lost, origin.key, recorded=recorded, dispensable=dispensable, anew=anew)
    fenced, drain, sinks = area.tree(lost), newest_drain(area, lost), origin.sinks
    carried = carry(fenced, origin.directory, forked, published)
    if (kept := kept_in(fenced)) is not None:
        keep_sink_logs(kept, origin.directory)
        sinks = kept_in(origin.directory)
    if (started := read_started(fenced)) is not None:
        for name in origin.lossy:  # the accepted input is read from now on
            started = started.with_topics(name, {})
        write_started(origin.directory, started)
    committed = {query: at.committed for query, at in forked.items()}
    log.info("epoch %d is continued from %s at %s", previous.epoch, fenced, committed)
    return replace(
        origin,
        kind=OriginKind.RECOVERY,
        sinks=sinks,
        carried=carried,
        source=f"epoch {previous.epoch}",
        drain=area.tree(drain) if drain is not None else None,
    )


def _name(run: Run) -> str:
    kind = run.start.kind
    return str(run.start.source_id) if kind is StartKind.PATH else f"{kind.value}-{run.start.source_id}"


def start_from_fallback(
    area: WorkArea,
    paths: JobPaths,
    run: Run,
    planned: tuple[Fallback, RestorePlan],
    *,
    key: str,
    reach: StorageAccess | None = None,
) -> Origin:
    """Make the working directory *key*, and return its origin.

    Repeatable with another key.

    :param area: Holds the checkpoint and both directories.
    :param paths: The job.
    :param run: The run that continues.
    :param planned: The checkpoint to continue from, and its plan.
    :param reach: Access to the file systems of outputs; by default from the environment.
    :raises DecisionNeededError: An output has changed since the plan was made.
    :raises CheckpointError: The checkpoint has been damaged since.
    :raises StorageUnavailableError: The work root, or an output, does not answer.
    """
    fallback, plan = planned
    record = f"the fallback of znode {paths.generation}"
    chosen = area.admit(plan.directory, inside=JobKeys(plan.source_job).restorable, source=record)
    source = area.tree(chosen)
    reach = reach or StorageAccess()
    try:
        check_facts(plan, source, reach)
    except RestoreRefusedError as error:  # the plan is fresh: another driver is at work, and no run ends
        raise DecisionNeededError(error.message, next_step=error.next_step) from error
    area.create(key)
    prepare_restore(area, chosen, plan, key, reach)
    made = area.tree(key)
    keep_sink_logs(source, made)
    if (started := _started(area, fallback, plan, run)) is not None:
        write_started(made, started)
    return Origin(
        OriginKind.FALLBACK,
        key,
        made,
        area.uri(key),
        source=fallback.source,
        plan=plan,
        sinks=kept_in(made) or source,
        fallback=fallback,
        reach=reach,
    )


def _started(area: WorkArea, fallback: Fallback, plan: RestorePlan, run: Run) -> StartedQueries | None:
    """Return the queries that the run has started, by its lost directory, else by its own checkpoint.

    A checkpoint is taken when the script has started all its queries. The starting point of the run is no evidence
    about the run's own script.
    """
    try:
        found = read_started(area.tree(area.current(fallback.lost)))
    except RecordCorruptError as error:
        log.warning("the started queries of the run are taken from its checkpoint: %s", error)
        found = None
    if found is not None or fallback.source == f"{run.start.kind.value}-{run.start.source_id}":
        return found
    queries = tuple(StartedQueryRecord(name=name, sink=query.sink) for name, query in plan.queries.items())
    return StartedQueries(queries=queries, complete=True)
