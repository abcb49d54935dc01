"""The second run of the script when a job is terminated: each query executes one batch that closes all windows.

It works in a fork of the stopped directory, so the sharp checkpoint before it stays what it is. The entry to execute
was written there by ``checkpoints.drain``; the script's own triggers are ignored.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from airflow_provider_ha.checkpoints.drain import write_drain_entry
from airflow_provider_ha.checkpoints.fork import fork
from airflow_provider_ha.checkpoints.layout import progress
from airflow_provider_ha.checkpoints.model import SinkKind
from airflow_provider_ha.checkpoints.sinks import FileSinkLog
from airflow_provider_ha.driver.query_start import NOOP, WriterCalls, check_writer
from airflow_provider_ha.driver.spark_conf import CHECKPOINT_LOCATION, fit_state_format
from airflow_provider_ha.driver.writer_notes import SinkSpec
from airflow_provider_ha.errors import OperationFailedError
from airflow_provider_ha.jobs.model import DrainedQuery


log = logging.getLogger(__name__)


def fork_for_drain(stopped: Path, target: Path, names: Iterable[str]) -> None:
    """Fork every query of a stopped directory that has committed something, and plan its last batch."""
    target.mkdir(parents=True)
    for name in names:
        if progress(stopped / name).committed >= 0:
            fork(stopped / name, target / name, keep_planned=False)
            write_drain_entry(target / name)


class DrainStarter:
    """Starts each query for its one last batch, and waits for it.

    :param root: The fork.
    :param drained: Query -> what it wrote; complete when the script has ended.
    """

    def __init__(self, root: Path, calls: WriterCalls) -> None:
        self._root = root
        self._calls = calls
        self.drained: dict[str, DrainedQuery] = {}

    def start(self, writer: Any, path: str | None) -> Any:
        """Execute the last batch of the query; returns the handle of the ended query.

        :raises OperationFailedError: It did not execute exactly that batch.
        """
        session = writer._spark  # noqa: SLF001  # the session that made the writer; it has no public name
        session.conf.set(CHECKPOINT_LOCATION, self._root.as_uri())
        checked = check_writer(writer, path, self._root, frozenset(self.drained))
        directory = self._root / checked.name
        planned = progress(directory).planned
        fit_state_format(session, directory)
        if planned < 0:  # it never had a batch: there is nothing to drain, and a first batch would be new input
            self._calls.set_format(writer, NOOP)
        self._calls.trigger(writer, once=True)
        handle = self._calls.start(writer, path)
        handle.awaitTermination()
        if planned < 0:
            return handle
        now = progress(directory)
        if (now.planned, now.committed) != (planned, planned):
            raise OperationFailedError(f"the drain of query {checked.name!r} ended at {now} instead of batch {planned}")
        self.drained[checked.name] = _drained(planned, checked.sink)
        log.info("query %s drained with batch %d", checked.name, planned)
        return handle


def _drained(batch: int, sink: SinkSpec) -> DrainedQuery:
    if sink.kind is not SinkKind.FILE or sink.path is None:
        return DrainedQuery(batch=batch)
    return DrainedQuery(batch=batch, sink_path=str(sink.path), sink_entry_sha256=FileSinkLog(sink.path).digest(batch))
