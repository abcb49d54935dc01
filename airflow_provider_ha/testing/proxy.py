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
from airflow_provider_ha.testing._gate import Gate


__all__ = ["FaultProxy"]


_log = logging.getLogger(__name__)

_HOST = "127.0.0.1"
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
