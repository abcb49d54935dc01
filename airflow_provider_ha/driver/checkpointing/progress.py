"""Progress of the queries: the trigger of the publisher's reads, and the recorded history of the batches.

Invariant: an answer only means "read now". Records and publications come from the directories, not from the answer: a
report that is early, late or missing only delays a checkpoint until the next read.

A report comes from ``lastProgress``, which Spark keeps in the driver's JVM: the query's own thread writes it after the
commit entry of its batch (``docs/explanation/spark-facts.md`` section 11). It is polled, not received from a listener:
events of a listener can be dropped, and each would be converted to Python in a thread that the other listeners wait
for.

Invariant: the history never disturbs the job. A failed write is logged once, kept, and repeated when that is possible.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Protocol

from airflow_provider_ha.clock import Clock
from airflow_provider_ha.driver.figures import QueryTrigger, read_trigger
from airflow_provider_ha.driver.queries.query_registry import Member, QueryRegistry, StartedQuery
from airflow_provider_ha.jobs.progress_history import ProgressHistory, ProgressPoint


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
