"""Progress of the queries: trigger of the publisher's reads, history of the batches, and records of each batch.

Invariant: an answer only means "read now". Records and publications come from the directories, not from the answer: a
report that is early, late or missing only delays a checkpoint until the next read.

A report comes from ``lastProgress``, which Spark keeps in the driver's JVM: the query's own thread writes it after the
commit entry of its batch (``docs/explanation/spark-facts.md`` section 11). It is polled, not received from a listener:
events of a listener can be dropped, and each would be converted to Python in a thread that the other listeners wait
for.

Invariant: the history never disturbs the job. A failed write is logged once, kept, and repeated when that is possible.

Records of a batch are Spark's own, before its purge, and facts of the sources that no log holds. With ten batches
retained and 50 ms per batch an entry lives half a second; the payload of a checkpoint is written every few seconds. So
the directories are read several times a second, and the entries kept here until a payload holds them.

The brokers of a query are queried once for the id of a topic: when the query is started, or its first batch is
recorded. The query keeps this id for the whole run: the id of a topic recreated since is not noted. If the brokers do
not answer, the next checkpoint after :data:`PAUSE_SECONDS` triggers a retry; until then the checkpoints have no id.

For the input files of each batch the file system is queried for their lengths, when the batch is planned.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from airflow_provider_ha.checkpoints.areas.working_records import record
from airflow_provider_ha.checkpoints.model import BatchEntry, QuerySources
from airflow_provider_ha.checkpoints.sources.input_files import measure
from airflow_provider_ha.checkpoints.sources.kafka_offsets import topic_ids
from airflow_provider_ha.checkpoints.sources.source_registry import kafka_topics
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import COMMITS, OFFSETS, SOURCES, progress_when_listed
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.clock import Clock
from airflow_provider_ha.driver.figures import QueryTrigger, read_trigger
from airflow_provider_ha.driver.queries.query_naming import StartLedger
from airflow_provider_ha.driver.queries.query_registry import Member, QueryRegistry, StartedQuery
from airflow_provider_ha.errors import ConfigurationError, HaError
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.progress_history import ProgressHistory, ProgressPoint
from airflow_provider_ha.query_names import own_name


log = logging.getLogger(__name__)
WRITE_SECONDS = 60.0
FIRST_SECONDS = 10.0  # also for a driver that never lives for a minute
LAST_SECONDS = 5.0  # maximum wait for the last write at the end of the job


class ProgressRecorder:
    """Writes the reports of the queries."""

    def __init__(self, history: ProgressHistory, clock: Clock) -> None:
        self._history = history
        self._clock = clock
        self._failing = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress-history", daemon=True)

    def note(self, query: str, trigger: QueryTrigger) -> None:
        """Note a report of a query. Does not block."""
        if trigger.executed:
            self._history.add(point_of(query, trigger))

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread after a last write; a hanging thread is left alone."""
        self._stopping.set()
        self._thread.join(LAST_SECONDS)

    def write(self) -> None:
        """Write the new points."""
        try:
            self._history.write(self._clock.now())
        except Exception as error:  # noqa: BLE001  # nothing that happens here is worth a driver
            if not self._failing:
                log.warning("the history of the batches could not be written; it is tried again: %s", error)
            self._failing = True
            return
        if self._failing:
            log.info("the history of the batches is written again")
        self._failing = False

    def _run(self) -> None:
        pause = FIRST_SECONDS
        while not self._stopping.wait(pause):
            pause = WRITE_SECONDS
            self.write()
        self.write()


def point_of(query: str, trigger: QueryTrigger) -> ProgressPoint:
    """Return the point of a batch."""
    return ProgressPoint(
        at=trigger.ended_at,
        query=query,
        batch=trigger.batch,
        batch_seconds=trigger.seconds,
        longest_seconds=trigger.seconds,
        input_rows=trigger.input_rows,
        input_rate=trigger.input_rate,
        lag=trigger.lag,
    )


TriggerListener = Callable[[str, QueryTrigger], None]
FALLBACK_SECONDS = 2.0
"""Longest time between two reads, in seconds: the delay of publication for a query without reports."""
PAID_SECONDS = 30.0
"""The same where a read is a dozen requests to a store: every 2 s, they were three quarters of an idle job's cost."""


class ProgressSource(Protocol):
    """Decides when to read. Not thread-safe."""

    def moved(self) -> bool:
        """Return whether a query may have advanced since the last call; ``True`` for the first one. Never raises."""


class PeriodicProgress:
    """Triggers a read from time to time, without reports of the queries: the read lists their logs.

    :param seconds: Time between two reads; 0 reads with every call.
    """

    def __init__(self, clock: Clock, seconds: float = 0.0) -> None:
        self._clock = clock
        self._seconds = seconds
        self._last = float("-inf")

    def moved(self) -> bool:
        """Return whether the time is over."""
        now = self._clock.lease_time()
        if now - self._last < self._seconds:
            return False
        self._last = now
        return True


class ReportedProgress:
    """Queries every running query's last progress; it lists no directory.

    :param registry: The queries. A query at rest has no reports; its start or its drop counts as a move.
    :param heard: Called with the name of a query and every trigger that it has reported since the last call.
    """

    def __init__(self, registry: QueryRegistry, heard: TriggerListener | None = None) -> None:
        self._registry = registry
        self._heard = heard
        self._last: dict[str, tuple[int, str | None] | None] | None = None

    def moved(self) -> bool:
        """Return whether a query has reported another trigger, or the set of queries has changed."""
        before = self._last
        now = {query.name: self._ask(query, (before or {}).get(query.name)) for query in self._registry.members}
        self._last = now
        return now != before

    def _ask(self, query: Member, before: tuple[int, str | None] | None) -> tuple[int, str | None] | None:
        """Return the identity of a query's last trigger, relative to the one before; ``None`` without a report."""
        if not isinstance(query, StartedQuery):
            return None
        trigger = None
        try:
            last = query.handle._jsq.lastProgress()  # noqa: SLF001  # pyspark's own converts all of it
            # Not its batch: a trigger without data names the next batch, and would hide that batch's commit.
            trigger = None if last is None else last.timestamp()
            known = before[1] if before is not None and before[0] == id(query.handle) else None
            if self._heard is not None and last is not None and trigger != known:
                for each in _since(query, last, known):
                    self._heard(query.name, each)
        except Exception as error:  # noqa: BLE001  # a JVM that does not answer: the fallback looks
            log.debug("query %s does not report its progress: %s", query.name, error)
        return id(query.handle), trigger


class EitherProgress:
    """Two sources: *first* for promptness, *fallback* for cases that it misses."""

    def __init__(self, first: ProgressSource, fallback: ProgressSource) -> None:
        self._first = first
        self._fallback = fallback

    def moved(self) -> bool:
        """Return whether either source reports a move. Both are polled: each remembers its own answers."""
        answers = self._first.moved(), self._fallback.moved()
        return any(answers)


def progress_source(
    registry: QueryRegistry, clock: Clock, *, cheap_listing: bool, heard: TriggerListener | None = None
) -> ProgressSource:
    """Return the source of a driver: the reports of the queries, and a read from time to time.

    :param cheap_listing: Whether reading the queries' directories costs next to nothing.
    :param heard: As of :class:`ReportedProgress`.
    """
    seconds = FALLBACK_SECONDS if cheap_listing else PAID_SECONDS
    return EitherProgress(ReportedProgress(registry, heard), PeriodicProgress(clock, seconds))


def _since(query: StartedQuery, last: Any, known: str | None) -> list[QueryTrigger]:
    """Return the triggers that a query has reported after *known*, oldest first; all that Spark keeps at first.

    Batches can be shorter than the time between two reads. Each trigger is converted once.
    """
    newest = read_trigger(last.json())
    if newest is None:
        return []
    found = [newest]
    recent = query.handle._jsq.recentProgress()  # noqa: SLF001  # as above
    position = len(recent) - 1
    while position >= 0 and (stamp := recent[position].timestamp()) != known:
        older = read_trigger(recent[position].json()) if stamp != last.timestamp() else None
        if older is not None and older.at < newest.at:
            found.append(older)
        position -= 1
    return found[::-1]


Lengths: TypeAlias = Mapping[str, tuple[int | None, ...]]
Measure: TypeAlias = Callable[[BatchEntry, Callable[[Lengths], None]], None]
"""Finds out the lengths of the input files of a batch, and calls back with them. Never waits for them."""


class BatchRecorder:
    """Entries of a query that are not yet in a payload.

    :param directory: The query's checkpoint location.
    :param known: Batches of its past, which the directory of a new epoch no longer shows.
    :param measure: Receives every planned batch that reads files.
    :param carried_to: Highest batch that a lost epoch has committed and *known* has: the directory is read from there.
    """

    def __init__(
        self,
        directory: Tree,
        known: Iterable[BatchEntry] = (),
        measure: Measure = lambda *_: None,
        *,
        carried_to: int = -1,
    ) -> None:
        self._directory = directory
        self._entries = {entry.batch: entry for entry in known}
        self._measure = measure
        self._lengths: dict[int, Lengths] = {}
        self._complete_up_to = carried_to  # every entry up to here was read with its commit

    def poll(self) -> int:
        """Read new entries; a batch that was only planned so far is read again.

        :returns: The highest committed batch; -1 without one.
        """
        directory = self._directory.fresh(OFFSETS, COMMITS, SOURCES)
        for entry in record(directory, after=self._complete_up_to):
            before = self._entries.get(entry.batch)
            if before is None or before.commits is None or before.offsets != entry.offsets:
                self._entries[entry.batch] = entry.measured_as(before)
                if before is None and any(entry.sources.values()):
                    self._measure(entry, partial(self._note_lengths, entry.batch))
            if entry.commits is not None and entry.batch > self._complete_up_to:
                self._complete_up_to = entry.batch
        return progress_when_listed(directory).committed

    def entries(self) -> tuple[BatchEntry, ...]:
        """Return the entries that are not yet in a payload, ascending."""
        return tuple(self._measured(self._entries[batch]) for batch in sorted(self._entries))

    def _note_lengths(self, batch: int, lengths: Lengths) -> None:
        if batch in self._entries:  # batches in a payload need none
            self._lengths[batch] = lengths

    def _measured(self, entry: BatchEntry) -> BatchEntry:
        lengths = self._lengths.get(entry.batch)
        return entry.model_copy(update={"lengths": dict(lengths)}) if lengths else entry

    def published(self, entries: tuple[BatchEntry, ...]) -> None:
        """Forget *entries*, which a payload now holds; an entry without its commit stays until read with it."""
        for entry in entries:
            if entry.commits is not None or entry.batch < self._complete_up_to:
                self._entries.pop(entry.batch, None)
                self._lengths.pop(entry.batch, None)


PAUSE_SECONDS = 60.0
MOST_WAITING = 100
"""Batches whose files wait to be measured; further batches are recorded without lengths."""


class SourceNotes:
    """The thread that sends the requests, for all queries of a driver. Thread-safe.

    :param ledger: Has the brokers that the script names, and receives the ids.
    :param options: Of the run: brokers named there replace the script's.
    :param reach: Access to the file systems of input files.
    """

    def __init__(self, ledger: StartLedger, options: HaOptions, clock: Clock, reach: StorageAccess) -> None:
        self._ledger = ledger
        self._options = options
        self._clock = clock
        self._asked: dict[str, float] = {}  # query -> time of the last request to its brokers
        self._reach = reach
        self._waiting: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="source-notes", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def sources(self, query: str, entries: Sequence[BatchEntry]) -> QuerySources:
        """Return the notes of a query; topics of its last batches without an id are requested."""
        self.ask(query, kafka_topics(entries[-1:], {}))
        return self._ledger.sources(query)

    def ask(self, query: str, topics: Collection[str]) -> None:
        """Request the ids of topics without one, unless their brokers were queried a moment ago."""
        wanted = frozenset(topics) - self._ledger.sources(query).topics.keys()
        now = self._clock.lease_time()
        if wanted and now - self._asked.get(query, float("-inf")) >= PAUSE_SECONDS:
            self._asked[query] = now
            self._waiting.put(partial(self._note, query, wanted))

    def measure(self, entry: BatchEntry, done: Callable[[Lengths], None]) -> None:
        """Request the lengths of a batch's input files; not while a file system is far behind."""
        if self._waiting.qsize() < MOST_WAITING:
            self._waiting.put(lambda: done(measure(entry, self._reach)))

    def _run(self) -> None:
        while True:
            ask = self._waiting.get()
            try:
                ask()
            except HaError as error:
                log.warning("a checkpoint does not describe all its sources: %s", error)
            except Exception:
                log.exception("a checkpoint does not describe all its sources")

    def _note(self, query: str, topics: frozenset[str]) -> None:
        servers = self._options.kafka_bootstrap.get(own_name(query)) or self._ledger.sources(query).brokers
        if not servers:
            return
        named = self._options.kafka_properties
        try:
            found = topic_ids(servers, topics, properties=Path(named) if named else None)
        except ConfigurationError:
            self._asked[query] = float("inf")  # this driver cannot ask
            raise
        self._ledger.note_topics(query, found)
