"""The queries that the script started, in their order. Later queries may read what earlier ones write."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_provider_ha.checkpoints.directories.sinks import FileSinkLog
from airflow_provider_ha.checkpoints.format.layout import progress
from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.clock import Clock
from airflow_provider_ha.driver.writer_notes import SinkSpec
from airflow_provider_ha.jobs.model import QueryStatus


# A script that never waits (it loops and sleeps) counts as set up this many seconds after its last start().
SETTLE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class StartedQuery:
    """One query of the script.

    :param handle: pyspark's ``StreamingQuery``.
    :param directory: Its checkpoint location in this epoch.
    :param replayed: Batches that were executed again before it really started.
    """

    name: str
    handle: Any
    sink: SinkSpec
    directory: Path
    replayed: int = 0

    def sink_now(self) -> QuerySink:
        """Return what the sink has now."""
        path, table = self.sink.path, self.sink.table
        reached = FileSinkLog(path).max_batch() if path is not None and self.sink.kind is SinkKind.FILE else -1
        return QuerySink(
            kind=self.sink.kind,
            format=self.sink.source,
            path=str(path) if path else None,
            max_batch=reached,
            table=str(table) if table else None,
        )

    def status(self) -> QueryStatus:
        """Return where the query stands, from its directory."""
        now = progress(self.directory)
        return QueryStatus(
            planned=now.planned,
            committed=now.committed,
            sink=str(self.sink.path) if self.sink.path else self.sink.source,
            replayed=self.replayed,
        )

    def failure(self) -> str | None:
        """Return why the query failed, or ``None``."""
        error = self.handle.exception()
        return None if error is None else f"query {self.name!r} failed: {error}"


class QueryRegistry:
    """Every query that was started, whether it still runs or not."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queries: list[StartedQuery] = []
        self._last_start = 0.0
        self._expected: frozenset[str] = frozenset()
        self._waiting = threading.Event()
        self._lock = threading.Lock()

    def add(self, query: StartedQuery) -> None:
        """Register a query that was just started."""
        with self._lock:
            self._queries.append(query)
            self._last_start = self._clock.lease_time()

    def expect(self, names: Iterable[str]) -> None:
        """Note the queries that the checkpoint holds which the job starts from."""
        self._expected = frozenset(names)

    @property
    def started(self) -> tuple[StartedQuery, ...]:
        """All queries, in the order of their start."""
        with self._lock:
            return tuple(self._queries)

    @property
    def names(self) -> frozenset[str]:
        """Their names."""
        return frozenset(query.name for query in self.started)

    def find(self, handle: Any) -> StartedQuery | None:
        """Return the query of a pyspark handle: scripts also get handles from ``spark.streams.active``."""
        run = handle.runId
        return next((query for query in self.started if query.handle.runId == run), None)

    def script_waits(self) -> None:
        """Note that the script waits: it has started what it wants to start."""
        self._waiting.set()

    @property
    def settled(self) -> bool:
        """Whether the script has started all its queries, as far as can be told.

        Before that a cut would miss queries, and a stop would stop only half of them. A query that is expected may
        still be replaying its batches; only a script that waits has decided to go without it.
        """
        with self._lock:
            quiet = bool(self._queries) and self._clock.lease_time() - self._last_start > SETTLE_SECONDS
        return self._waiting.is_set() or (quiet and self._expected <= self.names)

    def failure(self) -> str | None:
        """Return why the first failed query failed, or ``None``."""
        return next((reason for query in self.started if (reason := query.failure())), None)
