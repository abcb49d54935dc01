"""Asks what neither offsets nor logs say of the sources, beside the batches and the checkpoints: neither waits for it.

Of a topic the brokers of its query are asked for the id, once: when the query is started, or its first batch is
recorded. It keeps this id as long as the run lasts: that of a topic that was made again since is not noted. Where
no broker answers, the next checkpoint after :data:`PAUSE_SECONDS` asks again; until then the checkpoints have no id.

Of the input files of each batch their file system is asked for the length, when the batch is planned.
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
"""Batches whose files wait to be measured: what comes then is recorded without lengths."""


class SourceNotes:
    """The thread that asks, for all queries of a driver. Safe in several threads.

    :param ledger: Has the brokers that the script names, and gets the ids.
    :param options: Of the run: brokers that are named there are asked instead.
    :param reach: How the file systems of input files are reached.
    """

    def __init__(self, ledger: StartLedger, options: HaOptions, clock: Clock, reach: Reach) -> None:
        self._ledger = ledger
        self._options = options
        self._clock = clock
        self._asked: dict[str, float] = {}  # query -> when its brokers were asked last
        self._reach = reach
        self._waiting: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="source-notes", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def sources(self, query: str, entries: Sequence[BatchEntry]) -> QuerySources:
        """Return what is noted of a query; topics of its last batches that have no id yet are asked for."""
        self.ask(query, kafka_topics(entries[-1:], {}))
        return self._ledger.sources(query)

    def ask(self, query: str, topics: Collection[str]) -> None:
        """Let topics be asked for that have no id yet, if their brokers were not asked a moment ago."""
        wanted = frozenset(topics) - self._ledger.sources(query).topics.keys()
        now = self._clock.lease_time()
        if wanted and now - self._asked.get(query, float("-inf")) >= PAUSE_SECONDS:
            self._asked[query] = now
            self._waiting.put(partial(self._note, query, wanted))

    def measure(self, entry: BatchEntry, done: Callable[[Lengths], None]) -> None:
        """Let the lengths of the input files of a batch be asked for; not while a file system is far behind."""
        if self._waiting.qsize() < MOST_WAITING:
            self._waiting.put(lambda: done(measure(entry, self._reach)))

    def _run(self) -> None:
        while True:
            ask = self._waiting.get()
            try:
                ask()
            except HaError as error:
                log.warning("a checkpoint does not say all of its sources: %s", error)
            except Exception:
                log.exception("a checkpoint does not say all of its sources")

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
