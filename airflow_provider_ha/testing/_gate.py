"""Loopback port that refuses connections while the server behind it does not listen.

Accepting and closing a connection would not be equivalent: a client that was refused tries again, but a client whose
connection was accepted takes the server for a running one. ZooKeeper's follower connects to a new leader up to five
times, because the leader may start to listen a moment later (``Learner.connectToLeader``); a connection that was
accepted and then ends sends it back into the election.

Invariant: the gate owns the port until it is closed, also while it refuses connections.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

from airflow_provider_ha.coordination.raw_socket import hang_up


_HOST = "127.0.0.1"
_LOOK_SECONDS = 0.02  # a fifth of the pause before ZooKeeper's follower tries again


class Gate:
    """Port that accepts connections while it is open. Thread-safe; one thread accepts.

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
