"""Records the starts of a run's script, and decides which names it may start after a loss.

A script that is run again starts the same queries again. A script that makes a new name with every start (a name with a
time in it) leaves its previous query behind, with its state, and starts without a past: that is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping

from airflow_provider_ha.checkpoints.connectors.other_sink import DEBUG_FORMATS
from airflow_provider_ha.checkpoints.model import QuerySink, QuerySources
from airflow_provider_ha.checkpoints.trees.tree import WritableTree
from airflow_provider_ha.checkpoints.working.started_queries import StartedQueries, read_started, write_started
from airflow_provider_ha.errors import ApplicationRefusedError


class StartLedger:
    """The record of a working directory. Thread-safe.

    :param directory: The working directory of this epoch.
    :ivar before: The starts of earlier epochs of the run.
    """

    def __init__(self, directory: WritableTree) -> None:
        self._directory = directory
        self.before = read_started(directory) or StartedQueries()
        self._now = self.before
        self._lock = threading.Lock()

    @property
    def names(self) -> frozenset[str]:
        """Names of the queries that the run's script has started, in any of its epochs."""
        return frozenset(self._now.sinks)

    def note(self, name: str, sink: QuerySink, sources: QuerySources | None = None) -> None:
        """Note a query before it is started. The ids of its topics stay as they were noted first.

        :raises StorageUnavailableError: It could not be written; the query must not be started.
        """
        with self._lock:
            known = self._now.sources(name).topics
            said = (sources or QuerySources()).model_copy(update={"topics": known})
            self._put(self._now.including(name, sink, said))

    def note_topics(self, name: str, ids: Mapping[str, str]) -> None:
        """Note the ids of topics that a query reads; a topic that has an id keeps it.

        :raises StorageUnavailableError: They could not be written.
        """
        with self._lock:
            self._put(self._now.with_topics(name, {**ids, **self._now.sources(name).topics}))

    def sources(self, name: str) -> QuerySources:
        """Return the noted sources of a query."""
        return self._now.sources(name)

    def complete(self) -> None:
        """Note that the script has made all its starts.

        :raises StorageUnavailableError: It could not be written.
        """
        with self._lock:
            self._put(self._now.model_copy(update={"complete": True}))

    def _put(self, wanted: StartedQueries) -> None:
        if wanted != self._now:
            write_started(self._directory, wanted)
            self._now = wanted


def check_new_name(name: str, before: StartedQueries, *, expected: Collection[str], begun: Collection[str]) -> None:
    """Refuse a new query of a run whose driver was lost, while a query that the run had has not come back.

    A script that was lost before it came to this query is not refused: either it has started its earlier ones again, or
    it had not been seen to wait, so that there may have been more. Display queries, into a console or into memory, may
    come and go.

    :param before: The starts of earlier epochs of the run.
    :param expected: Names of the queries that the working directory was made with.
    :param begun: Names of the queries that the script has begun to start in this epoch.
    :raises ApplicationRefusedError: It would start without a past, and the other one would be left behind.
    """
    known = {name for name, sink in before.sinks.items() if (sink.format or "").lower() not in DEBUG_FORMATS}
    missing = sorted(known - set(begun))
    if not before.complete or not missing or name in known or name in expected:
        return
    raise ApplicationRefusedError(
        f"the script starts query {name!r}, which the run did not have before its driver was lost; it had "
        f"{', '.join(map(repr, sorted(known)))}, and {', '.join(map(repr, missing))} has not been started again",
        next_step="Give every query the same name at each start of the script, or submit the job with "
        "allow_new_queries=True",
    )
