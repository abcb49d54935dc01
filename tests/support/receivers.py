"""Receivers of metrics, as a user has them: StatsD over UDP, and OpenTelemetry over HTTP. Both on loopback."""

from __future__ import annotations

import gzip
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)


LOOPBACK = "127.0.0.1"
Tags = frozenset[tuple[str, str]]


@dataclass
class Received:
    """What a receiver has got.

    :param port: Where it listens.
    :param gauges: Name and tags -> the values in the order in which they came.
    """

    port: int
    gauges: dict[tuple[str, Tags], list[float]] = field(default_factory=dict)

    def add(self, name: str, tags: Mapping[str, str], value: float) -> None:
        """Note a value."""
        self.gauges.setdefault((name, frozenset(tags.items())), []).append(value)

    def names(self) -> set[str]:
        """Return the names of all gauges."""
        return {name for name, _ in dict(self.gauges)}

    def values(self, name: str, **tags: str) -> list[float]:
        """Return the values of a gauge with exactly these tags; empty for one that did not come."""
        return list(self.gauges.get((name, frozenset(tags.items())), ()))


@contextmanager
def statsd() -> Iterator[Received]:
    """Receive StatsD, plain and with the tags of DogStatsD or InfluxDB."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        server.bind((LOOPBACK, 0))
        received = Received(server.getsockname()[1])
        reader = threading.Thread(target=_read, args=(server, received), daemon=True)
        reader.start()
        try:
            yield received
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
                last.sendto(b"", (LOOPBACK, received.port))
            reader.join()


def _read(server: socket.socket, received: Received) -> None:
    while datagram := server.recv(65_536):
        for line in datagram.decode().splitlines():
            stat, _, rest = line.partition(":")
            value, kind, *more = rest.split("|")
            name, *influx = stat.split(",")
            dog = [tag for part in more if part.startswith("#") for tag in part[1:].split(",") if tag]
            tags = dict(pair.split("=", 1) for pair in influx) | dict(pair.split(":", 1) for pair in dog)
            if kind == "g":
                received.add(name, tags, float(value))


@contextmanager
def otlp() -> Iterator[Received]:
    """Receive OpenTelemetry's metrics over HTTP, as protobuf."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            content = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
            for metric in _metrics(ExportMetricsServiceRequest.FromString(content)):
                received.add(*metric)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.end_headers()
            self.wfile.write(ExportMetricsServiceResponse().SerializeToString())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer((LOOPBACK, 0), Handler) as server:
        received = Received(server.server_address[1])
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        try:
            yield received
        finally:
            server.shutdown()


def _metrics(request: ExportMetricsServiceRequest) -> Iterator[tuple[str, dict[str, str], float]]:
    for resource in request.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in metric.gauge.data_points:
                    tags = {each.key: each.value.string_value for each in point.attributes}
                    is_double = point.WhichOneof("value") == "as_double"
                    yield metric.name, tags, point.as_double if is_double else float(point.as_int)
