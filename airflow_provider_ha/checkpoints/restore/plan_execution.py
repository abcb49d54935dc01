"""Execution of a restore plan: the working directory of the new epoch, and the batches to execute again.

Invariant: first the fence, then the reads, then the fork. A working directory is new for each epoch and becomes current
only by the fenced write that follows; an incomplete one is never current.

Invariant: a batch of the sink is never planned again with other boundaries, and a batch of a file sink never reaches
the real sink again. Spark skips such a batch without executing its plan: no state is written, and a stateful query with
checkpoint format 2 then never starts again (spark-facts section 0). So it runs into a noop sink first.

A restored working directory ends at the cut of its plan. If it is lost before its first checkpoint, only the plan knows
the batches after the cut.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from airflow_provider_ha.checkpoints.areas.source_logs import write_sources
from airflow_provider_ha.checkpoints.areas.work_area import WorkArea
from airflow_provider_ha.checkpoints.model import BatchEntry
from airflow_provider_ha.checkpoints.ownership import Owner
from airflow_provider_ha.checkpoints.plan_model import RestorePlan
from airflow_provider_ha.checkpoints.sinks.sink_registry import sink_connector
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import METADATA, Progress, progress
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    CheckpointMissingError,
    ObjectMissingError,
    RecordCorruptError,
    RestoreRefusedError,
)
from airflow_provider_ha.storage.blobs import get_blob
from airflow_provider_ha.storage.object_store import ObjectStore


log = logging.getLogger(__name__)


def read_plan(store: ObjectStore, sha256: str) -> RestorePlan:
    """Return a restore plan.

    :raises ObjectMissingError: It is missing.
    :raises RecordCorruptError: It is damaged.
    """
    return RestorePlan.from_bytes(get_blob(store, sha256), source=f"restore plan {sha256}")


def planned_replays(store: ObjectStore, sha256: str | None) -> Mapping[str, Sequence[BatchEntry]]:
    """Return the recorded batches of a plan by query; empty without a plan, or if it is missing or damaged."""
    if sha256 is None:
        return {}
    try:
        plan = read_plan(store, sha256)
    except (ObjectMissingError, RecordCorruptError) as error:
        log.warning("the batches that a restore has executed again are unknown: %s", error)
        return {}
    return {name: query.replay for name, query in plan.queries.items()}


def batches_in_common(plan: RestorePlan) -> dict[str, int]:
    """Return query -> highest batch that a run with this plan has in common with the runs of the source job. Pure."""
    return {name: query.batch + len(query.replay) for name, query in plan.queries.items()}


@dataclass(frozen=True, slots=True)
class ReplayStep:
    """Batch to execute with ``Trigger.Once`` before the query starts with the script's trigger.

    :param entry: Entry to plan first (``working_records.put_offsets``); ``None`` when the checkpoint plans it already.
    :param into: ``"noop"``: state is rebuilt without output; ``"sink"``: the script's sink.
    """

    batch: int
    entry: BatchEntry | None
    into: Literal["noop", "sink"]


def decide_start(
    progress: Progress, recorded: Iterable[BatchEntry], sink_max: int, *, query: str = "(unnamed)"
) -> tuple[ReplayStep, ...]:
    """Return the batches to execute first, ascending; usually empty.

    :param progress: L and C of the query's directory.
    :param recorded: Recorded batches of the run's restore plan; committed ones are skipped.
    :param sink_max: Highest batch in the file sink's log; -1 for an empty log, and for sinks that execute all batches.
    :param query: Name of the query, for the error.
    :raises RestoreRefusedError: The file sink has a batch with unknown boundaries (LOSS_POSSIBLE): executed with other
        boundaries, its new rows would be skipped silently.
    :raises CheckpointCorruptError: More than one batch is planned and not committed, or a commit has no plan.
    """
    _check_progress(query, progress, sink_max)
    steps = []
    known = {entry.batch: entry for entry in recorded if entry.batch > progress.committed}
    top = progress.committed
    while top + 1 == progress.planned or top + 1 in known:
        top += 1
        planned = top == progress.planned
        into: Literal["noop", "sink"] = "noop" if top <= sink_max else "sink"
        steps.append(ReplayStep(top, None if planned else known[top], into))
    if sink_max > top:
        raise RestoreRefusedError(
            f"LOSS_POSSIBLE: the sink of query {query!r} has batches up to {sink_max}, but the boundaries of "
            f"batches {top + 1} to {sink_max} are unknown",
            next_step="Restore the job from a checkpoint that knows them, or write to a new output directory",
        )
    if len(steps) == 1 and steps[0].entry is None and steps[0].into == "sink":
        return ()  # Spark does the same by itself
    return tuple(steps)


def _check_progress(query: str, progress: Progress, sink_max: int) -> None:
    if progress.committed > progress.planned:
        raise CheckpointCorruptError(f"{query}/commits/{progress.committed}", "it is committed, but was never planned")
    # Asynchronous progress tracking leaves gaps; it is for sinks without a log only.
    if sink_max >= 0 and progress.planned > progress.committed + 1:
        reason = f"it is planned, but {progress.committed} is the last committed batch"
        raise CheckpointCorruptError(f"{query}/offsets/{progress.planned}", reason)


def prepare_recovery(
    area: WorkArea,
    fenced: str,
    target: str,
    *,
    recorded: Mapping[str, Sequence[BatchEntry]] | None = None,
    dispensable: Collection[str] = (),
    anew: Collection[str] = (),
) -> dict[str, Progress]:
    """Fork all queries of a lost epoch with their planned batches; return the progress of each forked query.

    :param fenced: Key of the lost epoch's working directory, as returned by the fence.
    :param target: Key of the new epoch's working directory.
    :param recorded: Recorded batches of the run's restore plan by query: when the loss happened in the middle of a
        replay, the rest of the replay still needs its part of the source logs.
    :param dispensable: Queries that start anew if they cannot be continued.
    :param anew: The subset of *dispensable* that Spark has refused: they start anew in any case.
    :raises CheckpointCorruptError: Another query cannot be continued; restore the job from a checkpoint.
    """
    forked = {}
    lost = area.tree(fenced)
    for query in area.queries(fenced):
        if query in anew:
            log.warning("query %r starts anew, because Spark has refused to continue it", query)
            continue
        try:
            at = progress(lost / query)  # it no longer changes after the fence: the fork has the same progress
            # Without metadata the query never planned a batch: Spark begins it by itself.
            if at.planned < 0 and not lost.has(f"{query}/{METADATA}"):
                continue
            area.fork(f"{fenced}/{query}", f"{target}/{query}", keep_planned=True)
        except (CheckpointCorruptError, CheckpointMissingError) as error:
            if query not in dispensable:
                raise
            log.warning("query %r starts anew, because it cannot be continued: %s", query, error)
            continue
        following = [entry for entry in (recorded or {}).get(query, ()) if entry.batch > at.planned]
        write_sources(area.tree(target) / query, following)
        forked[query] = at
    return forked


def prepare_restore(
    area: WorkArea, source: str, plan: RestorePlan, target: str, reach: StorageAccess | None = None
) -> dict[str, int]:
    """Fork the queries of the plan at their cuts; return N by query.

    Continues the source logs up to the last batch to be replayed, sets aside a drain's entries in the logs of file
    sinks, and assigns fresh query ids from the plan. Can be repeated with another target after a crash.

    Files that stay the user's are copied: an edit in place by their owner does not affect the run, and vice versa. The
    job's files are linked, which takes milliseconds at any size.

    :param source: Key of the chosen closure (pin or savepoint): one directory per query. Not used for a plan that
        adopts directories from elsewhere.
    :param plan: The plan; the caller has checked its verdict.
    :param target: Key of the new epoch's working directory.
    :param reach: Access to the file systems of outputs and adopted checkpoints; by default from the environment.
    :raises RestoreRefusedError: An output has changed since the plan was created.
    """
    for query, part in plan.queries.items():
        if query in plan.adopted:
            # It becomes the job's only after the fork, and may never: until then it is the user's.
            adopted = (reach or StorageAccess()).tree(plan.adopted[query].path)
            area.bring_in(adopted, f"{target}/{query}", batch=part.batch)
        elif plan.owner is Owner.USER:
            area.bring_in(area.tree(source) / query, f"{target}/{query}", batch=part.batch)
        else:
            area.fork(f"{source}/{query}", f"{target}/{query}", batch=part.batch, keep_planned=False)
        made = area.tree(target) / query
        write_sources(made, part.replay)
        if part.query_id is not None:
            made.write(METADATA, json.dumps({"id": part.query_id}).encode())
    for part in plan.queries.values():
        sink = sink_connector(part.sink, reach)
        if sink is not None:
            for batch in sorted(part.set_aside, reverse=True):
                sink.set_aside(batch, part.set_aside[batch])
    return {query: part.batch for query, part in plan.queries.items()}
