"""The second run of the script when a job is terminated: each query executes one batch that closes all windows.

It works in a fork of the stopped directory, so the sharp checkpoint before it stays what it is. The entry to execute
was written there by ``checkpoints.working.drain``; the script's own triggers are ignored.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from airflow_provider_ha.checkpoints.connectors.sinks import sink_connector
from airflow_provider_ha.checkpoints.format.layout import progress
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.checkpoints.working.drain import write_drain_entry
from airflow_provider_ha.checkpoints.working.fork import fork
from airflow_provider_ha.driver.query_start import NOOP, WriterCalls, check_writer
from airflow_provider_ha.driver.resting import described
from airflow_provider_ha.driver.spark_conf import CHECKPOINT_LOCATION, fit_state_format
from airflow_provider_ha.driver.writer_notes import SinkSpec, notes
from airflow_provider_ha.errors import OperationFailedError
from airflow_provider_ha.jobs.model import DrainedQuery
from airflow_provider_ha.storage.durable import PRIVATE_DIRECTORY, private_directories


log = logging.getLogger(__name__)


def fork_for_drain(stopped: Path, target: Path, names: Iterable[str]) -> None:
    """Fork every query of a stopped directory that has committed something, and plan its last batch."""
    private_directories(target.parent)
    target.mkdir(PRIVATE_DIRECTORY)
    for name in names:
        if progress(LocalTree(stopped / name)).committed >= 0:
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
        self._seen: set[str] = set()

    def start(self, writer: Any, path: str | None) -> Any:
        """Execute the last batch of the query; returns the handle of the ended query.

        :raises OperationFailedError: It did not execute exactly that batch.
        :raises SystemExit: The query has been drained already.
        """
        if (name := notes(writer).name) in self._seen:
            # guard: drains-go-round
            raise SystemExit(0)  # the script starts its query again whenever it has ended
        if name:
            self._seen.add(name)
        session = writer._spark  # noqa: SLF001  # the session that made the writer; it has no public name
        session.conf.set(CHECKPOINT_LOCATION, self._root.as_uri())
        checked = check_writer(writer, path, self._root.as_uri(), frozenset())
        directory = self._root / checked.name
        planned = progress(LocalTree(directory)).planned
        fit_state_format(session, LocalTree(directory))
        if planned < 0:  # it never had a batch: there is nothing to drain, and a first batch would be new input
            self._calls.set_format(writer, NOOP)
        withheld = self._withhold_empty(writer)
        self._calls.trigger(writer, once=True)
        handle = self._calls.start(writer, path)
        handle.awaitTermination()
        if planned < 0:
            return handle
        now = progress(LocalTree(directory))
        if (now.planned, now.committed) != (planned, planned):
            raise OperationFailedError(f"the drain of query {checked.name!r} ended at {now} instead of batch {planned}")
        wrote = withheld is None or withheld.called
        self.drained[checked.name] = _drained(planned, checked.sink, wrote=wrote)
        log.info("query %s drained with batch %d", checked.name, planned)
        return handle

    def _withhold_empty(self, writer: Any) -> WithheldWhenEmpty | None:
        noted = notes(writer)
        if noted.sink != "foreachBatch":
            return None
        withheld = WithheldWhenEmpty(noted.function)
        self._calls.foreach_batch(writer, withheld)
        return withheld


class WithheldWhenEmpty:
    """A ``foreachBatch`` function that is called only when the drain has rows for it.

    The next run executes a batch of the same id with other rows. A sink that remembers batch ids would skip it if it
    had been given an empty one; what it was never given need not be taken back.
    """

    def __init__(self, function: Any) -> None:
        self._function = function
        self.called = False

    def __call__(self, batch: Any, batch_id: int) -> None:
        """Hand the batch over, or execute it for its state alone. Every partition is read: Spark checks that."""
        kept = batch.persist()
        try:
            if kept.count():
                self.called = True
                self._function(kept, batch_id)
        finally:
            kept.unpersist()


def _drained(batch: int, sink: SinkSpec, *, wrote: bool) -> DrainedQuery:
    written = described(sink)
    connector = sink_connector(written)
    if connector is None or written.path is None:
        return DrainedQuery(batch=batch, wrote=wrote)
    return DrainedQuery(batch=batch, sink_path=written.path, sink_entry_sha256=connector.digest(batch))
