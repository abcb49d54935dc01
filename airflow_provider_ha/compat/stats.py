"""Airflow's own ``Stats``, as the triggerer of each release initializes it.

Up to 3.1 there is one ``Stats``, which initializes itself. From 3.2 on there are two copies: the triggerer initializes
that of the core (``airflow.observability``), a task process that of the SDK (``airflow.sdk.observability``). A copy
that its process does not initialize drops what it is given, without a word.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING

from airflow.configuration import conf

from airflow_provider_ha.compat import AIRFLOW_V_3_2_PLUS


# Type checkers see the newest release.
if TYPE_CHECKING or AIRFLOW_V_3_2_PLUS:
    from airflow.observability.stats import Stats
else:
    from airflow.stats import Stats


_SECTION = "metrics"


class Carrier(Enum):
    """What Airflow's configuration makes of a metric and its tags."""

    NOTHING = "nothing"  # no metric leaves Airflow
    NAMES = "names"  # StatsD without tags
    TAGS = "tags"  # StatsD with the tags of Datadog or InfluxDB
    ATTRIBUTES = "attributes"  # OpenTelemetry


def carrier() -> Carrier:
    """Return what carries metrics, in the order in which Airflow looks."""
    if _on("statsd_datadog_enabled"):
        return Carrier.TAGS if _on("statsd_datadog_metrics_tags", unset=True) else Carrier.NAMES
    if _on("statsd_on"):
        return Carrier.TAGS if _on("statsd_influxdb_enabled") else Carrier.NAMES
    return Carrier.ATTRIBUTES if _on("otel_on") else Carrier.NOTHING


def gauge(name: str, value: float, tags: Mapping[str, str]) -> None:
    """Set a gauge. Raises what the client of the receiver raises."""
    Stats.gauge(name, value, tags=dict(tags))


def _on(option: str, *, unset: bool = False) -> bool:
    return conf.getboolean(_SECTION, option, fallback=unset)
