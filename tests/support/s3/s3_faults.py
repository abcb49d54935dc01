"""A proxy before an S3 server that fails on command: throttles, hangs, cuts, loses answers.

Signatures stay good: requests are passed on as they came, the name of the host included.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


FOR_EVER = -1


class Exchange:
    """One request that met a fault, and what can be done with it."""

    def __init__(self, handler: BaseHTTPRequestHandler, upstream: str, closing: threading.Event) -> None:
        self._handler = handler
        self._upstream = upstream
        self._closing = closing
        self._body: bytes | None = None

    @property
    def path(self) -> str:
        """Path with the query."""
        return self._handler.path

    @property
    def headers(self) -> Message:
        """Headers of the request."""
        return self._handler.headers

    def body(self, at_most: int | None = None) -> bytes:
        """Return the body of the request, or its beginning."""
        if self._body is None:
            size = int(self._handler.headers.get("Content-Length", 0))
            self._body = self._handler.rfile.read(size if at_most is None else min(size, at_most))
        return self._body

    def ask(self, method: str = "", without: str = "") -> tuple[int, list[tuple[str, str]], bytes]:
        """Pass the request on, or another one of the same path; return status, headers and body of the answer."""
        headers = {name: value for name, value in self.headers.items() if name.lower() != without.lower()}
        body = self.body()
        connection = HTTPConnection(self._upstream.removeprefix("http://"), timeout=30)
        try:
            if method:
                connection.request(method, self.path, headers={"Authorization": self.headers["Authorization"]})
            else:
                connection.request(self._handler.command, self.path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def reply(self, status: int, headers: list[tuple[str, str]], body: bytes, *, cut_after: int | None = None) -> None:
        """Answer; cut the connection after so many bytes of the body."""
        self._handler.send_response(status)
        for name, value in headers:
            if name.lower() not in ("connection", "server", "date"):
                self._handler.send_header(name, value)
        self._handler.end_headers()
        self._handler.wfile.write(body if cut_after is None else body[:cut_after])
        if cut_after is not None:
            self.cut()

    def refuse(self, status: int, code: str) -> None:
        """Answer with an error of S3."""
        self.body()
        text = f"<Error><Code>{code}</Code><Message>injected</Message></Error>".encode()
        head = self._handler.command == "HEAD"
        headers = [("Content-Type", "application/xml"), ("Content-Length", "0" if head else str(len(text)))]
        self.reply(status, headers, b"" if head else text)

    def forward(self, without: str = "") -> None:
        """Do what a proxy does; leave out one header."""
        self.reply(*self.ask(without=without))

    def send(self, piece: bytes) -> None:
        """Send more of the answer's body."""
        self._handler.wfile.write(piece)

    def wait(self, seconds: float) -> None:
        """Let time pass, at most until the end of the test."""
        self._closing.wait(seconds)

    def cut(self) -> None:
        """Cut the connection at once."""
        self._handler.close_connection = True
        with contextlib.suppress(OSError):
            self._handler.wfile.flush()
            self._handler.connection.shutdown(socket.SHUT_RDWR)


Action = Callable[[Exchange], None]


@dataclass
class Fault:
    """What happens to which requests.

    :param method: ``GET``, ``PUT``, …
    :param containing: Only to paths (with their query) that contain this.
    :param header: Only to requests with this header.
    :param after: So many of them are let through before.
    :param times: How often it happens; :data:`FOR_EVER` never ends.
    :param hits: How often it happened.
    """

    action: Action
    method: str
    containing: str = ""
    header: str = ""
    after: int = 0
    times: int = 1
    hits: int = 0

    def takes(self, handler: BaseHTTPRequestHandler) -> bool:
        if handler.command != self.method or self.containing not in handler.path:
            return False
        if self.header and self.header not in handler.headers:
            return False
        if self.after:
            self.after -= 1
            return False
        if self.times != FOR_EVER and self.hits >= self.times:
            return False
        self.hits += 1
        return True


@contextmanager
def s3_proxy(upstream: str, *faults: Fault) -> Iterator[str]:
    """Yield the URL of a proxy before the server at *upstream*; the first fault that takes a request has it."""
    lock, closing = threading.Lock(), threading.Event()

    class Forward(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else each answer with a body waits 40 ms for the acknowledgement of its head

        def do_PUT(self) -> None:
            exchange = Exchange(self, upstream, closing)
            with lock:
                fault = next((fault for fault in faults if fault.takes(self)), None)
            if fault is None:
                exchange.forward()
            else:
                fault.action(exchange)

        do_GET = do_HEAD = do_POST = do_DELETE = do_PUT  # noqa: N815  # the names are the protocol of http.server

        def log_message(self, *_: object) -> None:
            """Be silent."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 64

        def handle_error(self, *_: Any) -> None:
            """Say nothing of clients that gave up: that is what the tests are for."""

    with Server(("127.0.0.1", 0), Forward) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            closing.set()
            server.shutdown()


def refuse(status: int, code: str) -> Action:
    """Answer with an error; the server does not hear of it."""
    return lambda exchange: exchange.refuse(status, code)


def noted(paths: list[str], containing: str) -> Fault:
    """Note the paths of what is asked for, and pass it on."""

    def note(exchange: Exchange) -> None:
        paths.append(exchange.path)
        exchange.forward()

    return Fault(note, "GET", containing, times=FOR_EVER)


def hang(seconds: float) -> Action:
    """Give no answer for a while, and then none at all; the server does not hear of it."""

    def action(exchange: Exchange) -> None:
        exchange.body()
        exchange.wait(seconds)
        exchange.cut()

    return action


def lose_answer(exchange: Exchange) -> None:
    """Let the server do it, and the client not hear of it."""
    exchange.ask()
    exchange.cut()


def cut_answer(after: int) -> Action:
    """Cut the connection in the middle of the answer's body."""
    return lambda exchange: exchange.reply(*exchange.ask(), cut_after=after)


def cut_request(after: int) -> Action:
    """Cut the connection in the middle of the request's body; the server does not hear of it."""

    def action(exchange: Exchange) -> None:
        exchange.body(after)
        exchange.cut()

    return action


def trickle_answer(piece: int, pause: float) -> Action:
    """Send the answer piece by piece, with a pause after each."""

    def action(exchange: Exchange) -> None:
        status, headers, body = exchange.ask()
        exchange.reply(status, headers, b"")
        for start in range(0, len(body), piece):
            exchange.send(body[start : start + piece])
            exchange.wait(pause)

    return action


def stall_answer(after: int, seconds: float) -> Action:
    """Send the beginning of the answer, and then nothing for a while."""

    def action(exchange: Exchange) -> None:
        status, headers, body = exchange.ask()
        exchange.reply(status, headers, body[:after])
        exchange.wait(seconds)
        exchange.cut()

    return action
