"""Make the working directory of a new epoch: after a loss, or for a restore.

Invariant: the fence comes first, then the look, then the fork. A working directory is new for each epoch and becomes
current only by the fenced write that follows; a half-made one is never current.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence

from airflow_provider_ha.checkpoints.connectors.places import Reach
from airflow_provider_ha.checkpoints.connectors.sinks import sink_connector
from airflow_provider_ha.checkpoints.format.layout import METADATA, progress
from airflow_provider_ha.checkpoints.model import BatchEntry, RestorePlan
from airflow_provider_ha.checkpoints.working.batch_log import write_sources
from airflow_provider_ha.checkpoints.working.work_area import WorkArea
from airflow_provider_ha.errors import CheckpointCorruptError, CheckpointMissingError
from airflow_provider_ha.pointers.ownership import Owner


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
    """Fork every query of a lost epoch with its planned batch; return query -> last committed batch.

    :param area: Holds both directories.
    :param fenced: Key of the lost epoch's working directory, as the fence returned it.
    :param target: Key of the new epoch's working directory.
    :param recorded: Query -> recorded batches of the run's restore plan: when the loss came in the middle of a replay,
        the rest of it still needs its part of the source logs.
    :param dispensable: Queries that begin anew where they cannot be continued.
    :param anew: Those of them that begin anew in any case: Spark has refused them.
    :raises CheckpointCorruptError: Another query cannot be continued; restore the job from a checkpoint.
    """
    committed = {}
    lost = area.tree(fenced)
    for query in area.queries(fenced):
        if query in anew:
            log.warning("query %r begins anew, because Spark has refused to continue it", query)
            continue
        try:
            at = progress(lost / query)  # nothing moves it after the fence: the fork stands there as well
            # Without metadata nothing was ever planned: Spark begins such a query by itself.
            if at.planned < 0 and not lost.has(f"{query}/{METADATA}"):
                continue
            area.fork(f"{fenced}/{query}", f"{target}/{query}", keep_planned=True)
        except (CheckpointCorruptError, CheckpointMissingError) as error:
            if query not in dispensable:
                raise
            log.warning("query %r begins anew, because it cannot be continued: %s", query, error)
            continue
        write_sources(area.tree(target) / query, _following(at.planned, (recorded or {}).get(query, ())))
        committed[query] = at.committed
    return committed


def prepare_restore(
    area: WorkArea, source: str, plan: RestorePlan, target: str, reach: Reach | None = None
) -> dict[str, int]:
    """Fork every query of the plan at its cut; return query -> N.

    Source logs are continued up to the last batch to be replayed, and what a drain added to the file sinks' logs is set
    aside, and a fresh query id is given where the plan has one. Can be repeated with another target after a crash.

    What is and stays the user's is copied: a file that its owner edits in place changes nothing of the run, and the
    other way round. What is the job's own is linked, which takes milliseconds at any size.

    :param area: Holds both directories.
    :param source: Key of the chosen closure (pin or savepoint): one directory per query. Not used for a plan that
        adopts directories from elsewhere.
    :param plan: What was decided; the caller has checked its verdict.
    :param target: Key of the new epoch's working directory.
    :param reach: How the file systems of outputs, and of what is adopted, are reached; as the environment says by
        default.
    :raises RestoreRefusedError: An output has changed since the plan was made.
    """
    for query, part in plan.queries.items():
        if query in plan.adopted:
            # It becomes the job's only after the fork, and may never: until then it is the user's.
            adopted = (reach or Reach()).tree(plan.adopted[query].path)
            area.bring_in(adopted, f"{target}/{query}", batch=part.batch)
        elif plan.owner is Owner.USER:  # guard: users-savepoints-are-linked
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
