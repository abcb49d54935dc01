"""Records of each batch: Spark's own, before its purge, and facts of the sources that no log holds.

With ten batches retained and 50 ms per batch an entry lives half a second; the payload of a checkpoint is written every
few seconds. So the directories are read several times a second, and the entries kept here until a payload holds them.

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
from typing import TypeAlias

from airflow_provider_ha.checkpoints.areas.working_records import record
from airflow_provider_ha.checkpoints.model import BatchEntry, QuerySources
from airflow_provider_ha.checkpoints.sources.input_files import measure
from airflow_provider_ha.checkpoints.sources.kafka_offsets import topic_ids
from airflow_provider_ha.checkpoints.sources.source_registry import kafka_topics
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.clock import Clock
from airflow_provider_ha.driver.queries.query_naming import StartLedger
from airflow_provider_ha.errors import ConfigurationError, HaError
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.query_names import own_name


Lengths: TypeAlias = Mapping[str, tuple[int | None, ...]]
Measure: TypeAlias = Callable[[BatchEntry, Callable[[Lengths], None]], None]
"""Finds out the lengths of the input files of a batch, and calls back with them. Never waits for them."""


class BatchRecorder:
    """Entries of a query that are not yet in a payload.

    :param directory: The query's checkpoint location.
    :param known: Batches of its past, which the directory of a new epoch no longer shows.
    :param measure: Receives every planned batch that reads files.
    """

    def __init__(self, directory: Tree, known: Iterable[BatchEntry] = (), measure: Measure = lambda *_: None) -> None:
        self._directory = directory
        self._entries = {entry.batch: entry for entry in known}
        self._measure = measure
        self._lengths: dict[int, Lengths] = {}
        self._complete_up_to = -1  # every entry up to here was read with its commit

    def poll(self) -> None:
        """Read new entries; a batch that was only planned so far is read again."""
        for entry in record(self._directory.fresh(), after=self._complete_up_to):
            before = self._entries.get(entry.batch)
            if before is None or before.commits is None or before.offsets != entry.offsets:
                self._entries[entry.batch] = entry.measured_as(before)
                if before is None and any(entry.sources.values()):
                    self._measure(entry, partial(self._note_lengths, entry.batch))
            if entry.commits is not None and entry.batch > self._complete_up_to:
                self._complete_up_to = entry.batch

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


log = logging.getLogger(__name__)
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
