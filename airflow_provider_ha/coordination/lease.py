"""Lease of a leader: the time it may act as one. Pure: inputs are a clock and the acknowledged heartbeats.

Invariant: the lease ends before the server can give the lock to another session. The server counts T from the last time
that the ensemble's leader heard of the session. A heartbeat that a member acknowledged reaches it only with that
member's next ping, half a tick later, so the last acknowledgement but one counts (design, contract 3;
``LearnerHandler`` of ZooKeeper forwards touches with its pings, not with requests).
"""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import Self

from airflow_provider_ha.clock import Clock
from airflow_provider_ha.config import Timings


JUMP_SECONDS = 1.0  # of the wall clock against the boot-time clock; slewing moves it by far less between two heartbeats
LEAST_SECONDS = 120.0
"""Seconds for which a lease remembers its lowest remaining time: longer than the interval of a monitoring."""
_TIMER_SLACK = 0.95  # a timer may wake a little early


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment on both clocks.

    :param boot: Lease time, seconds.
    :param skew: Wall clock minus lease time, seconds.
    """

    boot: float
    skew: float

    @classmethod
    def at_least(cls, clock: Clock) -> Self:
        """Return now. A process that is stopped between the two looks makes the skew too large, never too small."""
        boot = clock.lease_time()
        return cls(boot, clock.now().timestamp() - boot)

    @classmethod
    def at_most(cls, clock: Clock) -> Self:
        """Return now. A process that is stopped between the two looks makes the skew too small, never too large."""
        wall = clock.now().timestamp()
        boot = clock.lease_time()
        return cls(boot, wall - boot)


class Lease:
    """Deadline = time at which the last but one acknowledged heartbeat was *sent* + T - margin, on the boot-time clock.

    The boot-time clock stops while a hypervisor pauses the machine, but the session runs out. Afterwards the only sign
    is a wall clock that was set forward. It may also be a plain correction of that clock, so it ends no lease, but it
    is doubt: until two heartbeats that were sent after the jump are acknowledged, each acknowledged heartbeat extends
    the lease by one interval and one timeout only.

    Not safe for several writers; readers may be in other threads.

    :param timings: Margin and heartbeat interval.
    :param session_timeout: T in seconds, as the server granted it.
    :param granted_at: Lease time at which the write that proved the grant was sent.
    :param clock: Source of the time.
    """

    def __init__(self, timings: Timings, *, session_timeout: float, granted_at: float, clock: Clock) -> None:
        self._duration = session_timeout - timings.margin  # guard: lease-is-shorter
        self._margin = timings.margin
        self._clock = clock
        self._spacing = timings.heartbeat_interval * _TIMER_SLACK
        self._patience = timings.heartbeat_interval + timings.heartbeat_timeout
        skew = clock.now().timestamp() - granted_at
        self._last = self._newest = Moment(granted_at, skew)
        # There is no last but one yet. The member last heard of a previously idle session up to a ping ago (kazoo sends
        # one after T/3), and the ensemble's leader knew of that up to half a tick later.
        self._last_but_one = Moment(granted_at - session_timeout / 3 - timings.heartbeat_interval, skew)
        self._lows: tuple[tuple[float, float], ...] = ()  # lease time and the remaining seconds then, both ascending

    def acknowledge(self, sent_at: Moment) -> None:
        """Record that a heartbeat sent at *sent_at* was acknowledged.

        A heartbeat less than one interval after its predecessor does not count: both may have waited for the same ping
        (half a tick is at most one interval).
        """
        self._note_low()
        if sent_at.boot > self._newest.boot:
            self._newest = sent_at
        if sent_at.boot - self._last.boot >= self._spacing:
            self._last_but_one, self._last = self._last, sent_at

    def shorten(self, session_timeout: float) -> None:
        """Take note of the T that a server grants now. A longer one changes nothing."""
        self._duration = min(self._duration, session_timeout - self._margin)

    @property
    def deadline(self) -> float:
        """Lease time at which the lease ends."""
        regular = self._last_but_one.boot + self._duration  # guard: last-heartbeat-counts
        if Moment.at_most(self._clock).skew - self._last_but_one.skew <= JUMP_SECONDS:
            return regular
        return min(regular, self._newest.boot + self._patience)  # guard: jump-makes-a-lease-longer

    def left(self) -> float:
        """Return the seconds until the lease ends; negative when it is over."""
        return self.deadline - self._clock.lease_time()

    def least(self) -> float:
        """Return the fewest seconds that were left in the last :data:`LEAST_SECONDS`; negative when it was over."""
        since = self._clock.lease_time() - LEAST_SECONDS
        return min((self.left(), *(low for at, low in self._lows if at >= since)))

    def _note_low(self) -> None:
        """Record the time left before a heartbeat extends it: the minimum until the next heartbeat."""
        now, left = self._clock.lease_time(), self.left()
        since = now - LEAST_SECONDS
        self._lows = (*((at, low) for at, low in self._lows if at >= since and low < left), (now, left))
