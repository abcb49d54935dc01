"""The members of the ensemble and the sessions as its leader counts them.

Member 0 is the ensemble's leader. The leader forgets a session T after the last touch *it* heard of, rounded up to its
next tick. What reaches a follower touches only that follower; the leader hears of it with the follower's next answer to
a ping, half a tick later at most, and never while the two are partitioned (``LearnerHandler``, F7 of the project's
notes on ZooKeeper).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.support.fake.tree import Event, Tree


@dataclass
class Session:
    """A session as the leader knows it.

    :param timeout: T, milliseconds.
    :param expires_at: Always a multiple of the tick.
    """

    session_id: int
    password: bytes
    timeout: int
    expires_at: int


@dataclass
class Member:
    """One server.

    :param number: 0 is the leader.
    :param frozen: State that it shows while it lags; ``None`` while it is up to date.
    :param missed: What watches of its clients have not heard of yet.
    :param touched: Sessions that the leader will hear of with the next ping.
    :param partitioned_at: Since when it does not reach the leader; ``None`` while it does.
    :param cut_clients: Whether its clients reach no other member in that time.
    """

    number: int
    frozen: Tree | None = None
    frozen_zxid: int = 0
    missed: list[Event] = field(default_factory=list)
    touched: set[int] = field(default_factory=set)
    partitioned_at: int | None = None
    cut_clients: bool = False

    @property
    def reaches_leader(self) -> bool:
        """Whether what its clients send is ordered by the leader."""
        return self.partitioned_at is None


def able_members(members: Sequence[Member], wanted: Member | None, seen_zxid: int) -> list[Member]:
    """Return the members that take a process in: none that has not seen what the process has seen.

    :param wanted: The one that it was connected to; when that one is cut off with its clients, it reaches no other.
    """
    if wanted is not None and wanted.cut_clients:
        return []
    return [
        member
        for member in members
        if member.reaches_leader and (member.frozen is None or member.frozen_zxid >= seen_zxid)
    ]


class SessionTracker:
    """The leader's list of sessions.

    :param tick: Milliseconds.
    """

    def __init__(self, tick: int) -> None:
        self._tick = tick
        self._sessions: dict[int, Session] = {}

    def open(self, session: Session, now: int) -> None:
        """Begin to count a session."""
        self._sessions[session.session_id] = session
        self.touch(session.session_id, now)

    def touch(self, session_id: int, now: int) -> None:
        """Take note that a session lives; one that is gone stays gone."""
        session = self._sessions.get(session_id)
        if session is not None:
            session.expires_at = max(session.expires_at, ((now + session.timeout) // self._tick + 1) * self._tick)

    def get(self, session_id: int) -> Session | None:
        """Return a session; ``None`` when it is gone."""
        return self._sessions.get(session_id)

    def remove(self, session_id: int) -> None:
        """Forget a session."""
        self._sessions.pop(session_id, None)

    def expired(self, now: int) -> list[int]:
        """Return the sessions whose time is over."""
        return [number for number, session in self._sessions.items() if session.expires_at <= now]
