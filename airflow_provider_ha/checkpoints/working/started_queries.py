"""The queries that a run's script has started, kept in its working directory and copied to that of the next epoch.

Invariant: a query is noted with its sink before it executes its first batch in an epoch. So a cut of a later
epoch knows where each query writes, also while its script has not started it again.
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
    """One query that the script of the run has started.

    :param sink: Where it writes; what it has is read when it is needed.
    :param sources: What it reads, beside what its offsets say.
    """

    name: str
    sink: QuerySink
    sources: QuerySources = QuerySources()


class StartedQueries(Record):
    """The queries that the script of one run has started, of all its epochs.

    :param queries: In the order in which they were started first.
    :param complete: Whether the script has waited, or been quiet, since: then these are all that it starts by itself.
    """

    kind: ClassVar[str] = "started-queries"

    queries: tuple[StartedBefore, ...] = ()
    complete: bool = False

    @property
    def sinks(self) -> dict[str, QuerySink]:
        """Query -> where it writes."""
        return {query.name: query.sink for query in self.queries}

    def sources(self, name: str) -> QuerySources:
        """Return what a query reads; nothing for one that is not named here."""
        return next((query.sources for query in self.queries if query.name == name), QuerySources())

    def including(self, name: str, sink: QuerySink, sources: QuerySources | None = None) -> StartedQueries:
        """Return the record with one more query, or with a new sink, and other sources, of one that it names."""
        made = StartedBefore(name=name, sink=sink, sources=sources or self.sources(name))
        known = {query.name: query for query in self.queries} | {name: made}
        return self.model_copy(update={"queries": tuple(known.values())})

    def with_topics(self, name: str, ids: Mapping[str, str]) -> StartedQueries:
        """Return the record with the ids of the topics that a query reads."""
        queries = tuple(
            query.model_copy(update={"sources": query.sources.model_copy(update={"topics": dict(ids)})})
            if query.name == name
            else query
            for query in self.queries
        )
        return self.model_copy(update={"queries": queries})


def read_started(directory: Tree) -> StartedQueries | None:
    """Return what a working directory says; ``None`` for one of an older release, or one without a query yet.

    :raises RecordCorruptError: The file is not what was written.
    :raises StorageUnavailableError: It could not be read.
    """
    try:
        data = read(directory, FILE)
    except FileGoneError:
        return None
    return StartedQueries.from_bytes(data, source=f"{directory}/{FILE}")


def write_started(directory: WritableTree, started: StartedQueries) -> None:
    """Write it into a working directory, durably.

    :raises StorageUnavailableError: It could not be written.
    """
    directory.write(FILE, started.to_bytes())
