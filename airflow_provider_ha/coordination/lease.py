"""How long a leader may believe that it leads. Pure: knows a clock and what was acknowledged, nothing else.

Invariant: the lease ends before the server can give the lock to somebody else. The server counts T from the last time
that the ensemble's leader heard of the session. What a member acknowledged reaches it only with that member's next
ping, half a tick later, so the acknowledgement that counts is the last but one (design, contract 3;
``LearnerHandler`` of ZooKeeper forwards touches with its pings, not with requests).
"""

from __future__ import annotations

from airflow_provider_ha.clock import Clock
from airflow_provider_ha.config import Timings


_TIMER_SLACK = 0.95  # a timer may wake a little early


class Lease:
    """Deadline = time at which the last but one acknowledged heartbeat was *sent* + T - margin, on the boot-time clock.

    Not safe for several writers; readers may be in other threads.

    :param timings: Margin and heartbeat interval.
    :param session_timeout: T in seconds, as the server granted it.
    :param granted_at: Lease time at which the write that proved the grant was sent.
    :param clock: Where the time comes from.
    """

    def __init__(self, timings: Timings, *, session_timeout: float, granted_at: float, clock: Clock) -> None:
        self._duration = session_timeout - timings.margin
        self._clock = clock
        self._spacing = timings.heartbeat_interval * _TIMER_SLACK
        self._last = granted_at
        # There is no last but one yet. A session that was idle before was last heard of by its member up to a ping ago
        # (kazoo sends one after T/3), and the ensemble's leader knew of that up to half a tick later.
        self._last_but_one = granted_at - session_timeout / 3 - timings.heartbeat_interval

    def acknowledge(self, sent_at: float) -> None:
        """Take note that a heartbeat sent at *sent_at* was acknowledged.

        One that follows its predecessor within less than a heartbeat interval does not count: both may have waited for
        the same ping (half a tick is at most one interval).
        """
        if sent_at - self._last >= self._spacing:
            self._last_but_one, self._last = self._last, sent_at

    @property
    def deadline(self) -> float:
        """Lease time at which the lease ends."""
        return self._last_but_one + self._duration

    def left(self) -> float:
        """Return the seconds until the lease ends; negative when it is over."""
        return self.deadline - self._clock.lease_time()
