"""The second run of the script when a job is terminated: each query executes one batch that closes all windows.

It works in a fork of the stopped directory, so the sharp checkpoint before it stays unchanged.
``checkpoints.working.drain`` has written the entry to execute there; the script's own triggers are ignored.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from airflow_provider_ha.checkpoints.connectors.foreach_batch import FOREACH_BATCH
from airflow_provider_ha.checkpoints.connectors.places import Reach
from airflow_provider_ha.checkpoints.connectors.sinks import sink_connector
from airflow_provider_ha.checkpoints.format.layout import progress
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.working.drain import write_drain_entry
from airflow_provider_ha.checkpoints.working.unfinished_drain import drain_key
from airflow_provider_ha.checkpoints.working.work_area import WorkArea
from airflow_provider_ha.driver.context import Fenced
from airflow_provider_ha.driver.ended_query import EndedQuery
from airflow_provider_ha.driver.jvm.component import Component
from airflow_provider_ha.driver.query_name import name_query
from airflow_provider_ha.driver.query_start import NOOP, WriterCalls, check_writer
from airflow_provider_ha.driver.resting import described
from airflow_provider_ha.driver.spark_conf import fit_state_format
from airflow_provider_ha.driver.writer_notes import SinkSpec, begins_anew, notes
from airflow_provider_ha.errors import OperationFailedError
from airflow_provider_ha.jobs.model import DrainedQuery


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DrainFork:
    """The fork of a stopped directory in which the last batch of each query is planned.

    :param location: Its URI, as Spark receives it.
    """

    directory: Tree
    location: str


def fork_for_drain(area: WorkArea, stopped: str, names: Iterable[str]) -> DrainFork:
    """Fork every query of a stopped directory that has committed a batch, and plan its last batch.

    :param stopped: Key of the directory.
    """
    target = drain_key(stopped)
    if area.contains(target):
        area.remove(target)
    area.create(target)
    for name in names:
        if progress(area.tree(stopped) / name).committed >= 0:
            area.fork(f"{stopped}/{name}", f"{target}/{name}", keep_planned=False)
            write_drain_entry(area.tree(target) / name)
    return DrainFork(area.tree(target), area.uri(target))


class DrainStarter:
    """Starts each query for its last batch, and waits for it.

    :param component: Of the JVM, if the fork is behind it.
    :param reach: Access to the file systems of outputs; by default from the environment.
    :param drained: Query -> its output; complete when the script has ended.
    """

    def __init__(
        self, fork: DrainFork, calls: WriterCalls, component: Component | None = None, reach: Reach | None = None
    ) -> None:
        self._fork = fork
        self._reach = reach or Reach()
        self._calls = calls
        self._component = component
        self.drained: dict[str, DrainedQuery] = {}
        self._seen: set[str] = set()

    def start(self, writer: Any, path: str | None) -> Any:
        """Execute the last batch of the query; returns the handle of the ended query.

        :raises OperationFailedError: It did not execute exactly that batch.
        :raises SystemExit: The query is already drained.
        """
        if begins_anew(notes(writer), writer._spark.conf.get("spark.sql.sources.default")):  # noqa: SLF001  # as below
            return EndedQuery(notes(writer).name)  # its drain is empty, and it would read its input from the beginning
        if (name := name_query(writer, path)) in self._seen:
            raise SystemExit(0)  # the script starts its query again whenever it has ended
        self._seen.add(name)
        session = writer._spark  # noqa: SLF001  # the session that made the writer; it has no public name
        if self._component is not None:
            self._component.check_session(session)
        checked = check_writer(writer, path, self._fork.location, frozenset())
        directory = self._fork.directory / checked.name
        planned = progress(directory.fresh()).planned
        fit_state_format(session, directory.fresh())
        if planned < 0:  # it never had a batch: its drain is empty, and a first batch would be new input
            self._calls.set_format(writer, NOOP)
        withheld = self._withhold_empty(writer)
        self._calls.trigger(writer, once=True)
        handle = self._calls.start(writer, path) if planned < 0 else self._calls.begin(writer, path)
        if self._component is not None:
            self._component.check_query(handle, checked.name)
        handle.awaitTermination()
        if planned < 0:
            return handle
        now = progress(directory.fresh())
        if (now.planned, now.committed) != (planned, planned):
            raise OperationFailedError(f"the drain of query {checked.name!r} ended at {now} instead of batch {planned}")
        wrote = withheld is None or withheld.called
        self.drained[checked.name] = _drained(planned, checked.sink, self._reach, wrote=wrote)
        log.info("query %s drained with batch %d", checked.name, planned)
        return handle

    def _withhold_empty(self, writer: Any) -> WithheldWhenEmpty | None:
        noted = notes(writer)
        if noted.sink != FOREACH_BATCH:
            return None
        withheld = WithheldWhenEmpty(noted.function)
        self._calls.foreach_batch(writer, withheld)
        return withheld


class WithheldWhenEmpty:
    """A ``foreachBatch`` function that is called only when the drain has rows for it.

    The next run executes a batch of the same id with other rows. A sink that remembers batch ids would skip that batch
    after an empty batch with the same id; a batch that was never delivered need not be withdrawn.
    """

    def __init__(self, function: Any) -> None:
        self._function = function
        self.called = False

    def __call__(self, batch: Any, batch_id: int) -> None:
        """Deliver the batch, or execute it for its state alone. Every partition is read: Spark checks that."""
        kept = batch.persist()
        try:
            if kept.count():
                self.called = True
                give = self._function.drain if isinstance(self._function, Fenced) else self._function
                give(kept, batch_id)
        finally:
            kept.unpersist()


def _drained(batch: int, sink: SinkSpec, reach: Reach, *, wrote: bool) -> DrainedQuery:
    written = described(sink)
    connector = sink_connector(written, reach)
    if connector is None or written.path is None:
        return DrainedQuery(batch=batch, wrote=wrote)
    return DrainedQuery(batch=batch, sink_path=written.path, sink_entry_sha256=connector.digest(batch))
