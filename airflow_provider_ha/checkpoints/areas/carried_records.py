"""Records of a working directory for the next epoch: started queries, and unpublished batches.

Invariant: a query is recorded with its sink before its first batch in an epoch. So a cut of a later epoch knows the
sink of each query, even before its script has started it again.

Invariant: every batch of a run since its newest checkpoint is recorded in the newest working directory. A fork takes
only the last two batches, so without these records a restore to a checkpoint from before a loss would find a gap
between the last payload of the lost epoch and the first one of the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from airflow_provider_ha.checkpoints.areas.batch_log import readable
from airflow_provider_ha.checkpoints.model import BatchEntry, QuerySink, QuerySources
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress, queries
from airflow_provider_ha.checkpoints.spark.files import FileGoneError, read
from airflow_provider_ha.checkpoints.spark.tree import Tree, WritableTree
from airflow_provider_ha.records import Model, Record


UNPUBLISHED_FILE = ".carried.json"  # hidden: no query can have this name


class UnpublishedBatches(Record):
    """The carried records of a working directory.

    :param queries: Query -> entries, ascending.
    """

    kind: ClassVar[str] = "carried-batches"

    queries: dict[str, tuple[BatchEntry, ...]] = {}


def carry(fenced: Tree, target: WritableTree, published: Mapping[str, int]) -> None:
    """Write the records of *fenced* into *target*, which was forked from it.

    :param published: Query -> last batch in a payload of this run.
    """
    before = read_carried(fenced)
    found = {}
    for query in queries(target):
        last, first = progress(target / query).planned, published.get(query, 0)
        entries = {entry.batch: entry for entry in before.get(query, ())}
        for entry in readable(fenced / query, after=first - 1):
            # The fork does not contain the lower end of its oldest batch; the earlier record does.
            if entry.batch not in entries or entries[entry.batch].commits is None:
                entries[entry.batch] = entry.measured_as(entries.get(entry.batch))
        found[query] = tuple(entries[batch] for batch in sorted(entries) if first <= batch <= last)
    target.write(UNPUBLISHED_FILE, UnpublishedBatches(queries=found).to_bytes())


def read_carried(directory: Tree) -> Mapping[str, tuple[BatchEntry, ...]]:
    """Return query -> carried entries of a working directory; empty for one that is not a fork.

    :raises RecordCorruptError: The file is damaged.
    :raises StorageUnavailableError: The file system does not answer.
    """
    try:
        data = read(directory, UNPUBLISHED_FILE)
    except FileGoneError:
        return {}
    return UnpublishedBatches.from_bytes(data, source=f"{directory}/{UNPUBLISHED_FILE}").queries


STARTED_FILE = ".started.json"  # hidden: no query can have this name


class StartedQueryRecord(Model):
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

    queries: tuple[StartedQueryRecord, ...] = ()
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
        made = StartedQueryRecord(name=name, sink=sink, sources=sources or self.sources(name))
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
        data = read(directory, STARTED_FILE)
    except FileGoneError:
        return None
    return StartedQueries.from_bytes(data, source=f"{directory}/{STARTED_FILE}")


def write_started(directory: WritableTree, started: StartedQueries) -> None:
    """Write the record into a working directory, durably.

    :raises StorageUnavailableError: It could not be written.
    """
    directory.write(STARTED_FILE, started.to_bytes())
