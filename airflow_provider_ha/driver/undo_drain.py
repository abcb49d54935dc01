"""Reverts the writes of an earlier epoch's unfinished drain, before any cut, drain or start.

Invariant: only the drain can have written them: the batch was planned in its fork and in no other directory.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from airflow_provider_ha.checkpoints.connectors.sink_connector import SinkConnector
from airflow_provider_ha.checkpoints.connectors.sinks import sink_connector
from airflow_provider_ha.checkpoints.format.layout import progress
from airflow_provider_ha.driver.origin import Origin
from airflow_provider_ha.driver.resting import RestingQuery
from airflow_provider_ha.errors import RestoreRefusedError


log = logging.getLogger(__name__)


def undo_drains(origin: Origin, queries: Iterable[RestingQuery]) -> None:
    """Revert them for each query at rest: a stop may come before the script starts it, and drains it again."""
    for query in queries:
        sink = sink_connector(query.sink, query.reach) if query.sink is not None else None
        if sink is not None:
            undo_drain(origin, query.name, sink)


def undo_drain(origin: Origin, name: str, sink: SinkConnector) -> None:
    """Set aside the drain's record in the output of a query; repeatable.

    :raises RestoreRefusedError: The driver that wrote it is not proven dead, and could write it again.
    """
    if origin.drain is None:
        return
    batch = progress(origin.drain / name).planned
    # guard: ordinary-batches-are-taken-for-a-drains
    if batch != progress((origin.directory / name).fresh()).planned + 1 or sink.reached() != batch:
        return
    if sink.needs_proof and not origin.writers_dead:  # guard: drains-of-the-living-are-undone
        raise RestoreRefusedError(
            f"LOSS_POSSIBLE: batch {batch} of an unfinished drain is in the output of query {name!r}, and the driver "
            "that wrote it is not proven dead: it could write the batch again once it is set aside",
            next_step="Make sure that its processes have ended, then restore the job from its latest checkpoint",
        )
    digest = sink.digest(batch)
    if digest is not None and sink.set_aside(batch, digest):
        log.warning("query %s: batch %d of an unfinished drain was set aside in its sink", name, batch)
