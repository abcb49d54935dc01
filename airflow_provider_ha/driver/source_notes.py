"""Queries facts about the sources that are in neither offsets nor logs, without delaying batches or checkpoints.

The brokers of a query are queried once for the id of a topic: when the query is started, or its first batch is
recorded. The query keeps this id for the whole run: the id of a topic recreated since is not noted. If the brokers do
not answer, the next checkpoint after :data:`PAUSE_SECONDS` triggers a retry; until then the checkpoints have no id.

For the input files of each batch the file system is queried for their lengths, when the batch is planned.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path

from airflow_provider_ha.checkpoints.connectors._kafka_client import topic_ids
from airflow_provider_ha.checkpoints.connectors.input_files import measure
from airflow_provider_ha.checkpoints.connectors.places import Reach
from airflow_provider_ha.checkpoints.connectors.sources import kafka_topics
from airflow_provider_ha.checkpoints.model import BatchEntry, QuerySources
from airflow_provider_ha.clock import Clock
from airflow_provider_ha.driver.recorder import Lengths
from airflow_provider_ha.driver.start_ledger import StartLedger
from airflow_provider_ha.errors import ConfigurationError, HaError
from airflow_provider_ha.jobs.options.ha_options import HaOptions
from airflow_provider_ha.query_names import own_name


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

    def __init__(self, ledger: StartLedger, options: HaOptions, clock: Clock, reach: Reach) -> None:
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
