"""A real S3 server for tests: its own process, on the loopback, gone with the test session."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import S3Options
from airflow_provider_ha.storage.s3 import S3Store
from airflow_provider_ha.testing.waiting import wait_until


_SERVE = "import sys; from moto.server import main; main(['-H', '127.0.0.1', '-p', sys.argv[1]])"


@contextmanager
def s3_server() -> Iterator[str]:
    """Yield the URL of a running server."""
    if importlib.util.find_spec("moto") is None:
        pytest.skip("moto is not installed: install the test extra")
    port = _free_port()
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVE, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: _answers(port) or process.poll(), timeout=30, what="the S3 server")
        assert process.poll() is None, "the S3 server did not start"
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def s3_store(endpoint: str) -> S3Store:
    """Return a store in a bucket that nobody else uses."""
    import boto3

    bucket = f"bucket-{new_id()}"
    client = boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="key", aws_secret_access_key="secret"
    )
    client.create_bucket(Bucket=bucket)
    client.close()
    options = S3Options(endpoint_url=endpoint, access_key="key", secret_key="secret")
    return S3Store(f"s3://{bucket}/prefix/cluster", options)


@contextmanager
def loses_first_answer(endpoint: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the URL of a proxy that forwards everything but its first answer, and the request that this answered."""
    lost: list[str] = []

    class Forward(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            upstream = HTTPConnection(endpoint.removeprefix("http://"), timeout=10)
            upstream.request(self.command, self.path, body, dict(self.headers.items()))
            answer = upstream.getresponse()
            content = answer.read()
            upstream.close()
            if not lost:
                lost.append(self.command)
                self.close_connection = True
                return
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("connection", "server", "date"):
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT  # noqa: N815  # the name is the protocol of http.server
        do_HEAD = do_PUT  # noqa: N815  # the same

        def log_message(self, *_: object) -> None:
            """Be silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Forward) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", lost
        finally:
            server.shutdown()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
