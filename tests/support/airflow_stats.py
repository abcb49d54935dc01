"""Airflow's Stats, initialized in this process as its triggerer does it, for the receivers of the tests."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator, Mapping
from configparser import ConfigParser
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from unittest import mock

from tests.docs.blocks import blocks_of
from tests.support.receivers import LOOPBACK, Received, otlp, statsd


HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "metrics.md"
PROTOCOLS: Mapping[str, Callable[[], AbstractContextManager[Received]]] = {
    "statsd": statsd,
    "datadog": statsd,
    "influxdb": statsd,
    "opentelemetry": otlp,
}


def documented(protocol: str) -> dict[str, str]:
    """Return the options of ``[metrics]`` that the documentation says to set."""
    (block,) = (block for block in blocks_of(HOW_TO) if block.title == f"airflow.cfg: {protocol}")
    parser = ConfigParser()
    parser.read_string(block.text)
    assert parser.sections() == ["metrics"]
    return dict(parser["metrics"])


def environment(protocol: str, received: Received) -> dict[str, str]:
    """Return what leads an Airflow, configured as the documentation says, to the receiver of a test."""
    options = documented(protocol) | ({"statsd_port": str(received.port)} if protocol != "opentelemetry" else {})
    own = {f"AIRFLOW__METRICS__{name.upper()}": value for name, value in options.items()}
    endpoint = f"http://{LOOPBACK}:{received.port}"
    return {**own, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_METRIC_EXPORT_INTERVAL": "100"}


@contextmanager
def received_by(protocol: str) -> Iterator[Received]:
    """Have a receiver, and this process's Stats lead to it."""
    with ExitStack() as held:
        received = held.enter_context(PROTOCOLS[protocol]())
        held.enter_context(mock.patch.dict("os.environ", environment(protocol, received)))
        held.enter_context(initialized())
        yield received


@contextmanager
def initialized() -> Iterator[None]:
    """Initialize Stats from Airflow's configuration for the time of the block."""
    from airflow._shared.observability.metrics import stats
    from airflow._shared.observability.metrics.base_stats_logger import NoStatsLogger
    from airflow.observability.metrics import stats_utils

    stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=True)
    try:
        yield
    finally:
        _close(stats._get_backend())
        stats.initialize(factory=NoStatsLogger, export_legacy_names=True)


def _close(backend: object) -> None:
    """End what Airflow leaves to the end of its process."""
    if hasattr(backend, "statsd"):
        backend.statsd.close()
    if hasattr(backend, "dogstatsd"):
        backend.dogstatsd.stop()
        backend.dogstatsd.close_socket()
    if hasattr(backend, "otel"):
        from airflow._shared.observability.metrics import otel_logger

        atexit.unregister(otel_logger.flush_otel_metrics)
        backend.otel.shutdown()
