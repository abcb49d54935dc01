"""Creation of the working directory of a new epoch: after a loss, or for a restore.

Invariant: first the fence, then the reads, then the fork. A working directory is new for each epoch and becomes current
only by the fenced write that follows; an incomplete one is never current.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence

from airflow_provider_ha.checkpoints.areas.batch_log import write_sources
from airflow_provider_ha.checkpoints.areas.work_area import WorkArea
from airflow_provider_ha.checkpoints.model import BatchEntry, RestorePlan
from airflow_provider_ha.checkpoints.ownership import Owner
from airflow_provider_ha.checkpoints.sinks.sink_registry import sink_connector
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import METADATA, progress
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.errors import CheckpointCorruptError, CheckpointMissingError


log = logging.getLogger(__name__)


def prepare_recovery(
    area: WorkArea,
    fenced: str,
    target: str,
    *,
    recorded: Mapping[str, Sequence[BatchEntry]] | None = None,
    dispensable: Collection[str] = (),
    anew: Collection[str] = (),
) -> dict[str, int]:
    """Fork all queries of a lost epoch with their planned batches; return the last committed batch by query.

    :param area: Work area of both directories.
    :param fenced: Key of the lost epoch's working directory, as returned by the fence.
    :param target: Key of the new epoch's working directory.
    :param recorded: Recorded batches of the run's restore plan by query: when the loss happened in the middle of a
        replay, the rest of the replay still needs its part of the source logs.
    :param dispensable: Queries that start anew if they cannot be continued.
    :param anew: The subset of *dispensable* that Spark has refused: they start anew in any case.
    :raises CheckpointCorruptError: Another query cannot be continued; restore the job from a checkpoint.
    """
    committed = {}
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
        write_sources(area.tree(target) / query, _following(at.planned, (recorded or {}).get(query, ())))
        committed[query] = at.committed
    return committed


def prepare_restore(
    area: WorkArea, source: str, plan: RestorePlan, target: str, reach: StorageAccess | None = None
) -> dict[str, int]:
    """Fork the queries of the plan at their cuts; return N by query.

    Continues the source logs up to the last batch to be replayed, sets aside a drain's entries in the logs of file
    sinks, and assigns fresh query ids from the plan. Can be repeated with another target after a crash.

    Files that stay the user's are copied: an edit in place by their owner does not affect the run, and vice versa. The
    job's files are linked, which takes milliseconds at any size.

    :param area: Work area of both directories.
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


def _following(last: int, entries: Iterable[BatchEntry]) -> list[BatchEntry]:
    return [entry for entry in entries if entry.batch > last]
