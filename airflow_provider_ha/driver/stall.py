"""When a job is stalled: a query is in one trigger, and has committed nothing, for longer than its job allows. Pure.

A query that waits for its next trigger, or for data, works: so does one without input. What hangs is inside a trigger:
a batch that does not end, tasks that no executor takes, or a source that does not answer. A query without input whose
source takes long to say so is inside a trigger at nearly each look, each time another one: its reports tell.

A job that does not work yet may hang outside of any trigger: in a script that has not started its queries, or in a
query that does not come to its first trigger. It is stalled when nothing at all is heard of it for as long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Look:
    """What one look has found of a query.

    :param committed: Its last committed batch.
    :param in_trigger: Whether it is inside a trigger; else it waits for the next one, or has ended.
    :param doing: What it does, as Spark says it.
    :param reported: When the last trigger began that it has reported on; Spark reports one without data every 10 s.
    """

    committed: int
    in_trigger: bool
    doing: str = ""
    reported: str = ""


@dataclass(frozen=True, slots=True)
class Stall:
    """A query that is stalled.

    :param seconds: For how long it has committed nothing.
    """

    query: str
    committed: int
    seconds: float
    doing: str

    def sentence(self, executors: int | None) -> str:
        """Return for people which query it is, since when, and why.

        :param executors: How many the application has; ``None`` where they are the driver's own process.
        """
        why = f" ({self.doing})" if self.doing else ""
        after = f"after batch {self.committed}" if self.committed >= 0 else "before its first batch"
        return (
            f"query {self.query!r} has been in one trigger {after} for {self.seconds:.0f} s{why}{_without(executors)}"
        )


@dataclass(frozen=True, slots=True)
class Silence:
    """A job that does not work yet, and of which nothing is heard.

    :param waiting: What it waits for, as a phrase.
    :param seconds: For how long nothing was heard.
    """

    waiting: str
    seconds: float

    def sentence(self, executors: int | None) -> str:
        """As :meth:`Stall.sentence`."""
        return f"nothing was committed or reported for {self.seconds:.0f} s: {self.waiting}{_without(executors)}"


@dataclass(slots=True)
class SilenceDetector:
    """Remembers since when nothing is heard of a job that does not work yet.

    :param timeout: Seconds.
    """

    timeout: float
    _heard: object = None
    _since: float | None = None

    def silent(self, waiting: str, heard: object, now: float) -> Silence | None:
        """Take in a look at the job; return its silence when that is too long.

        :param waiting: What keeps it from working; empty when nothing does, or that is not known.
        :param heard: What changes with each sign of life.
        :param now: Seconds on the clock of the leases.
        """
        if not waiting or self._since is None or heard != self._heard:
            self._heard, self._since = heard, now
        seconds = now - self._since
        return Silence(waiting, seconds) if waiting and seconds >= self.timeout else None


@dataclass(frozen=True, slots=True)
class _Since:
    committed: int
    reported: str
    at: float


@dataclass(slots=True)
class StallDetector:
    """Remembers since when each query has been in its trigger.

    :param timeout: Seconds.
    """

    timeout: float
    _since: dict[str, _Since] = field(default_factory=dict)

    def stalled(self, looks: Mapping[str, Look], now: float) -> Stall | None:
        """Take in a look at every query that is started; return the query that is stalled the longest.

        :param now: Seconds on the clock of the leases.
        """
        before, self._since = self._since, {}
        found: list[Stall] = []
        for query, look in looks.items():
            since = before.get(query)
            goes_on = since is None or (look.committed, look.reported) != (since.committed, since.reported)
            if since is None or goes_on or not look.in_trigger:
                since = _Since(look.committed, look.reported, now)
            self._since[query] = since
            if now - since.at >= self.timeout:
                found.append(Stall(query, look.committed, now - since.at, look.doing))
        return max(found, key=lambda stall: stall.seconds, default=None)


def _without(executors: int | None) -> str:
    return "; the application has no executors" if executors == 0 else ""
