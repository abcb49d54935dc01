"""One process's session with the fake ensemble: reads, transactions, watches, as :class:`Coordinator` promises them.

What is retried, what is not, and which error says what is the same as in ``coordination/_kazoo.py``. Its connection,
pings and reconnects are in :class:`tests.support.fake.connection.Connection`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from airflow_provider_ha.coordination.coordinator import (
    Check,
    Coordinator,
    Create,
    Delete,
    Node,
    Op,
    PathWatch,
    ReadResponse,
    Reads,
    SessionCredentials,
    SessionState,
    missing,
)
from airflow_provider_ha.errors import (
    CoordinationError,
    NodeExistsError,
    NotConnectedError,
    OutcomeUnknownError,
)
from tests.support.fake.clock import to_milliseconds
from tests.support.fake.connection import Connection
from tests.support.fake.faults import Fault, Outcome, Planned
from tests.support.fake.members import Member
from tests.support.fake.servers import Servers
from tests.support.fake.tree import Tree, lineage, parent_of
from tests.support.fake.turns import Request
from tests.support.fake.watches import NodeWatch


T = TypeVar("T")


_MAX_BYTES = 1_000_000  # as in coordination/_kazoo_transaction.py; the contract tests hold both to it


def written_by(ops: tuple[Op, ...]) -> tuple[str, ...]:
    """Return the nodes that a transaction would change, and the parents of those that come or go."""
    written = []
    for op in ops:
        if not isinstance(op, Check):
            written.append(op.path)
        if isinstance(op, (Create, Delete)):
            written.append(parent_of(op.path))
    return tuple(written)


def refuse_too_much(ops: tuple[Op, ...]) -> None:
    """Refuse what ZooKeeper would close the connection for.

    :raises CoordinationError: Too much data for one transaction.
    """
    size = sum(len(op.path) + len(getattr(op, "data", b"")) for op in ops)
    if size > _MAX_BYTES:
        raise CoordinationError(
            f"a write of {size} bytes to {ops[0].path} is more than ZooKeeper takes ({_MAX_BYTES} bytes)",
            next_step="Keep the data in storage and only a pointer to it in ZooKeeper",
        )


class FakeCoordinator(Coordinator):
    """A session. Made by :meth:`FakeEnsemble.connect`; of one thread only.

    :param ensemble: The servers.
    :param name: Of the process, for faults and for the history.
    :param timeout: T as granted, milliseconds.
    """

    def __init__(self, ensemble: Servers, name: str, timeout: int) -> None:
        self.name = name
        self.connection = Connection(ensemble, name, timeout)
        self._ensemble = ensemble
        self._timeout = timeout
        self._closed = False
        self._unsure = False

    def __repr__(self) -> str:
        return f"FakeCoordinator({self.name}, {self.session}, {self.state.value})"

    @property
    def state(self) -> SessionState:
        """What is known about the session now."""
        return self.connection.state

    @property
    def session(self) -> SessionCredentials | None:
        """The current session, also while it is suspended; ``None`` while there is none."""
        return self.connection.session

    @property
    def negotiated_timeout(self) -> float:
        """T in seconds, as the ensemble granted it."""
        return self._timeout / 1000

    def get(self, path: str, *, watch: Callable[[], None] | None = None) -> Node:
        """Read a node; see :meth:`Coordinator.get`."""
        node = self._read((path,), lambda tree: tree.get(path))
        if node is None:
            raise missing(path)
        if watch is not None:
            self.connection.watches.on_data(path, watch)
        return node

    def find(self, path: str, *, watch: Callable[[], None] | None = None) -> Node | None:
        """Read a node or return ``None``; see :meth:`Coordinator.find`."""
        node = self._read((path,), lambda tree: tree.get(path))
        if watch is not None:
            self.connection.watches.on_data(path, watch)
        return node

    def children(self, path: str, *, watch: Callable[[], None] | None = None) -> list[str]:
        """Return the names of a node's children, sorted; see :meth:`Coordinator.children`."""
        names = self._read((path,), lambda tree: tree.children(path))
        if watch is not None and names is None:
            self.connection.watches.on_data(path, watch)
        elif watch is not None:
            self.connection.watches.on_children(path, watch)
        return names or []

    def read(self, reads: Reads, *, watch: PathWatch | None = None) -> ReadResponse:
        """Read all in one round trip; see :meth:`Coordinator.read`.

        Others may act before and after, but not in between: the requests reach a member together. On a real server a
        write may come in between; ``tests/contract/test_observe.py`` lets it, at each place.
        """
        if not reads.nodes and not reads.lists:
            return ReadResponse({}, {})
        seen = self._read(
            reads.nodes + reads.lists,
            lambda tree: ReadResponse(
                {path: tree.get(path) for path in reads.nodes},
                {path: tree.children(path) or [] for path in reads.lists},
            ),
        )
        if watch is not None:
            for path in reads.nodes:
                self.connection.watches.on_data(path, NodeWatch(watch, path))
        return seen

    def ensure(self, *paths: str) -> None:
        """Create the persistent nodes that do not exist yet, parents included."""
        for path in paths:
            for node in [node for node in lineage(path) if self.find(node) is None]:
                self._ensure_one(node)

    def commit(self, *ops: Op, timeout: float | None = None) -> list[int]:
        """Apply all *ops* in one transaction, or none; see :meth:`Coordinator.commit`."""
        limit = self._timeout if timeout is None else to_milliseconds(timeout)
        self._give_way(Request("commit", tuple(op.path for op in ops), self.name, written_by(ops)))
        try:
            self._wait_until_connected(limit)
        except NotConnectedError:
            self._ensemble.faults.count(Outcome.NOT_SENT)
            raise
        refuse_too_much(ops)
        planned = self._ensemble.faults.meet(self.name, ops)
        try:
            versions = self._send(ops, planned, limit)
        except OutcomeUnknownError:
            self._unsure = True
            raise
        except CoordinationError:
            self._ensemble.faults.count(Outcome.REJECTED)
            raise
        self._ensemble.faults.count(Outcome.APPLIED)
        return versions

    def add_state_listener(self, listener: Callable[[SessionState], None]) -> None:
        """Call *listener* on each change of state: it must not send anything."""
        self.connection.listeners.append(listener)

    def drop_connection(self) -> None:
        """Drop the connection and try the next server; the session lives on."""
        self.connection.lose(50)

    def close(self) -> None:
        """End the session. Idempotent."""
        if self._closed:
            return
        self._give_way(Request("close", (), self.name))
        self._closed = True
        self.connection.close()

    def _give_way(self, request: Request) -> None:
        if self._ensemble.calling_back():
            raise CoordinationError(
                f"{self.name} sends a request from a watch or a state listener: with kazoo it would wait for itself",
                next_step="Set an event or a flag there, and read elsewhere",
            )
        self._require_open()
        self._ensemble.turns.give_way(request)

    def _require_open(self) -> None:
        if self._closed:
            raise CoordinationError("the session with the fake ensemble was closed", next_step="Connect again")

    def _wait_until_connected(self, limit: int) -> None:
        connection = self.connection
        if connection.member is None:
            self._ensemble.turns.wait(limit, lambda: connection.member is not None or self._closed)
        self._require_open()
        if connection.member is None:
            raise self._not_connected(f"could not be reached for {limit / 1000:.3g} s, so no request was sent")

    def _read(self, paths: tuple[str, ...], look: Callable[[Tree], T]) -> T:
        """Repeat a read until it is answered or the session timeout is over."""
        self._give_way(Request("read", paths, self.name))
        connection = self.connection
        if connection.member is not None and not connection.stuck and not self._unsure:
            connection.touch()
            return self._ensemble.read(connection.member, look)
        end = self._ensemble.clock.milliseconds + self._timeout
        while (left := end - self._ensemble.clock.milliseconds) > 0:
            self._wait_until_connected(left)
            member = self.connection.member
            # An answer queues behind one that is stuck; and a sync is stuck where the leader is out of reach.
            if member is None or self.connection.stuck or not self._synced(member):
                self._wait_for_another_connection(left)
                continue
            self.connection.touch()
            return self._ensemble.read(member, look)
        raise self._not_connected(f"did not answer a read of {paths[0]}")

    def _synced(self, member: Member) -> bool:
        """Ask a member to catch up when a write of ours had no answer; False when it cannot."""
        if self._unsure:
            if not member.reaches_leader:
                self.connection.get_stuck()
                return False
            self._ensemble.refresh(member)
            self._unsure = False
        return True

    def _send(self, ops: tuple[Op, ...], planned: Planned | None, limit: int) -> list[int]:
        connection, fault = self.connection, planned and planned.fault
        member, session = connection.member, connection.session
        if fault is Fault.DROP_REQUEST or member is None or session is None:
            connection.lose(100)
            raise self._unknown(ops, Outcome.UNKNOWN_NOT_APPLIED)
        connection.touch()
        if not member.reaches_leader or connection.stuck:
            connection.get_stuck()
            self._wait_for_another_connection(limit)
            raise self._unknown(ops, Outcome.UNKNOWN_NOT_APPLIED)
        if planned is not None and fault is Fault.DELAY:
            return self._await_late(ops, planned.milliseconds, limit)
        connection.let_earlier_arrive()
        self._ensemble.refresh(member)
        if connection.member is None:  # it has heard that the session is gone
            raise self._unknown(ops, Outcome.UNKNOWN_NOT_APPLIED)
        if fault is not Fault.DROP_REPLY:
            try:
                return self._ensemble.apply(ops, session_id=session.session_id, client=self.name)
            finally:
                connection.see_newest()  # an answer, a rejection too, says how far the tree has come
        try:
            self._ensemble.apply(ops, session_id=session.session_id, client=self.name)
            outcome = Outcome.UNKNOWN_APPLIED
        except CoordinationError:
            outcome = Outcome.UNKNOWN_NOT_APPLIED
        connection.lose(100)
        raise self._unknown(ops, outcome)

    def _await_late(self, ops: tuple[Op, ...], milliseconds: int, limit: int) -> list[int]:
        late = self.connection.send_late(ops, milliseconds)
        number = self.connection.number
        self._ensemble.turns.wait(limit, lambda: late.done or self.connection.number != number)
        if late.done:
            self.connection.see_newest()
            return late.answer()
        late.awaited = False
        raise self._unknown(ops, None)

    def _wait_for_another_connection(self, limit: int) -> None:
        number = self.connection.number
        self._ensemble.turns.wait(limit, lambda: self.connection.number != number)

    def _ensure_one(self, path: str) -> None:
        end = self._ensemble.clock.milliseconds + self._timeout
        while True:
            try:
                self.commit(Create(path))
            except NodeExistsError:  # a retry is a try in a loop
                return
            except OutcomeUnknownError:  # doing it twice does no harm
                if self._ensemble.clock.milliseconds > end:
                    raise
            else:
                return

    def _unknown(self, ops: tuple[Op, ...], outcome: Outcome | None) -> OutcomeUnknownError:
        if outcome is not None:
            self._ensemble.faults.count(outcome)
        return OutcomeUnknownError(
            f"the fake ensemble did not answer a write of {', '.join(op.path for op in ops)}",
            next_step="Read back before writing again",
        )

    def _not_connected(self, what: str) -> NotConnectedError:
        return NotConnectedError(f"the fake ensemble {what}", next_step="Heal it")
