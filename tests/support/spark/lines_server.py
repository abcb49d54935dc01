"""A server that sends lines of words, for scripts that read a socket."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Words(socketserver.BaseRequestHandler):
    """Says two lines, and keeps the line open."""

    def handle(self) -> None:
        """Answer one connection."""
        self.request.sendall(b"apache spark\napache hadoop\n")
        self.request.recv(1)


@contextmanager
def words() -> Iterator[int]:
    """Yield the port of a server that says two lines to each client."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Words) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()
