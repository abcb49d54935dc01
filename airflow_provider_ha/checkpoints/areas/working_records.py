"""Records of a working directory: its batches for exact replay, and what the next epoch needs of queries and batches.

Invariant: a batch is executed again only with its original boundaries. They are the bytes of its offsets entry and, for
file sources, the source log's own lines of that batch; Spark's purge removes both, so checkpoint payloads carry them.
For sources without a log (Kafka, rate), the offsets entry is complete.

Spark, and the collector of a job, remove log entries before the corresponding state. So a batch whose entries exist
(``WorkArea.log_entries``) has not lost its state to either.

Spark never rewrites a file of a committed batch, so another length is damage. A missing file may have been purged: the
fork of the directory shows whether it is needed.

Invariant: a query is recorded with its sink before its first batch in an epoch. So a cut of a later epoch knows the
sink of each query, even before its script has started it again.

Invariant: every batch of a run since its newest checkpoint is recorded in the newest working directory. A fork takes
only the last two batches, so without these records a restore to a checkpoint from before a loss would find a gap
between the last payload of the lost epoch and the first one of the next.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Container, Iterator, Mapping
from typing import ClassVar

from airflow_provider_ha.checkpoints.model import BatchEntry, QuerySink, QuerySources
from airflow_provider_ha.checkpoints.spark import files
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import (
    COMMITS,
    OFFSETS,
    SOURCES,
    Progress,
    batches,
)
from airflow_provider_ha.checkpoints.spark.files import FileGoneError, read, read_text
from airflow_provider_ha.checkpoints.spark.metadata_log import (
    COMPACT,
    CompactibleLog,
    OffsetsEntry,
    parse_commits,
    parse_offsets,
    read_offsets,
)
from airflow_provider_ha.checkpoints.spark.tree import Tree, WritableTree
from airflow_provider_ha.errors import CheckpointCorruptError, CheckpointError
from airflow_provider_ha.records import Model, Record


log = logging.getLogger(__name__)


def missing_entry(batch: int, *, offsets: Container[str], commits: Container[str]) -> str | None:
    """Return the first missing entry, relative to the query; ``None`` when all exist. Pure.

    :param batch: N, of logs with an entry for each batch; -1 for none, which needs no entry.
    """
    if batch < 0:
        return None
    if str(batch) not in commits:
        return f"{COMMITS}/{batch}"
    # Spark also reads the boundaries of the preceding batch.
    missing = (entry for entry in range(max(batch - 1, 0), batch + 1) if str(entry) not in offsets)
    return next((f"{OFFSETS}/{entry}" for entry in missing), None)


def check_lengths(directory: Tree, recorded: Mapping[str, Mapping[str, int]]) -> None:
    """Assert that files have their recorded lengths.

    :param directory: Working directory: one directory per query.
    :param recorded: Query -> relative path -> bytes.
    :raises CheckpointCorruptError: The length of a file differs.
    :raises StorageUnavailableError: A file could not be inspected.
    """
    for query, lengths in recorded.items():
        for name, expected in lengths.items():
            try:
                found = files.size(directory / query, name)
            except files.FileGoneError:
                continue
            if found != expected:
                reason = f"it has {found} bytes, and had {expected} when a checkpoint was taken"
                raise CheckpointCorruptError(f"{query}/{name}", reason)


def record(directory: Tree, *, after: int) -> list[BatchEntry]:
    """Return the records of all batches above *after*, ascending.

    An unreadable entry ends the list, with a warning: batches after a gap cannot be replayed.

    :param after: Highest known batch; -1 for none.
    """
    entries = []
    for batch in _announced(directory, after):
        try:
            entries.append(read_entry(directory, batch))
        except CheckpointError as error:  # noqa: PERF203  # one batch, one verdict
            log.warning("recording of %s ends before batch %d: %s", directory, batch, error)
            break
    return entries


def readable(directory: Tree, *, after: int = -1) -> Iterator[BatchEntry]:
    """Yield the readable records above *after*; skip damaged ones with a warning."""
    for batch in _announced(directory, after):
        try:
            yield read_entry(directory, batch)
        except CheckpointError as error:  # noqa: PERF203  # one batch, one verdict
            log.warning("batch %d of %s is not recorded: %s", batch, directory, error)


def _announced(directory: Tree, after: int) -> list[int]:
    """Return the batches above *after*; a store sends their entries together, not one after the other."""
    found = [batch for batch in batches(directory, OFFSETS) if batch > after]
    before = [found[0] - 1] if found else []  # has the lower end of the first one
    directory.expect(f"{log_of}/{batch}" for batch in (*before, *found) for log_of in (OFFSETS, COMMITS))
    return found


def read_entry(directory: Tree, batch: int) -> BatchEntry:
    """Return the record of one batch.

    :raises CheckpointCorruptError: Its offsets entry, or a needed source log entry, is damaged or missing.
    :raises CheckpointMissingError: It has no offsets entry.
    """
    # The parsed bytes are the recorded bytes: the entry cannot change between check and copy.
    text = read_text(directory, f"{OFFSETS}/{batch}")
    entry = parse_offsets(batch, text)
    before = _previous(directory, batch)
    sources, log_offsets = {}, {}
    for position, source in enumerate(entry.sources):
        last = entry.log_offset(position)
        if last is None:
            continue
        log_offsets[source] = last
        first = _log_offset(before, source) + 1
        sources[source] = tuple(_own_lines(directory, source, first, last))
    return BatchEntry(
        batch=batch, offsets=text, commits=_commits(directory, batch), sources=sources, log_offsets=log_offsets
    )


def put_offsets(directory: WritableTree, entry: BatchEntry) -> None:
    """Plan exactly the recorded batch: Spark then executes it first, with its original boundaries.

    :raises CheckpointCorruptError: The checkpoint does not end just before that batch, or plans another one there.
    """
    name = f"{OFFSETS}/{entry.batch}"
    planned, committed = (max(batches(directory, log), default=-1) for log in (OFFSETS, COMMITS))
    if planned == entry.batch and committed < planned:
        if read_text(directory, name) != entry.offsets:
            raise CheckpointCorruptError(f"{OFFSETS}/{entry.batch}", "its planned boundaries differ from the record")
        return
    if planned != entry.batch - 1 or committed != planned:
        reason = f"batch {entry.batch} cannot follow: {planned} is planned and {committed} is committed"
        raise CheckpointCorruptError(f"{OFFSETS}/{entry.batch}", reason)
    directory.write(name, entry.offsets.encode())


def _own_lines(directory: Tree, source: str, first: int, last: int) -> Iterator[str]:
    existing = CompactibleLog(directory, f"{SOURCES}/{source}")
    for number in range(first, last + 1):
        holder = number
        if number not in existing.entries:
            # Spark deletes entries that a later compact entry repeats; the repeated lines keep their entry number.
            later = [k for k, name in existing.entries.items() if k > number and name.endswith(COMPACT)]
            if not later:
                raise FileGoneError(f"{SOURCES}/{source}/{number}", "it is needed and not there")
            holder = min(later)
        for line in existing.lines(holder):
            if json.loads(line).get("batchId", holder) == number:
                yield line


def _previous(directory: Tree, batch: int) -> OffsetsEntry | None:
    # Without it the lower end of the batch is unknown. All lines from the beginning are then kept: a superset is
    # harmless, because a log is rebuilt by entry, and existing entries are not written again.
    try:
        return read_offsets(directory, batch - 1) if batch > 0 else None
    except CheckpointError:
        return None


def _log_offset(entry: OffsetsEntry | None, source: str) -> int:
    if entry is None or source not in entry.sources:
        return -1
    value = entry.log_offset(entry.sources.index(source))
    return -1 if value is None else value


def _commits(directory: Tree, batch: int) -> str | None:
    # A damaged commit does not prevent a replay, which commits anew; it only must not be copied.
    try:
        text = read_text(directory, f"{COMMITS}/{batch}")
        parse_commits(batch, text)
    except CheckpointCorruptError:
        return None
    return text


UNPUBLISHED_FILE = ".carried.json"  # hidden: no query can have this name


class UnpublishedBatches(Record):
    """The carried records of a working directory.

    :param queries: Query -> entries, ascending.
    """

    kind: ClassVar[str] = "carried-batches"

    queries: dict[str, tuple[BatchEntry, ...]] = {}


def carry(
    fenced: Tree, target: WritableTree, forked: Mapping[str, Progress], published: Mapping[str, int]
) -> Mapping[str, tuple[BatchEntry, ...]]:
    """Write the records of *fenced* into *target*, which was forked from it; return query -> entries.

    :param forked: The queries of *target*, with their progress.
    :param published: Query -> last batch in a payload of this run.
    """
    before = read_carried(fenced)
    found = {}
    for query, at in forked.items():
        last, first = at.planned, published.get(query, 0)
        entries = {entry.batch: entry for entry in before.get(query, ())}
        for entry in readable(fenced / query, after=first - 1):
            # The fork does not contain the lower end of its oldest batch; the earlier record does.
            if entry.batch not in entries or entries[entry.batch].commits is None:
                entries[entry.batch] = entry.measured_as(entries.get(entry.batch))
        found[query] = tuple(entries[batch] for batch in sorted(entries) if first <= batch <= last)
    target.write(UNPUBLISHED_FILE, UnpublishedBatches(queries=found).to_bytes())
    return found


def read_carried(directory: Tree) -> Mapping[str, tuple[BatchEntry, ...]]:
    """Return query -> carried entries of a working directory; empty for one that is not a fork.

    :raises RecordCorruptError: The file is damaged.
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
    """
    try:
        data = read(directory, STARTED_FILE)
    except FileGoneError:
        return None
    return StartedQueries.from_bytes(data, source=f"{directory}/{STARTED_FILE}")


def write_started(directory: WritableTree, started: StartedQueries) -> None:
    """Write the record into a working directory, durably."""
    directory.write(STARTED_FILE, started.to_bytes())
