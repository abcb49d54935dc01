"""A proxy before a name node that can hold one request, or the answer to it: Hadoop's RPC, frame by frame."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from airflow_provider_ha.coordination.raw_socket import hang_up, receive


_HELLO = 7  # bytes before the first frame of a client
_LENGTH = struct.Struct(">I")

OnRequest = Callable[[bytes], Callable[[], None] | None]
"""Is given each request, and may wait before it returns; then the request is passed on.

What it returns is called before anything that the name node answers is passed on to that client.
"""


@contextmanager
def rpc_proxy(host: str, port: int, on_request: OnRequest) -> Iterator[int]:
    """Yield the port of a proxy before the name node at *host* and *port*."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        opened: list[socket.socket] = []
        threading.Thread(target=_accept, args=(server, (host, port), on_request, opened), daemon=True).start()
        try:
            yield int(server.getsockname()[1])
        finally:
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            for each in opened:
                hang_up(each)


def _accept(
    server: socket.socket, upstream: tuple[str, int], on_request: OnRequest, opened: list[socket.socket]
) -> None:
    with contextlib.suppress(OSError):
        while True:
            client, _ = server.accept()
            node = socket.create_connection(upstream)
            for each in (client, node):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            opened += (client, node)
            answers = _Answers()
            threading.Thread(target=_requests, args=(client, node, on_request, answers), daemon=True).start()
            threading.Thread(target=_replies, args=(node, client, answers), daemon=True).start()


class _Answers:
    """What has to be called before the next answer of one connection is passed on."""

    def __init__(self) -> None:
        self.before: Callable[[], None] | None = None


def _requests(client: socket.socket, node: socket.socket, on_request: OnRequest, answers: _Answers) -> None:
    try:
        node.sendall(receive(client, _HELLO))
        while True:
            head = receive(client, _LENGTH.size)
            body = receive(client, _LENGTH.unpack(head)[0])
            answers.before = on_request(body) or answers.before
            node.sendall(head + body)
    except (OSError, EOFError):
        hang_up(node)


def _replies(node: socket.socket, client: socket.socket, answers: _Answers) -> None:
    try:
        while piece := node.recv(1 << 16):
            if answers.before is not None:
                answers.before()
                answers.before = None
            client.sendall(piece)
        hang_up(client)
    except OSError:
        hang_up(client)
