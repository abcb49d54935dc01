"""Queries at rest in the working directory: the run had them, and its script has not started them yet.

Invariant: they belong to every cut, at their committed batch. They are not executed, so reading them needs no care;
while recorded batches of a query are executed again it is cut like a running one. A batch that is planned and not
committed is left out: its boundaries are in the payload, so a restore executes exactly that batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_ha.checkpoints.connectors.places import Reach
from airflow_provider_ha.checkpoints.connectors.sinks import sink_connector, sink_record
from airflow_provider_ha.checkpoints.format.layout import progress, queries
from airflow_provider_ha.checkpoints.model import QuerySink
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.working.started_queries import StartedQueries
from airflow_provider_ha.driver.origin import Origin
from airflow_provider_ha.driver.writer_notes import SinkSpec
from airflow_provider_ha.errors import CheckpointError
from airflow_provider_ha.jobs.model import QueryStatus


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
    reach: Reach = field(default_factory=Reach)

    @property
    def pending(self) -> bool:
        """Whether its sink may have a batch that it has not committed: it has to be started before it is drained."""
        now = progress(self.directory.fresh())
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
        now = progress(self.directory.fresh())
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


def as_it_is(sink: QuerySink, reach: Reach) -> QuerySink:
    """Return the record with the current content of the sink, if its kind keeps a record of batches."""
    connector = sink_connector(sink, reach)
    if connector is None or sink.path is None:
        return sink
    return sink.model_copy(update={"max_batch": connector.reached()})


def expected_queries(
    origin: Origin,
    started: StartedQueries,
    reach: Reach | None = None,
) -> tuple[RestingQuery, ...]:
    """Return the queries that the working directory was made with, in the order of their first start.

    :param started: The queries that the run's earlier epochs have started.
    :param reach: Access to the file systems of outputs; by default from the environment.
    """
    there = queries(origin.directory.fresh())
    noted = started.sinks
    order = [name for name in noted if name in there]
    order += [name for name in there if name not in noted]
    return tuple(_resting(origin, name, noted.get(name), reach or Reach()) for name in order)


def _resting(origin: Origin, name: str, noted: QuerySink | None, reach: Reach) -> RestingQuery:
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


def _sink_log(origin: Origin, name: str, sink: QuerySink | None, reach: Reach, *, kept: bool) -> Tree | None:
    if sink is None or sink_connector(sink, reach) is None:
        return None
    if sink.path is not None and not kept:
        return sink_record(sink, reach)
    return origin.sink_log(name)
