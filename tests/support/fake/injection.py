"""The faults that a test can cause. Mixed into :class:`FakeEnsemble`, which has the state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from airflow_provider_ha.coordination.coordinator import SessionCredentials
from tests.support.fake.clock import VirtualClock, to_milliseconds
from tests.support.fake.connection import Connection
from tests.support.fake.faults import Fault, Faults, Outcome, Planned
from tests.support.fake.members import Member, SessionTracker
from tests.support.fake.tree import Tree


class Process(Protocol):
    """A process with a session."""

    @property
    def name(self) -> str:
        """Of the process."""

    @property
    def connection(self) -> Connection:
        """How it reaches the ensemble."""

    @property
    def session(self) -> SessionCredentials | None:
        """Its current session."""


class FaultInjection:
    """Everything that a test can do to an ensemble and to the processes that use it."""

    clock: VirtualClock
    faults: Faults
    members: list[Member]
    sessions: SessionTracker
    tree: Tree
    zxid: int
    clients: Sequence[Process]

    def drop_request(self, client: Process | None = None, *, containing: str = "") -> None:
        """Lose the next transaction with its connection: nothing is applied, and the sender cannot know it.

        :param client: Name of the sender; any client by default.
        :param containing: Text that one of its paths contains.
        """
        self.faults.plan(Planned(Fault.DROP_REQUEST, _name(client), containing))

    def drop_reply(self, client: Process | None = None, *, containing: str = "") -> None:
        """Apply the next transaction, and lose its answer with its connection."""
        self.faults.plan(Planned(Fault.DROP_REPLY, _name(client), containing))

    def delay(self, seconds: float, client: Process | None = None, *, containing: str = "") -> None:
        """Apply the next transaction later: under the session that its process has by then.

        That is what kazoo does with requests that it queued in one session and sends in the next.
        """
        self.faults.plan(Planned(Fault.DELAY, _name(client), containing, to_milliseconds(seconds)))

    def disconnect(self, client: Process, seconds: float = 0.1) -> None:
        """Cut a connection; the process finds a server again after *seconds*."""
        self.faults.count(Fault.DISCONNECT)
        client.connection.lose(to_milliseconds(seconds))

    def reconnect(self, client: Process) -> None:
        """End what :meth:`disconnect` began: the process finds a server as soon as time passes."""
        client.connection.try_at_once()

    def expire(self, client: Process) -> None:
        """Let the leader forget a session now, while its owner still believes in it."""
        self.faults.count(Fault.EXPIRE)
        self.faults.count(Outcome.SESSION_EXPIRED)
        if client.session is not None:
            self.end_session(client.session.session_id)

    def close_session(self, credentials: SessionCredentials) -> bool:
        """Close a session from outside, as ``coordination.session_close`` does: only after proof of death.

        :returns: False when it is gone, or the password is another one.
        """
        session = self.sessions.get(credentials.session_id)
        if session is None or session.password != credentials.password:
            return False
        self.faults.count(Fault.CLOSE)
        self.end_session(credentials.session_id)
        return True

    def lag(self, member: int) -> None:
        """Let a follower show the state of now, until it catches up.

        It catches up when a client of it writes, or asks it to sync; or by :meth:`catch_up`.

        :raises ValueError: The leader never lags.
        """
        self._follower(member)
        self.faults.count(Fault.LAG)
        self._freeze(self.members[member])

    def catch_up(self, member: int) -> None:
        """Let a follower show what the leader has; the watches of its clients hear of what they missed."""
        self.refresh(self.members[member])

    def partition(self, member: int, *, with_clients: bool = True) -> None:
        """Cut a follower off from the leader.

        Its clients stay connected and read what it had, until it gives them up. Their requests touch no session.

        :param with_clients: Whether they reach no other server in that time.
        :raises ValueError: The leader is not cut off: another would be elected, and this fake elects none.
        """
        self._follower(member)
        self.faults.count(Fault.PARTITION)
        target = self.members[member]
        target.partitioned_at = self.clock.milliseconds
        target.cut_clients = with_clients
        self._freeze(target)

    def heal(self, member: int) -> None:
        """End a partition: the follower catches up, and what was stuck in it is gone."""
        target = self.members[member]
        if target.partitioned_at is None:
            return
        target.partitioned_at = None
        target.cut_clients = False
        target.touched.clear()
        self.refresh(target)
        for client in self.clients:
            if client.connection.member is target:
                client.connection.lose(0)  # a follower that joins again begins without clients

    def move(self, client: Process, member: int) -> None:
        """Move a session to another server at once."""
        self.faults.count(Fault.MOVE)
        client.connection.move_to(self.members[member])

    def pause(self, client: Process) -> None:
        """Stop a process (SIGSTOP): it sends no pings and hears no events. Not to run its code is the test's part."""
        self.faults.count(Fault.PAUSE)
        client.connection.stop_running()

    def resume(self, client: Process) -> None:
        """Let a stopped process go on (SIGCONT)."""
        client.connection.go_on()

    def kill(self, client: Process) -> None:
        """Kill a process (SIGKILL): its session ends by its timeout, or by :meth:`close_session`."""
        self.faults.count(Fault.KILL)
        client.connection.die()

    def end_session(self, session_id: int) -> None:
        """Remove a session with its ephemeral nodes."""
        raise NotImplementedError

    def refresh(self, member: Member) -> None:
        """Show a member's clients what the leader has, unless it cannot know."""
        if member.frozen is None or not member.reaches_leader:
            return
        missed, member.frozen, member.missed = member.missed, None, []
        for client in self.clients:
            connection = client.connection
            if connection.member is member:
                connection.watches.tell(missed)
                if connection.session is not None and self.sessions.get(connection.session.session_id) is None:
                    connection.lose(0)  # the end of its session was among what the member had missed

    def _freeze(self, member: Member) -> None:
        if member.frozen is None:
            member.frozen, member.frozen_zxid = self.tree.copy(), self.zxid

    def _follower(self, member: int) -> None:
        if member == 0:
            raise ValueError("member 0 leads the ensemble: choose a follower")


def _name(client: Process | None) -> str | None:
    return None if client is None else client.name
