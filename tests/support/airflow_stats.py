"""Airflow's Stats, initialized in this process as its triggerer does it, for the receivers of the tests."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from unittest import mock

from tests.support.receivers import LOOPBACK, Received, otlp, statsd


_STATSD = {"statsd_on": "True", "statsd_host": LOOPBACK}
SETTINGS: Mapping[str, tuple[Callable[[], AbstractContextManager[Received]], Mapping[str, str]]] = {
    "statsd": (statsd, _STATSD),
    "datadog": (statsd, {**_STATSD, "statsd_datadog_enabled": "True"}),
    "influxdb": (statsd, {**_STATSD, "statsd_influxdb_enabled": "True"}),
    "opentelemetry": (otlp, {"otel_on": "True"}),
}


def environment(received: Received, options: Mapping[str, str]) -> dict[str, str]:
    """Return what an Airflow with these options of ``[metrics]`` has in its environment."""
    own = {f"AIRFLOW__METRICS__{name.upper()}": value for name, value in options.items()}
    return {
        **own,
        "AIRFLOW__METRICS__STATSD_PORT": str(received.port),
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{LOOPBACK}:{received.port}",
        "OTEL_METRIC_EXPORT_INTERVAL": "100",
    }


@contextmanager
def received_by(protocol: str) -> Iterator[Received]:
    """Have a receiver, and this process's Stats lead to it."""
    receiver, options = SETTINGS[protocol]
    with receiver() as received, mock.patch.dict("os.environ", environment(received, options)), initialized():
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
