"""Record of the queries that a run's script has started, kept in its working directory and copied to the next epoch's.

Invariant: a query is recorded with its sink before its first batch in an epoch. So a cut of a later epoch knows the
sink of each query, even before its script has started it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from airflow_provider_ha.checkpoints.model import QuerySink, QuerySources
from airflow_provider_ha.checkpoints.trees.files import FileGoneError, read
from airflow_provider_ha.checkpoints.trees.tree import Tree, WritableTree
from airflow_provider_ha.records import Model, Record


FILE = ".started.json"  # hidden: no query can have this name


class StartedBefore(Model):
    """A query that the script of the run has started.

    :param sink: Its target; its position is read when needed.
    :param sources: Its sources, in addition to its offsets.
    """

    name: str
    sink: QuerySink
    sources: QuerySources = QuerySources()


class StartedQueries(Record):
    """The queries that the script of a run has started, in all its epochs.

    :param queries: In the order of their first start.
    :param complete: Whether the script has since waited or been idle: then these are all that it starts unprompted.
    """

    kind: ClassVar[str] = "started-queries"

    queries: tuple[StartedBefore, ...] = ()
    complete: bool = False

    @property
    def sinks(self) -> dict[str, QuerySink]:
        """Query -> its sink."""
        return {query.name: query.sink for query in self.queries}

    def sources(self, name: str) -> QuerySources:
        """Return the sources of a query; empty for an unknown query."""
        return next((query.sources for query in self.queries if query.name == name), QuerySources())

    def including(self, name: str, sink: QuerySink, sources: QuerySources | None = None) -> StartedQueries:
        """Return the record with an added query, or with a new sink and sources for a known one."""
        made = StartedBefore(name=name, sink=sink, sources=sources or self.sources(name))
        known = {query.name: query for query in self.queries} | {name: made}
        return self.model_copy(update={"queries": tuple(known.values())})

    def with_topics(self, name: str, ids: Mapping[str, str]) -> StartedQueries:
        """Return the record with the ids of a query's topics."""
        queries = tuple(
            query.model_copy(update={"sources": query.sources.model_copy(update={"topics": dict(ids)})})
            if query.name == name
            else query
            for query in self.queries
        )
        return self.model_copy(update={"queries": queries})


def read_started(directory: Tree) -> StartedQueries | None:
    """Return the record of a working directory; ``None`` before the first query.

    :raises RecordCorruptError: The file is damaged.
    :raises StorageUnavailableError: It could not be read.
    """
    try:
        data = read(directory, FILE)
    except FileGoneError:
        return None
    return StartedQueries.from_bytes(data, source=f"{directory}/{FILE}")


def write_started(directory: WritableTree, started: StartedQueries) -> None:
    """Write the record into a working directory, durably.

    :raises StorageUnavailableError: It could not be written.
    """
    directory.write(FILE, started.to_bytes())
