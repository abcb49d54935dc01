"""Takes back what an unfinished drain of an earlier epoch wrote, before anything is cut, drained or started.

Invariant: only the drain can have written it: the batch was planned in its fork and in no other directory.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from airflow_provider_ha.checkpoints.connectors.file_sink_log import FileSinkLog
from airflow_provider_ha.checkpoints.format.layout import progress
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.driver.origin import Origin
from airflow_provider_ha.driver.resting import RestingQuery


log = logging.getLogger(__name__)


def undo_drains(origin: Origin, queries: Iterable[RestingQuery]) -> None:
    """Take it back for each query at rest: a stop may come before the script starts it, and drains it again."""
    for query in queries:
        if query.sink_log is not None:
            undo_drain(origin, query.name, query.sink_log)


def undo_drain(origin: Origin, name: str, path: Path) -> None:
    """Set aside the drain's entry in the log of a query's file sink; repeatable.

    :param path: Directory of the sink.
    """
    if origin.drain is None:
        return
    batch, sink_log = progress(LocalTree(origin.drain / name)).planned, FileSinkLog(path)
    if batch != progress(LocalTree(origin.directory / name)).planned + 1 or sink_log.max_batch() != batch:
        return
    digest = sink_log.digest(batch)
    if digest is not None and sink_log.set_aside(batch, digest):
        log.warning("query %s: batch %d of an unfinished drain was set aside in %s", name, batch, path)
