"""Airflow's Stats, initialized in this process as its triggerer does it, for the receivers of the tests."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Protocol, cast
from unittest import mock

from airflow_provider_ha.airflow_side import job_stats as compat  # its Stats is the one that the triggerer has
from airflow_provider_ha.airflow_side.compat import AIRFLOW_V_3_2_PLUS, AIRFLOW_V_3_3_PLUS
from tests.support.receivers import LOOPBACK, Received, otlp, statsd


# As docs/how-to/metrics.md says: `tests/docs/test_metrics_page.py` compares.
_STATSD = {"statsd_on": "True", "statsd_host": "localhost", "statsd_port": "8125"}
OPTIONS: Mapping[str, Mapping[str, str]] = {
    "statsd": _STATSD,
    "datadog": {**_STATSD, "statsd_datadog_enabled": "True"},
    "influxdb": {**_STATSD, "statsd_influxdb_enabled": "True"},
    "opentelemetry": {"otel_on": "True"},
}
_SWITCHES = ("STATSD_ON", "STATSD_DATADOG_ENABLED", "OTEL_ON")
PROTOCOLS: Mapping[str, Callable[[], AbstractContextManager[Received]]] = {
    "statsd": statsd,
    "datadog": statsd,
    "influxdb": statsd,
    "opentelemetry": otlp,
}


class Listening(Protocol):
    """What listens on a port of the loopback."""

    @property
    def port(self) -> int:
        """Where."""


def environment(protocol: str, received: Listening) -> dict[str, str]:
    """Return what leads an Airflow, configured as the documentation says, to the receiver of a test."""
    options = dict(OPTIONS[protocol])
    if "statsd_port" in options:
        options |= {"statsd_host": LOOPBACK, "statsd_port": str(received.port)}
    own = {f"AIRFLOW__METRICS__{name.upper()}": value for name, value in options.items()}
    if AIRFLOW_V_3_2_PLUS:
        endpoint = f"http://{LOOPBACK}:{received.port}"
        return {**own, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_METRIC_EXPORT_INTERVAL": "100"}
    before = {"otel_host": LOOPBACK, "otel_port": str(received.port), "otel_interval_milliseconds": "100"}
    return {**own, **{f"AIRFLOW__METRICS__{name.upper()}": value for name, value in before.items()}}


@contextmanager
def received_by(protocol: str) -> Iterator[Received]:
    """Have a receiver, and this process's Stats lead to it."""
    with ExitStack() as held:
        received = held.enter_context(PROTOCOLS[protocol]())
        held.enter_context(sent_to(protocol, received))
        yield received


@contextmanager
def sent_to(protocol: str, received: Listening) -> Iterator[None]:
    """Have this process's Stats lead to a receiver for the time of the block."""
    with mock.patch.dict("os.environ", environment(protocol, received)), initialized():
        yield


@contextmanager
def initialized() -> Iterator[None]:
    """Initialize Stats from Airflow's configuration for the time of the block."""
    _initialize()
    try:
        yield
    finally:
        _close(_backend())
        with mock.patch.dict("os.environ", {f"AIRFLOW__METRICS__{name}": "False" for name in _SWITCHES}):
            _initialize()
            _backend()


def _initialize() -> None:
    if AIRFLOW_V_3_3_PLUS:
        from airflow._shared.observability.metrics import stats
        from airflow.observability.metrics import stats_utils

        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=True)
        return
    kind: Any = vars(compat)["Stats"]
    if AIRFLOW_V_3_2_PLUS:
        from airflow.observability.metrics import stats_utils

        kind.initialize(factory=cast("Any", stats_utils.get_stats_factory)(kind))
        return
    # It is made once, from the configuration of the moment.
    meta = type(kind)
    if hasattr(meta, "factory"):
        del meta.factory
    kind.instance = None
    meta.__init__(kind)


def _backend() -> Any:
    """Return what sends metrics, as it is or as its next use would make it."""
    if AIRFLOW_V_3_3_PLUS:
        from airflow._shared.observability.metrics import stats

        return stats._get_backend()
    stats_class: Any = vars(compat)["Stats"]
    return stats_class.gauge.__self__


def _close(backend: Any) -> None:
    """End what Airflow leaves to the end of its process."""
    if hasattr(backend, "statsd"):
        backend.statsd.close()
    if hasattr(backend, "dogstatsd"):
        backend.dogstatsd.stop()
        backend.dogstatsd.close_socket()
    if hasattr(backend, "otel"):
        from opentelemetry.metrics import _internal
        from opentelemetry.sdk.metrics import MeterProvider

        flush = getattr(sys.modules[type(backend).__module__], "flush_otel_metrics", None)
        if flush is not None:
            atexit.unregister(flush)
        assert isinstance(backend.otel, MeterProvider)
        backend.otel.shutdown()
        # One process has one provider; Airflow sets this back by itself from 3.3 on.
        _internal._METER_PROVIDER_SET_ONCE._done = False
        _internal._METER_PROVIDER = None
