"""The queries that a run's script has started, kept in its working directory and copied to that of the next epoch.

Invariant: a query is noted with its sink before it executes its first batch in an epoch. So a cut of a later
epoch knows where each query writes, also while its script has not started it again.
"""

from __future__ import annotations

from typing import ClassVar

from airflow_provider_ha.checkpoints.model import QuerySink
from airflow_provider_ha.checkpoints.trees.files import FileGoneError, read
from airflow_provider_ha.checkpoints.trees.tree import Tree, WritableTree
from airflow_provider_ha.records import Model, Record


FILE = ".started.json"  # hidden: no query can have this name


class StartedBefore(Model):
    """One query that the script of the run has started.

    :param sink: Where it writes; what it has is read when it is needed.
    """

    name: str
    sink: QuerySink


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

    def including(self, name: str, sink: QuerySink) -> StartedQueries:
        """Return the record with one more query, or with a new sink of one that it names."""
        known = self.sinks | {name: sink}
        queries = tuple(StartedBefore(name=each, sink=where) for each, where in known.items())
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
