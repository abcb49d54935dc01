"""TCP proxy in front of a ZooKeeper that fails on command, for tests of a client's reaction.

The proxy parses ZooKeeper's frames, so that a test can cut a connection at a decisive moment: before a transaction
reaches the server, or after the server applied it and before the client gets the answer.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType

from typing_extensions import Self

from airflow_provider_ha.coordination.embedded import is_free
from airflow_provider_ha.coordination.raw_socket import hang_up, receive


__all__ = ["FaultProxy"]


_log = logging.getLogger(__name__)

_HOST = "127.0.0.1"
_LOOK_SECONDS = 0.02  # a fifth of the pause before ZooKeeper's follower tries again
_LENGTH = struct.Struct("!i")
_XID_AND_TYPE = struct.Struct("!ii")
_TRANSACTION = 14


class _Mode(Enum):
    FORWARD = "forward"
    CUT = "cut"
    BLACK_HOLE = "black hole"


class FaultProxy:
    """Proxy that forwards connections to a server, and refuses them while a server of this host does not listen.

    :param target: ``host:port`` of the server.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._mode = _Mode.FORWARD
        self._lock = threading.Lock()
        self._pairs: list[_Pair] = []
        self._ambush: _Ambush | None = None
        self._drop_replies = False
        self.hit = threading.Event()
        self._gate = Gate(lambda: self._mode is not _Mode.CUT and (host != _HOST or not is_free(int(port))))
        threading.Thread(target=self._accept, name="fault-proxy", daemon=True).start()

    @property
    def hosts(self) -> str:
        """Connection string for the client: ``127.0.0.1:<port>``."""
        return f"{_HOST}:{self._gate.port}"

    def heal(self) -> None:
        """Forward again. Connections that hung in a black hole stay dead; new connections work."""
        with self._lock:
            if self._mode is _Mode.BLACK_HOLE or self._drop_replies:
                self._close_pairs()
            self._mode = _Mode.FORWARD
            self._drop_replies = False
        self._gate.look()

    def cut(self) -> None:
        """Cut every connection and refuse new ones, until :meth:`heal`."""
        with self._lock:
            self._mode = _Mode.CUT
            self._close_pairs()
        self._gate.look()

    def black_hole(self) -> None:
        """Discard every byte in both directions and keep the connections open, until :meth:`heal`."""
        with self._lock:
            self._mode = _Mode.BLACK_HOLE

    def stall(self) -> None:
        """Let the open connections hang while new ones work, as after the silent death of a link."""
        with self._lock:
            for pair in self._pairs:
                pair.stalled = True

    def drop_replies(self) -> None:
        """Forward requests and discard the answers, until :meth:`heal`."""
        self._drop_replies = True

    def cut_before_transaction(self, containing: str = "") -> None:
        """Cut once, instead of forwarding the next transaction.

        :param containing: Only a transaction whose bytes contain this text, for example a path. Sets ``hit``.
        """
        self.hit.clear()
        self._ambush = _Ambush(containing.encode(), let_through=False)

    def cut_after_transaction(self, containing: str = "") -> None:
        """Cut once, after the server has answered the next transaction; the client does not get the answer.

        :param containing: As in :meth:`cut_before_transaction`.
        """
        self.hit.clear()
        self._ambush = _Ambush(containing.encode(), let_through=True)

    def close(self) -> None:
        """Cut all connections and stop listening."""
        self._gate.close()
        self.cut()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _accept(self) -> None:
        while (client := self._gate.accept()) is not None:
            if self._mode is _Mode.CUT:  # accepted just before the cut
                client.close()
                continue
            try:
                pair = _Pair(client, socket.create_connection(self._target, timeout=5))
            except OSError as error:
                _log.info("the server refuses: %s", error)
                client.close()
                continue
            pair.server.settimeout(None)
            with self._lock:
                self._pairs.append(pair)
            for forward in (self._to_server, self._to_client):
                threading.Thread(target=self._pump, args=(pair, forward), daemon=True).start()

    def _pump(self, pair: _Pair, forward: Callable[[_Pair], None]) -> None:
        with contextlib.suppress(OSError, EOFError):  # this class cuts connections on purpose
            while True:
                forward(pair)
        pair.close()

    def _to_server(self, pair: _Pair) -> None:
        frame = _frame(pair.client)
        ambush = self._ambush
        if ambush is not None and ambush.matches(frame):
            self._ambush = None
            if not ambush.let_through:
                self._strike(pair)
                return
            pair.fatal_xid = _XID_AND_TYPE.unpack_from(frame, _LENGTH.size)[0]
        if self._mode is _Mode.FORWARD and not pair.stalled:
            pair.server.sendall(frame)

    def _to_client(self, pair: _Pair) -> None:
        frame = _frame(pair.server)
        if pair.fatal_xid is not None and _LENGTH.unpack_from(frame, _LENGTH.size)[0] == pair.fatal_xid:
            self._strike(pair)
            return
        if self._mode is _Mode.FORWARD and not self._drop_replies and not pair.stalled:
            pair.client.sendall(frame)

    def _strike(self, pair: _Pair) -> None:
        pair.close()
        self.hit.set()

    def _close_pairs(self) -> None:
        for pair in self._pairs:
            pair.close()
        self._pairs.clear()


@dataclass(frozen=True)
class _Ambush:
    """Awaited transaction, and whether the server gets it."""

    containing: bytes
    let_through: bool

    def matches(self, frame: bytes) -> bool:
        body = frame[_LENGTH.size :]
        if len(body) < _XID_AND_TYPE.size or _XID_AND_TYPE.unpack_from(body)[1] != _TRANSACTION:
            return False
        return self.containing in body


@dataclass
class _Pair:
    """Both ends of a forwarded connection."""

    client: socket.socket
    server: socket.socket
    fatal_xid: int | None = None
    stalled: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def close(self) -> None:
        with self.lock:
            for end in (self.client, self.server):
                hang_up(end)


def _frame(source: socket.socket) -> bytes:
    """Return the next frame, including its length."""
    head = receive(source, _LENGTH.size)
    return head + receive(source, _LENGTH.unpack(head)[0])


class Gate:
    """Loopback port that refuses connections while the server behind it does not listen. Thread-safe; one accepts.

    Accepting and closing a connection would not be equivalent: a client that was refused tries again, but a client
    whose connection was accepted takes the server for a running one. ZooKeeper's follower connects to a new leader up
    to five times, because the leader may start to listen a moment later (``Learner.connectToLeader``); a connection
    that was accepted and then ends sends it back into the election.

    Invariant: the gate owns the port until it is closed, also while it refuses connections.

    :param is_open: Function that returns whether to accept connections now; called fifty times a second.
    """

    def __init__(self, is_open: Callable[[], bool]) -> None:
        self._is_open = is_open
        self._holder = _bound(0)  # does not listen, so connections are refused while no other socket does
        self.port = int(self._holder.getsockname()[1])
        self._listener: socket.socket | None = None
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self.look()

    def accept(self) -> socket.socket | None:
        """Return the next connection; block until it exists, and return ``None`` once the gate is closed."""
        while not self._closed.is_set():
            self.look()
            listener = self._listener
            if listener is None:
                self._closed.wait(_LOOK_SECONDS)
                continue
            with contextlib.suppress(OSError):  # timeout, or the gate was shut
                return listener.accept()[0]
        return None

    def look(self) -> None:
        """Open or shut the gate immediately, without waiting for the next check."""
        with self._lock:
            wanted = self._is_open()  # under the lock, because an older answer would undo a newer one
            if wanted and self._listener is None and not self._closed.is_set():
                self._listener = _bound(self.port)
                self._listener.settimeout(_LOOK_SECONDS)
                self._listener.listen()
            elif not wanted:
                self._shut()

    def close(self) -> None:
        """Refuse all connections from now on, and release the port."""
        self._closed.set()
        with self._lock:
            self._shut()
            self._holder.close()

    def _shut(self) -> None:
        if self._listener is not None:
            hang_up(self._listener)
            self._listener = None


def _bound(port: int) -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # two sockets share the port: one holds it, one listens
    made.bind((_HOST, port))
    return made
