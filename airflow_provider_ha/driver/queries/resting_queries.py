"""Queries without a start: at rest in the working directory, with an unfinished drain, or ended for the script.

Invariant: they belong to every cut, at their committed batch. They are not executed, so reading them needs no care;
while recorded batches of a query are executed again it is cut like a running one. A batch that is planned and not
committed is left out: its boundaries are in the payload, so a restore executes exactly that batch.

Invariant: only the drain can have written them: the batch was planned in its fork and in no other directory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_ha.checkpoints.areas.working_records import StartedQueries
from airflow_provider_ha.checkpoints.model import QuerySink
from airflow_provider_ha.checkpoints.sinks.sink_registry import sink_connector, sink_record
from airflow_provider_ha.checkpoints.sinks.sink_type import SinkConnector
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress, queries
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.driver.checkpointing.origin import Origin
from airflow_provider_ha.driver.queries.writer_notes import SinkSpec
from airflow_provider_ha.errors import CheckpointError, RestoreRefusedError
from airflow_provider_ha.jobs.model import QueryStatus


class EndedQuery:
    """The handle of a query that was not started: to the script it has already ended.

    :param wait: Called when the script waits for its end; returns when the script is to continue. By default
        immediately.
    """

    def __init__(self, name: str | None, wait: Callable[[str], None] | None = None) -> None:
        self.name = name
        self.id = self.runId = ""
        self.isActive = False
        self.lastProgress = None
        self.recentProgress: list[Any] = []
        self.status = {"message": "not started", "isDataAvailable": False, "isTriggerActive": False}
        self._wait = wait

    def awaitTermination(self, timeout: float | None = None) -> bool | None:  # noqa: N802  # pyspark's name
        """Return immediately, or never."""
        if self._wait is not None:
            self._wait(f"query {self.name!r}")
        return None if timeout is None else True

    def processAllAvailable(self) -> None:  # noqa: N802  # pyspark's name
        """Return immediately."""

    def stop(self) -> None:
        """Do nothing."""

    def exception(self) -> None:
        """Report no error."""


@dataclass(frozen=True, slots=True)
class RestingQuery:
    """A query that the run had, and that is not executed at the moment.

    :param directory: Its checkpoint location in this epoch.
    :param sink: Its output; ``None`` when unknown.
    :param sink_log: Log of its file sink up to its committed batch; ``None`` for other sinks.
    :param recorded_to: Highest batch that is executed again before it starts; -1 for none.
    :param reach: Access to the file system of its output.
    """

    name: str
    directory: Tree
    sink: QuerySink | None
    sink_log: Tree | None = None
    recorded_to: int = -1
    reach: StorageAccess = field(default_factory=StorageAccess)

    @property
    def pending(self) -> bool:
        """Whether its sink may have a batch that it has not committed: it has to be started before it is drained."""
        now = progress(self.directory)
        return now.in_flight or self.recorded_to > now.committed

    @property
    def output(self) -> str | None:
        """Output directory of its file sink; ``None`` for other sinks, and when unknown."""
        return self.sink.path if self.sink is not None else None

    def sink_now(self) -> QuerySink:
        """Return the current content of the sink.

        :raises CheckpointError: The output of the query is unknown.
        """
        if self.sink is None:  # guard: unknown-sinks-are-guessed
            raise CheckpointError(
                f"query {self.name!r} has not been started yet, and no record names its output",
                next_step="Wait until the script has started it",
            )
        return as_it_is(self.sink, self.reach)

    def status(self) -> QueryStatus:
        """Return the query's progress, from its directory."""
        now = progress(self.directory)
        where = (self.sink.path or self.sink.table or self.sink.format) if self.sink is not None else None
        return QueryStatus(planned=now.planned, committed=now.committed, sink=where)


def described(sink: SinkSpec) -> QuerySink:
    """Return the record of a query's output, without the content."""
    return QuerySink(
        kind=sink.kind,
        format=sink.source,
        path=sink.path,
        table=sink.table,
        unplanned=sink.unplanned,
        repeatable=sink.repeatable,
    )


def as_it_is(sink: QuerySink, reach: StorageAccess) -> QuerySink:
    """Return the record with the current content of the sink, if its kind keeps a record of batches."""
    connector = sink_connector(sink, reach)
    if connector is None or sink.path is None:
        return sink
    return sink.model_copy(update={"max_batch": connector.reached()})


def expected_queries(
    origin: Origin,
    started: StartedQueries,
    reach: StorageAccess | None = None,
) -> tuple[RestingQuery, ...]:
    """Return the queries that the working directory was made with, in the order of their first start.

    :param started: The queries that the run's earlier epochs have started.
    :param reach: Access to the file systems of outputs; by default from the environment.
    """
    there = queries(origin.directory.fresh())
    noted = started.sinks
    order = [name for name in noted if name in there]
    order += [name for name in there if name not in noted]
    return tuple(_resting(origin, name, noted.get(name), reach or StorageAccess()) for name in order)


def _resting(origin: Origin, name: str, noted: QuerySink | None, reach: StorageAccess) -> RestingQuery:
    plan = origin.plans.get(name)
    sink, kept = noted, False
    if sink is None and plan is not None:
        same = origin.plan is not None and origin.plan.same_output
        # Of another job this is its own output, not this job's, which is unknown until the script names it.
        sink = plan.sink if same else plan.sink.model_copy(update={"path": None, "table": None, "max_batch": -1})
        kept = plan.sink_gone
    return RestingQuery(
        name,
        origin.directory / name,
        sink,
        _sink_log(origin, name, sink, reach, kept=kept),
        max((entry.batch for entry in origin.recorded(name)), default=-1),
        reach,
    )


def _sink_log(origin: Origin, name: str, sink: QuerySink | None, reach: StorageAccess, *, kept: bool) -> Tree | None:
    if sink is None or sink_connector(sink, reach) is None:
        return None
    if sink.path is not None and not kept:
        return sink_record(sink, reach)
    return origin.sink_log(name)


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
    if batch != progress(origin.directory / name).planned + 1 or sink.reached() != batch:
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
