"""A ZooKeeper ensemble that lives in one process, in virtual time, and breaks where a test wants it to.

Deterministic: no threads, no real time, no randomness but the seed's. Equal calls have equal effects, so a schedule
that fails fails again. It keeps what :class:`Coordinator` promises; that it does so like the real one is the business
of the contract tests, which run on both.

Time stands still during requests. It moves in :meth:`FakeEnsemble.advance`, and while a session waits for something.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Delete, Node, Op, SessionCredentials
from tests.support.fake.clock import VirtualClock, to_milliseconds
from tests.support.fake.coordinator import FakeCoordinator
from tests.support.fake.faults import Faults, Outcome
from tests.support.fake.injection import FaultInjection
from tests.support.fake.members import Member, Session, SessionTracker
from tests.support.fake.tree import Event, Tree
from tests.support.fake.turns import Alone, Turns


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Accepted:
    """A transaction that changed the tree.

    :param client: Name of the process that sent it; empty for the end of a session.
    :param ops: What it did.
    :param before: The nodes that it set or removed, as they were.
    """

    zxid: int
    milliseconds: int
    session_id: int
    client: str
    ops: tuple[Op, ...]
    before: tuple[Node | None, ...]


class FakeEnsemble(FaultInjection):
    """The servers, and every session with them.

    :param seed: For session passwords and for the member that a client reconnects to.
    :param members: How many servers; number 0 is the leader.
    :param tick: ZooKeeper's unit of time, seconds.
    :param max_session_timeout: What a client may ask for at most, seconds.
    :param sync_limit: Ticks after which a follower that does not reach the leader drops its clients.
    :ivar clock: The ensemble's virtual clock, for leases and records.
    :ivar random: The seed's randomness, for schedules.
    :ivar faults: What is planned, and the counts.
    :ivar history: Every accepted transaction, in order. A test may clear it.
    :ivar clients: Every session's process, in the order of their connection.
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        members: int = 3,
        tick: float = 0.5,
        max_session_timeout: float = 60.0,
        sync_limit: int = 5,
    ) -> None:
        self.clock = VirtualClock()
        self.random = random.Random(seed)  # repeatable, not secret
        self.faults = Faults()
        self.history: list[Accepted] = []
        self.tree = Tree()
        self.zxid = 0
        self.members = [Member(number) for number in range(members)]
        self.clients: list[FakeCoordinator] = []
        self.turns: Turns = self.alone()
        self.tick = to_milliseconds(tick)
        self.sync_limit = sync_limit * self.tick
        self.sessions = SessionTracker(self.tick)
        self._longest = to_milliseconds(max_session_timeout)
        self._next_session = 0x1000
        self._timers: list[tuple[int, Callable[[], None]]] = []
        self._telling = False

    def connect(
        self, config: HaConfig | None = None, *, timeout: float | None = None, name: str = "", member: int | None = None
    ) -> FakeCoordinator:
        """Open a session.

        :param config: Where the session timeout comes from; everything else in it is of no interest here.
        :param timeout: The session timeout in seconds, instead.
        :param name: Of the process that owns it, for faults and for the history.
        :param member: Server to connect to; by default any.
        :raises NotConnectedError: No server can be reached.
        """
        asked = timeout if timeout is not None else (config.timings.session_timeout if config else 10.0)
        granted = min(max(to_milliseconds(asked), 2 * self.tick), self._longest)
        client = FakeCoordinator(self, name or f"client-{len(self.clients) + 1}", granted)
        self.clients.append(client)
        client.connection.open(member)
        return client

    def advance(self, seconds: float) -> None:
        """Let time pass: sessions are pinged, expire, reconnect; what was delayed arrives."""
        end = self.clock.milliseconds + to_milliseconds(seconds)
        while self.clock.milliseconds < end:
            self._advance_some(end - self.clock.milliseconds)

    def sleep(self, seconds: float) -> None:
        """Wait, as an actor does, while others go on. Stands in for ``time.sleep``."""
        self.turns.wait(to_milliseconds(seconds), lambda: False)

    def alone(self) -> Alone:
        """Return the turns of a test without actors."""
        return Alone(self._advance_some)

    def next_due(self) -> int:
        """Return when something happens by itself next, milliseconds: a tick's half is never far."""
        half = self.tick // 2
        due = (self.clock.milliseconds // half + 1) * half
        for client in self.clients:
            due = min(due, client.connection.due_at or due)
        for at, _ in self._timers:
            due = min(due, at)
        return max(due, self.clock.milliseconds)

    def at(self, milliseconds: int, action: Callable[[], None]) -> None:
        """Do something at a time."""
        self._timers.append((milliseconds, action))

    def new_session(self, timeout: int) -> SessionCredentials:
        """Open a session with the leader."""
        self._next_session += 1
        credentials = SessionCredentials(self._next_session, self.random.randbytes(16))
        self.sessions.open(
            Session(credentials.session_id, credentials.password, timeout, 0), now=self.clock.milliseconds
        )
        return credentials

    def apply(self, ops: Sequence[Op], *, session_id: int, client: str) -> list[int]:
        """Order and apply a transaction; watches hear of it.

        :raises CoordinationError: It was rejected.
        """
        before = tuple(self.tree.get(op.path) for op in ops)
        self.zxid += 1
        versions, events = self.tree.apply(ops, zxid=self.zxid, session_id=session_id)
        self.history.append(Accepted(self.zxid, self.clock.milliseconds, session_id, client, tuple(ops), before))
        self._tell(events)
        return versions

    def end_session(self, session_id: int) -> None:
        """Remove a session with its ephemeral nodes, as its close or its expiry does."""
        session = self.sessions.get(session_id)
        if session is None:
            return
        self.sessions.remove(session_id)
        removals = [Delete(path) for path in self.tree.owned_by(session_id)]
        if removals:
            self.apply(removals, session_id=session_id, client="")
        for client in self.clients:
            client.connection.session_ended(session_id)

    def read(self, member: Member, look: Callable[[Tree], T]) -> T:
        """Read what a member has, and note when the leader has something else by now."""
        if member.frozen is None:
            return look(self.tree)
        seen = look(member.frozen)
        if seen != look(self.tree):
            self.faults.count(Outcome.STALE_READ)
        return seen

    def calling_back(self) -> bool:
        """Whether a watch or a listener is being called just now."""
        return self._telling

    def call_back(self, callbacks: Sequence[Callable[[], None]]) -> None:
        """Call watches and listeners; while they run, no request may be sent, as in kazoo's event thread."""
        outer, self._telling = self._telling, True
        try:
            for callback in callbacks:
                callback()
        finally:
            self._telling = outer

    def _tell(self, events: Sequence[Event]) -> None:
        for member in self.members:
            if member.frozen is not None:
                member.missed.extend(events)
        for client in self.clients:
            connection = client.connection
            if connection.member is not None and connection.member.frozen is None:
                connection.watches.tell(events)

    def _advance_some(self, milliseconds: int) -> int:
        """Advance to what is due next, at most by *milliseconds*; return by how many."""
        now = self.clock.milliseconds
        self.clock.milliseconds = min(now + milliseconds, self.next_due())
        self._run_due()
        return self.clock.milliseconds - now

    def _run_due(self) -> None:
        now = self.clock.milliseconds
        due = [timer for timer in self._timers if timer[0] <= now]
        self._timers = [timer for timer in self._timers if timer[0] > now]
        for _, action in due:
            action()
        for client in self.clients:
            client.connection.on_time()
        if now % (self.tick // 2) == 0:
            self._ping_members()
        for session_id in self.sessions.expired(now):
            self.faults.count(Outcome.SESSION_EXPIRED)
            self.end_session(session_id)

    def _ping_members(self) -> None:
        now = self.clock.milliseconds
        for member in self.members:
            if member.reaches_leader:
                for session_id in member.touched:
                    self.sessions.touch(session_id, now)
                member.touched.clear()
