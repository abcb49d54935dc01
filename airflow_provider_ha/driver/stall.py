"""Detects a stalled job: a query stays in one trigger, without a commit, for longer than its job allows. Pure.

A query that waits for its next trigger, or for data, is working, even without input. A hang is inside a trigger: a
batch that does not end, tasks without an executor, or a source that does not answer. A query without input whose source
is slow to answer is inside a trigger at nearly each check, each time another one: its reports show the difference.

A job that does not work yet may hang outside of any trigger: in a script that has not started its queries, or in a
query that does not reach its first trigger. It is stalled after the same time without a sign of life.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Look:
    """The findings of one check of a query.

    :param committed: Its last committed batch.
    :param in_trigger: Whether it is inside a trigger; else it waits for the next one, or has ended.
    :param doing: Its activity, in Spark's words.
    :param reported: Begin of its last reported trigger; without data, Spark reports a trigger every 10 s.
    """

    committed: int
    in_trigger: bool
    doing: str = ""
    reported: str = ""


@dataclass(frozen=True, slots=True)
class Stall:
    """A stalled query.

    :param seconds: Time since its last commit.
    """

    query: str
    committed: int
    seconds: float
    doing: str

    def sentence(self, executors: int | None) -> str:
        """Return for people the query, the time since its last commit, and the reason.

        :param executors: Number of executors of the application; ``None`` if they are the driver's own process.
        """
        why = f" ({self.doing})" if self.doing else ""
        after = f"after batch {self.committed}" if self.committed >= 0 else "before its first batch"
        return (
            f"query {self.query!r} has been in one trigger {after} for {self.seconds:.0f} s{why}{_without(executors)}"
        )


@dataclass(frozen=True, slots=True)
class Silence:
    """A job that does not work yet, and gives no sign of life.

    :param waiting: The obstacle, as a phrase.
    :param seconds: Time since the last sign of life.
    """

    waiting: str
    seconds: float

    def sentence(self, executors: int | None) -> str:
        """As :meth:`Stall.sentence`."""
        return f"nothing was committed or reported for {self.seconds:.0f} s: {self.waiting}{_without(executors)}"


@dataclass(slots=True)
class SilenceDetector:
    """Remembers the last sign of life of a job that does not work yet.

    :param timeout: Seconds.
    """

    timeout: float
    _heard: object = None
    _since: float | None = None

    def silent(self, waiting: str, heard: object, now: float) -> Silence | None:
        """Process a check of the job; return its silence if it is too long.

        :param waiting: The obstacle to its work; empty when there is none, or it is not known.
        :param heard: A value that changes with each sign of life.
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
        """Process a check of every started query; return the query that is stalled the longest.

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
