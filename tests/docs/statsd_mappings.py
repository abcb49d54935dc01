"""Writes the mappings for statsd_exporter from the list of metrics: ``python -m tests.docs.statsd_mappings``."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_ha.cli.package_files import MONITORING
from airflow_provider_ha.jobs.metric_names import METRICS, Emitter, Metric


FILE = MONITORING / "spark-ha-statsd-mappings.yaml"
_HEAD = """\
# Mappings for Prometheus' statsd_exporter: Airflow's StatsD without tags becomes metrics with labels, as a driver's.
# --statsd.mapping-config names this file, or its entries precede yours. A job that Airflow no longer reports
# disappears after five minutes.
mappings:
"""


def mappings() -> str:
    """Return the file."""
    return _HEAD + "".join(
        line for metric in METRICS if Emitter.AIRFLOW in metric.emitters for line in _mapping(metric)
    )


def _mapping(metric: Metric) -> Iterator[str]:
    labels = metric.label_names
    yield f'  - match: "airflow.{metric.stats_name}{".*" * len(labels)}"\n'
    yield f'    name: "{metric.name}"\n'
    yield "    ttl: 5m\n"
    yield "    labels:\n"
    for number, label in enumerate(labels, start=1):
        yield f'      {label}: "${number}"\n'


if __name__ == "__main__":
    FILE.write_text(mappings(), encoding="utf-8")
