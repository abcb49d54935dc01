"""The Prometheus endpoint of a driver: HTTP without a login, so on this host alone unless the job configures more.

Invariant: metrics never disturb the job. An unavailable port is replaced by any free one, which is logged; without a
free port, the job runs without metrics.
"""

from __future__ import annotations

import logging
import socket

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.registry import Collector

from airflow_provider_ha.jobs.options.ha_options import HaOptions


log = logging.getLogger(__name__)
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104  # a user may configure it


def serve(collector: Collector, options: HaOptions) -> str:
    """Serve metrics until the process ends.

    :returns: Address, as ``host:port``; empty when not served.
    """
    if options.metrics_port is None:
        return ""
    registry = CollectorRegistry()
    registry.register(collector)
    for port in dict.fromkeys((options.metrics_port, 0)):
        try:
            server, _ = start_http_server(port, addr=options.metrics_address, registry=registry)
        except OSError as error:  # noqa: PERF203  # two tries
            log.warning("metrics cannot be served at %s port %d: %s", options.metrics_address, port, error)
        else:
            host = socket.gethostname() if options.metrics_address in _EVERYWHERE else options.metrics_address
            place = f"[{host}]:{server.server_port}" if ":" in host else f"{host}:{server.server_port}"
            log.info("metrics are served at http://%s/metrics", place)
            return place
    return ""
