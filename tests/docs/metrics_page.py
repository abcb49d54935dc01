"""Writes docs/reference/metrics.md from the list of metrics: ``python -m tests.docs.metrics_page``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from airflow_provider_ha.jobs.metric_names import COMMON_LABELS, METRICS, Emitter, Metric
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.recovery.losses import RestartReason


PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"
_HEAD = """\
# Metrics

The metrics of a job, and their source. The `driver` serves Prometheus when its job has `metrics_port`. `airflow`
is Airflow's triggerer, where Airflow sends metrics to StatsD or OpenTelemetry. [How to](../how-to/metrics.md) set up
both.

In Airflow the name has a dot after the prefix, and Airflow's common prefix: `airflow.spark_ha.job_state`. Every metric
has the labels `cluster` and `job_id`, and the labels in the table; a metric of the cluster has no `job_id`. Airflow
sends them as [tags](../how-to/metrics.md#names-and-tags).

| Metric | Kind | Labels | Source | Meaning |
|---|---|---|---|---|
"""
_TAIL = """
Values of `state` are {states}. Values of `event` are the [events](events.md) of a cluster that last, such as
`no_leader`. Values of `reason`:

| Reason | The driver before was lost because |
|---|---|
| `application` | an error of the script, or of a query as written in the script, ended it |
| `outage` | storage, a connection, memory, an executor, a broker or ZooKeeper was away |
| `stalled` | it committed nothing although it should have, and the job has `restart_stalled` |
| `handed over` | a person or a DAG handed the job over to a standby driver |
| `unfit` | its host lacks a prerequisite that another host has |
| `killed` | its processes were ended from outside, and it reported nothing |
| `host` | its death is not proven: its host, or its supervisor, is gone |
| `other` | of another cause |

Phases of a recovery, each up to the next one: `detect` (from the last heartbeat of the lost leader to the proof that
its processes are dead), `submit` (to the next submission, with the delay of the restart strategy), `lead` (to its
leadership), `bind` (its working directory is current), `start` (of its first query), `commit` (to its first commit),
and `total`. They compare the clocks of the hosts that took part.

A counter begins at 0 with each driver, and `spark_ha_accepted_losses_total` with each run. `spark_ha_restarts_day` and
the attempts are read when a driver begins to lead, from the newest 50 attempts of its run. A source that does not
report its lag, like a directory of files, has no sample here. A deleted job has no state.
"""


def page() -> str:
    """Return the page."""
    states = ", ".join(f"`{state.value}`" for state in JobState)
    return _HEAD + "\n".join(_rows()) + "\n" + _TAIL.format(states=states)


def reasons_of(text: str) -> set[str]:
    """Return the reasons that a page explains."""
    return {reason.value for reason in RestartReason if f"| `{reason.value}` |" in text}


def _rows() -> Iterator[str]:
    for metric in METRICS:
        labels = "of the cluster" if metric.of_cluster else ", ".join(f"`{label}`" for label in metric.labels)
        yield f"| `{metric.name}` | {metric.kind.value} | {labels} | {_told_by(metric)} | {metric.help} |"


def _told_by(metric: Metric) -> str:
    return ", ".join(emitter.value for emitter in Emitter if emitter in metric.emitters)


if __name__ == "__main__":
    assert COMMON_LABELS == ("cluster", "job_id")
    PAGE.write_text(page(), encoding="utf-8")
