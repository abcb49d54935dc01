"""A port of the loopback that refuses connections while what is behind it does not listen, as that one's own port does.

To accept and hang up is not the same: a client that was refused tries again, one that was accepted takes the server for
one that runs. ZooKeeper's follower connects to a new leader up to five times, for the leader may listen a moment later
(``Learner.connectToLeader``); a connection that was accepted and ends sends it back into the election.

Invariant: the port belongs to the gate until it is closed, also while it is shut.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

from airflow_provider_ha.coordination.raw_socket import hang_up


_HOST = "127.0.0.1"
_LOOK_SECONDS = 0.02  # five looks before ZooKeeper's follower tries again


class Gate:
    """Accepts connections while it is open. Safe in any thread; one thread accepts.

    :param is_open: Whether a connection is accepted now; asked about fifty times a second.
    """

    def __init__(self, is_open: Callable[[], bool]) -> None:
        self._is_open = is_open
        self._holder = _bound(0)  # does not listen: a connection is refused while it is alone
        self.port = int(self._holder.getsockname()[1])
        self._listener: socket.socket | None = None
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self.look()

    def accept(self) -> socket.socket | None:
        """Return the next connection, once there is one; ``None`` when the gate is closed."""
        while not self._closed.is_set():
            self.look()
            listener = self._listener
            if listener is None:
                self._closed.wait(_LOOK_SECONDS)
                continue
            with contextlib.suppress(OSError):  # nothing came, or it was shut
                return listener.accept()[0]
        return None

    def look(self) -> None:
        """Open or shut it now, instead of with the next look."""
        with self._lock:
            wanted = self._is_open()  # an answer from before another look would undo that one
            if wanted and self._listener is None and not self._closed.is_set():
                self._listener = _bound(self.port)
                self._listener.settimeout(_LOOK_SECONDS)
                self._listener.listen()
            elif not wanted:
                self._shut()

    def close(self) -> None:
        """Refuse everything from now on, and give the port back."""
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
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # two of ours: one holds the port, one listens
    made.bind((_HOST, port))
    return made
