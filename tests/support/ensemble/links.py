"""The connections between the members of an ensemble, one object per direction, so that a test can cut them.

Members find each other by the ports in their configuration, so each member's configuration names the links instead of
the other members. One exception: a member that opens an election connection states in its first message where it can be
reached, and a member with a higher number hangs up and connects *there*. So a link writes the link of the way back into
that message.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable

from airflow_provider_ha.coordination.embedded import is_free
from airflow_provider_ha.coordination.raw_socket import hang_up, receive
from airflow_provider_ha.testing.proxy import Gate


__all__ = ["Link"]


_HOST = "127.0.0.1"
_CHUNK = 65536
_GREETING = struct.Struct("!qqi")  # protocol version, number of the member, length of its address
_PROTOCOLS = (-65536, -65535)


class Link:
    """One direction: where one member connects to when it wants to reach another one.

    It refuses connections while the other member does not listen, as the port of that member does. While it is silent
    nothing is lost: what was under way arrives late, as TCP does it after a cut. Connections can still be opened, as by
    a route whose far end does not answer.

    :param target: Port of the other member.
    :param way_back: Returns the port of the link in the other direction, for election connections.
    """

    def __init__(self, target: int, way_back: Callable[[], int] | None = None) -> None:
        self._target = target
        self._way_back = way_back
        self._open = threading.Event()
        self._open.set()
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._gate = Gate(lambda: not self._open.is_set() or not is_free(self._target))
        threading.Thread(target=self._accept, name="ensemble-link", daemon=True).start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._gate.port

    def silence(self) -> None:
        """Let nothing through, and keep every connection open."""
        self._open.clear()
        self._gate.look()

    def heal(self) -> None:
        """Let everything through again, first of all what was held."""
        self._open.set()

    def close(self) -> None:
        """Close every connection and stop listening."""
        self._gate.close()
        self._open.set()
        with self._lock:
            ends, self._sockets = self._sockets, []
        for end in ends:
            hang_up(end)

    def _accept(self) -> None:
        while (near := self._gate.accept()) is not None:
            threading.Thread(target=self._connect, args=(near,), name="ensemble-link", daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        self._open.wait()
        try:
            far = socket.create_connection((_HOST, self._target), timeout=5)
            far.settimeout(None)
            with self._lock:
                self._sockets += [near, far]
            if self._way_back is not None:
                far.sendall(_greeting(near, self._way_back()))
        except (OSError, EOFError):  # the member is down: so is the connection to it
            hang_up(near)
            return
        threading.Thread(target=self._pump, args=(far, near), name="ensemble-link", daemon=True).start()
        self._pump(near, far)

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                self._open.wait()
                sink.sendall(data)
        self._open.wait()  # a cut also hides that the other end has hung up
        hang_up(source)
        hang_up(sink)
        with self._lock:
            self._sockets = [end for end in self._sockets if end.fileno() >= 0]


def _greeting(near: socket.socket, way_back: int) -> bytes:
    """Read the first message of an election connection; return it with another address in it."""
    version, member, length = _GREETING.unpack(receive(near, _GREETING.size))
    if version not in _PROTOCOLS:
        raise EOFError(f"protocol version {version} of an election connection is not known")
    receive(near, length)
    address = f"{_HOST}:{way_back}".encode()
    return _GREETING.pack(version, member, len(address)) + address
