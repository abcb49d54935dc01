"""Says when the publisher has to look at the directories of the queries.

Invariant: an answer only says "look now". What is recorded and published is read from the directories, not from
the answer: a report that is early, late or missing delays a checkpoint until the next look, and changes nothing else.

A report comes from ``lastProgress``, which Spark keeps in the driver's JVM: the query's own thread writes it after the
commit entry of its batch (``docs/explanation/spark-facts.md`` section 11). It is asked for, and not listened to: events
of a listener can be dropped, and each one would be converted to Python in a thread that the other listeners wait for.
"""

from __future__ import annotations

import logging
from typing import Protocol

from airflow_provider_ha.clock import Clock
from airflow_provider_ha.driver.queries import Member, QueryRegistry, StartedQuery


log = logging.getLogger(__name__)
FALLBACK_SECONDS = 2.0
"""Longest time between two looks: a query that reports nothing is published that much later."""
PAID_SECONDS = 30.0
"""The same where a look is a dozen requests to a store: every 2 s they were three quarters of what an idle job cost."""


class ProgressSource(Protocol):
    """Says when to look. For one thread at a time."""

    def moved(self) -> bool:
        """Return whether a query may have gone on since the last call; ``True`` for the first one. Never raises."""


class PeriodicLook:
    """Asks for a look from time to time, without reports of the queries: the look lists their logs.

    :param seconds: Time between two looks; 0 looks with every call.
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
    """Asks each query that runs for its last progress; nothing is listed.

    :param registry: The queries. One that is at rest reports nothing; that it was started, or dropped, is a move.
    """

    def __init__(self, registry: QueryRegistry) -> None:
        self._registry = registry
        self._last: dict[str, object] | None = None

    def moved(self) -> bool:
        """Return whether a query has reported another trigger, or other queries are there."""
        now = {query.name: _report(query) for query in self._registry.members}
        before, self._last = self._last, now
        return now != before


class EitherProgress:
    """Two sources: *first* for promptness, *fallback* for what it misses."""

    def __init__(self, first: ProgressSource, fallback: ProgressSource) -> None:
        self._first = first
        self._fallback = fallback

    def moved(self) -> bool:
        """Return whether one of them says so. Both are asked: each remembers what it has said."""
        answers = self._first.moved(), self._fallback.moved()
        return any(answers)  # guard: queries-that-report-nothing-are-never-looked-at


def progress_source(registry: QueryRegistry, clock: Clock, *, cheap_listing: bool) -> ProgressSource:
    """Return the source of a driver: the reports of the queries, and a look from time to time.

    :param cheap_listing: Whether a look costs next to nothing where the queries work.
    """
    seconds = FALLBACK_SECONDS if cheap_listing else PAID_SECONDS  # guard: looks-are-paid-for-all-the-time
    return EitherProgress(ReportedProgress(registry), PeriodicLook(clock, seconds))


def _report(query: Member) -> object:
    """Return what distinguishes a query's last trigger from the one before; ``None`` for one that reports nothing."""
    if not isinstance(query, StartedQuery):
        return None
    try:
        last = query.handle._jsq.lastProgress()  # noqa: SLF001  # pyspark's own converts all of it
        # Not its batch: a trigger without data names the batch that comes next, and would hide that batch's commit.
        trigger = None if last is None else last.timestamp()  # guard: idle-triggers-hide-a-batch
    except Exception as error:  # noqa: BLE001  # a JVM that does not answer: the fallback looks
        log.debug("query %s does not report its progress: %s", query.name, error)
        trigger = None
    return id(query.handle), trigger
