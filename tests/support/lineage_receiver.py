"""What OpenLineage's clients send events to: an HTTP server on loopback that keeps them, in their order."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.ivy import Wanted, jars


class LineageReceiver(ThreadingHTTPServer):
    """Every event that was sent to ``api/v1/lineage``, decoded.

    :ivar events: In the order of their arrival.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.events: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        """Where to send events to."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def transport(self) -> dict[str, str]:
        """The transport of an OpenLineage client that leads here."""
        return {"type": "http", "url": self.url, "endpoint": "api/v1/lineage"}

    def of(self, job_name: str, *kinds: str) -> list[dict[str, Any]]:
        """Return the events of a job, those of the types *kinds* or all."""
        return [
            each
            for each in list(self.events)
            if each["job"]["name"] == job_name and (not kinds or each["eventType"] in kinds)
        ]


class _Handler(BaseHTTPRequestHandler):
    server: LineageReceiver

    def do_POST(self) -> None:  # the name is the protocol's
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        if self.path.rstrip("/") != "/api/v1/lineage":
            self.send_error(404)
            return
        self.server.events.append(json.loads(body))
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name is the protocol's
        """Say nothing."""


@contextmanager
def receiving() -> Iterator[LineageReceiver]:
    """Have a receiver for the time of the block."""
    with LineageReceiver() as receiver:
        thread = threading.Thread(target=receiver.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield receiver
        finally:
            receiver.shutdown()
            thread.join()


LISTENER = "1.53.0"


def listener_jar() -> str:
    """Return the path of the listener's jar, which has all that it needs."""
    wanted = Wanted("io.openlineage", "openlineage-spark_2.13", LISTENER, transitive=False)
    [jar] = jars(f"openlineage-spark-{LISTENER}", (wanted,))
    return str(jar)
