"""Takes back what an unfinished drain of an earlier epoch wrote, before anything is cut, drained or started.

Invariant: only the drain can have written it: the batch was planned in its fork and in no other directory.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from airflow_provider_ha.checkpoints.connectors.file_sink import FileSink
from airflow_provider_ha.checkpoints.connectors.sink_connector import SinkConnector
from airflow_provider_ha.checkpoints.format.layout import progress
from airflow_provider_ha.driver.origin import Origin
from airflow_provider_ha.driver.resting import RestingQuery


log = logging.getLogger(__name__)


def undo_drains(origin: Origin, queries: Iterable[RestingQuery]) -> None:
    """Take it back for each query at rest: a stop may come before the script starts it, and drains it again."""
    for query in queries:
        if query.sink_log is not None:
            undo_drain(origin, query.name, FileSink(str(query.sink_log)))  # guard: unfinished-drains-stay-until-a-start


def undo_drain(origin: Origin, name: str, sink: SinkConnector) -> None:
    """Set aside the drain's record in the output of a query; repeatable."""
    if origin.drain is None:
        return
    batch = progress(origin.drain / name).planned
    # guard: ordinary-batches-are-taken-for-a-drains
    if batch != progress((origin.directory / name).fresh()).planned + 1 or sink.reached() != batch:
        return
    digest = sink.digest(batch)
    if digest is not None and sink.set_aside(batch, digest):
        log.warning("query %s: batch %d of an unfinished drain was set aside in its sink", name, batch)
