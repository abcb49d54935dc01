"""The connection of one process: which member it reaches, its session, its pings, and the events that reach it.

States go as kazoo's do: CONNECTED -> SUSPENDED -> CONNECTED (same session), or -> LOST -> CONNECTED (the next session).
LOST comes only from a server (F3): while none is reached the session may be long gone without a report of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from airflow_provider_ha.coordination.coordinator import Op, SessionCredentials, SessionState
from airflow_provider_ha.errors import CoordinationError, NotConnectedError
from tests.support.fake.faults import Outcome
from tests.support.fake.members import Member, able_members
from tests.support.fake.servers import Servers
from tests.support.fake.watches import Watches


_RETRY = 100  # milliseconds between two attempts to reach a member


@dataclass
class LateRequest:
    """A transaction that arrives later than it was sent.

    :param session_id: Session in which it was sent.
    :param awaited: Whether its sender still waits for the answer.
    :param due: Whether it has been under way for as long as it was to be.
    """

    ops: tuple[Op, ...]
    session_id: int
    awaited: bool = True
    due: bool = False
    done: bool = False
    versions: list[int] | None = None
    error: CoordinationError | None = None

    def answer(self) -> list[int]:
        """Return the versions, or raise why it was rejected."""
        if self.error is not None:
            raise self.error
        return self.versions or []


class Connection:
    """What connects one process with the ensemble.

    :param timeout: T, milliseconds.
    :ivar number: Grows with every connection that was lost.
    :ivar member: The server; ``None`` while there is none.
    """

    def __init__(self, ensemble: Servers, name: str, timeout: int) -> None:
        self.number = 0
        self.member: Member | None = None
        self.state = SessionState.LOST
        self.session: SessionCredentials | None = None
        self.listeners: list[Callable[[SessionState], None]] = []
        self.watches = Watches(self._call_back)
        self._ensemble = ensemble
        self._name = name
        self._timeout = timeout
        self._home: Member | None = None
        self._seen_zxid = 0
        self._last_sent = 0
        self._stuck_since: int | None = None
        self._reconnect_at = 0
        self._running = True
        self._ended = False
        self._unheard: list[Callable[[], None]] = []
        self._late: list[LateRequest] = []

    @property
    def stuck(self) -> bool:
        """Whether a request waits for a member that cannot answer it; all later ones wait behind it."""
        return self._stuck_since is not None

    @property
    def due_at(self) -> int | None:
        """When this connection does something by itself; ``None`` for never."""
        if self._ended:
            return None
        if self.member is None:
            return self._reconnect_at if self._running else None
        due = [self._last_sent + self._timeout // 3] if self._running else []
        if self._stuck_since is not None and self._running:
            due.append(self._stuck_since + self._timeout * 2 // 3)
        if self.member.partitioned_at is not None:
            due.append(self.member.partitioned_at + self._ensemble.sync_limit)
        return min(due, default=None)

    def open(self, number: int | None) -> None:
        """Open the first session.

        :param number: The member; any by default.
        :raises NotConnectedError: None can be reached.
        """
        if number is not None:
            self._home = self._ensemble.members[number]
        member = self._choose(self._home)
        if member is None:
            self._ended = True
            raise NotConnectedError(
                "no member of the fake ensemble can be reached", next_step="Heal it, then connect again"
            )
        self._begin(member, self._ensemble.new_session(self._timeout))

    def touch(self) -> None:
        """A request reaches the member."""
        member, session = self.member, self.session
        if member is None or session is None:
            return
        self._last_sent = self._ensemble.clock.milliseconds
        self._seen_zxid = self._ensemble.zxid if member.frozen is None else member.frozen_zxid
        if member.number == 0:
            self._ensemble.sessions.touch(session.session_id, self._last_sent)
        else:
            member.touched.add(session.session_id)

    def see_newest(self) -> None:
        """Take note that an answer came: no member that is behind it takes this process in any more."""
        self._seen_zxid = self._ensemble.zxid

    def get_stuck(self) -> None:
        """A request waits for an answer that cannot come: two thirds of T later kazoo gives the connection up."""
        if self._stuck_since is None:
            self._stuck_since = self._ensemble.clock.milliseconds

    def send_late(self, ops: tuple[Op, ...], milliseconds: int) -> LateRequest:
        """Send a transaction that arrives after some time."""
        late = LateRequest(ops, self.session.session_id if self.session else 0)
        self._late.append(late)
        self._ensemble.at(self._ensemble.clock.milliseconds + milliseconds, lambda: self._arrive(late))
        return late

    def let_earlier_arrive(self) -> None:
        """Let everything arrive that was sent before: what a client sends later never overtakes it.

        ZooKeeper keeps the requests of one session in their order, also when it moves to another member in between
        (then the first member's are refused); and kazoo sends what it had queued first, also under the next session.
        """
        for late in self._late:
            late.due = True
        self._deliver()

    def lose(self, milliseconds: int) -> None:
        """Lose the connection; try to get another after some time."""
        self._reconnect_at = max(self._reconnect_at, self._ensemble.clock.milliseconds + milliseconds)
        if self.member is None or self._ended:
            return
        self._home, self.member = self.member, None
        self.number += 1
        self._stuck_since = None
        self._ensemble.faults.count(Outcome.SUSPENDED)
        self._change(SessionState.SUSPENDED)
        self.watches.drop()

    def try_at_once(self) -> None:
        """Try to connect again now, not at the time that was planned."""
        self._reconnect_at = self._ensemble.clock.milliseconds

    def session_ended(self, session_id: int) -> None:
        """Hear that a session is gone: its connection is closed by the server that knows."""
        if self.session is not None and self.session.session_id == session_id and self._hears():
            self.lose(_RETRY)

    def move_to(self, member: Member) -> None:
        """Connect to another member, when it can be reached; else to any."""
        self.lose(0)
        self._home = member
        if self._running and not self._ended:
            self._reconnect()

    def on_time(self) -> None:
        """Do what is due."""
        due, now = self.due_at, self._ensemble.clock.milliseconds
        if due is None or due > now:
            return
        if self.member is None:
            self._reconnect()
        elif self._last_sent + self._timeout // 3 == due:
            self.touch()  # a ping
        else:
            self.lose(_RETRY)

    def stop_running(self) -> None:
        """Stop the process: SIGSTOP."""
        self._running = False

    def go_on(self) -> None:
        """Let the process go on: it hears what has happened while it was paused."""
        self._running = True
        self._reconnect_at = max(self._reconnect_at, self._ensemble.clock.milliseconds)
        unheard, self._unheard = self._unheard, []
        self._ensemble.call_back(unheard)
        self._flush()

    def die(self) -> None:
        """Kill the process: the session is left to its timeout."""
        self._ended = True
        self._running = False
        self.member = None
        self._unheard.clear()

    def close(self) -> None:
        """End the session in order, when a server can be reached."""
        if self.member is not None and self.member.reaches_leader and self.session is not None:
            self._ended = True
            self._ensemble.end_session(self.session.session_id)
        self._ended = True
        self.member = None
        self.session = None
        self._change(SessionState.LOST)
        self.watches.drop()

    def _hears(self) -> bool:
        return self.member is not None and self.member.frozen is None

    def _choose(self, wanted: Member | None) -> Member | None:
        able = able_members(self._ensemble.members, wanted, self._seen_zxid)
        if wanted in able:
            return wanted
        return self._ensemble.random.choice(able) if able else None

    def _reconnect(self) -> None:
        member = self._choose(self._home)
        if member is None:
            self._reconnect_at = self._ensemble.clock.milliseconds + _RETRY
            return
        session = self.session
        if session is not None and self._ensemble.sessions.get(session.session_id) is not None:
            self._ensemble.sessions.touch(session.session_id, self._ensemble.clock.milliseconds)
            self._ensemble.faults.count(Outcome.RECONNECTED)
            self._begin(member, session)
            return
        self._ensemble.faults.count(Outcome.LOST)
        self.session = None
        self._change(SessionState.LOST)
        self._begin(member, self._ensemble.new_session(self._timeout))

    def _begin(self, member: Member, session: SessionCredentials) -> None:
        self.member = self._home = member
        self.session = session
        self._last_sent = self._ensemble.clock.milliseconds
        self._change(SessionState.CONNECTED)
        self._flush()

    def _change(self, state: SessionState) -> None:
        self.state = state
        self._call_back([lambda listener=listener: listener(state) for listener in self.listeners])  # type: ignore[misc]  # bound now

    def _call_back(self, callbacks: list[Callable[[], None]]) -> None:
        if self._running:
            self._ensemble.call_back(callbacks)
        elif not self._ended:
            self._unheard += callbacks

    def _flush(self) -> None:
        if self.member is not None and self._running:
            self._deliver()

    def _arrive(self, late: LateRequest) -> None:
        late.due = True
        self._deliver()

    def _deliver(self) -> None:
        """Apply what is due, and before it what was sent before it."""
        while any(late.due for late in self._late) and self._can_deliver():
            self._apply(self._late.pop(0))

    def _can_deliver(self) -> bool:
        if self._ended:
            return True  # also for a process that was killed: what was on its way still arrives
        connected = self.member is not None and self._running and self.member.reaches_leader
        return connected and self._live() is not None

    def _live(self) -> SessionCredentials | None:
        session = self.session
        return session if session is not None and self._ensemble.sessions.get(session.session_id) is not None else None

    def _apply(self, late: LateRequest) -> None:
        """Apply a late request, under the session of *now*; with none it is lost."""
        session = self._live()
        if session is None:
            return
        if self.member is not None and self._running and self.member.reaches_leader:
            self._ensemble.refresh(self.member)  # the answer comes after all that was ordered before it
        try:
            late.versions = self._ensemble.apply(late.ops, session_id=session.session_id, client=self._name)
        except CoordinationError as error:
            late.error = error
        late.done = True
        if session.session_id != late.session_id:
            self._ensemble.faults.count(Outcome.REPLAYED)
        if not late.awaited:
            self._ensemble.faults.count(Outcome.LATE_APPLIED if late.error is None else Outcome.LATE_REJECTED)
