"""Decides when the publisher has to read the directories of the queries.

Invariant: an answer only means "read now". Records and publications come from the directories, not from the answer: a
report that is early, late or missing only delays a checkpoint until the next read.

A report comes from ``lastProgress``, which Spark keeps in the driver's JVM: the query's own thread writes it after the
commit entry of its batch (``docs/explanation/spark-facts.md`` section 11). It is polled, not received from a listener:
events of a listener can be dropped, and each would be converted to Python in a thread that the other listeners wait
for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

from airflow_provider_ha.clock import Clock
from airflow_provider_ha.driver.queries import Member, QueryRegistry, StartedQuery
from airflow_provider_ha.driver.trigger_figures import Trigger, read_trigger


log = logging.getLogger(__name__)
Heard = Callable[[str, Trigger], None]
FALLBACK_SECONDS = 2.0
"""Longest time between two reads, in seconds: the delay of publication for a query without reports."""
PAID_SECONDS = 30.0
"""The same where a read is a dozen requests to a store: every 2 s, they were three quarters of an idle job's cost."""


class ProgressSource(Protocol):
    """Decides when to read. Not thread-safe."""

    def moved(self) -> bool:
        """Return whether a query may have advanced since the last call; ``True`` for the first one. Never raises."""


class PeriodicLook:
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

    def __init__(self, registry: QueryRegistry, heard: Heard | None = None) -> None:
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
    registry: QueryRegistry, clock: Clock, *, cheap_listing: bool, heard: Heard | None = None
) -> ProgressSource:
    """Return the source of a driver: the reports of the queries, and a read from time to time.

    :param cheap_listing: Whether reading the queries' directories costs next to nothing.
    :param heard: As of :class:`ReportedProgress`.
    """
    seconds = FALLBACK_SECONDS if cheap_listing else PAID_SECONDS
    return EitherProgress(ReportedProgress(registry, heard), PeriodicLook(clock, seconds))


def _since(query: StartedQuery, last: Any, known: str | None) -> list[Trigger]:
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
