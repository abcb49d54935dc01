"""Batches to execute again: recorded by a restore plan, or decided at the start of a query.

Invariant: a batch of the sink is never planned again with other boundaries, and a batch of a file sink never reaches
the real sink again. Spark skips such a batch without executing its plan: no state is written, and a stateful query with
checkpoint format 2 then never starts again (spark-facts section 0). So it runs into a noop sink first.

A restored working directory ends at the cut of its plan. If it is lost before its first checkpoint, only the plan knows
the batches after the cut.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from airflow_provider_ha.checkpoints.model import BatchEntry, RestorePlan
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import Progress
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
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
    :raises StorageUnavailableError: It could not be read.
    """
    return RestorePlan.from_bytes(get_blob(store, sha256), source=f"restore plan {sha256}")


def planned_replays(store: ObjectStore, sha256: str | None) -> Mapping[str, Sequence[BatchEntry]]:
    """Return the recorded batches of a plan by query; empty without a plan, or if it is missing or damaged.

    :raises StorageUnavailableError: It could not be read.
    """
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

    :param batch: Id of the batch.
    :param entry: Entry to plan first (``archive.put_offsets``); ``None`` when the checkpoint plans it already.
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
