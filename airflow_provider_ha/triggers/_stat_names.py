"""Under which name, and with which tags, a value of a job goes to Airflow's ``Stats``. Pure.

- OpenTelemetry: the labels are attributes, under the names that they have for Prometheus.
- StatsD with tags: the same, but the tag of the job is ``spark_job``. Airflow drops ``job_id`` by default
  (``[metrics] statsd_disabled_tags``): its own jobs have numbers that grow.
- StatsD without tags: the values of the labels follow the name, as in Airflow's own names. Else each job would
  overwrite the one before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_ha.compat.stats import Carrier
from airflow_provider_ha.jobs.metrics import Metric
from airflow_provider_ha.names import short_name


JOB_TAG = "spark_job"
_LONGEST = 240  # Airflow refuses names of more than 250 characters, with a stack trace for each


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a metric.

    :param labels: Values of the labels that the metric has beside the common ones.
    """

    metric: Metric
    value: float
    labels: tuple[str, ...] = ()


def stat_of(sample: Sample, cluster: str, job_id: str, carrier: Carrier) -> tuple[str, Mapping[str, str]]:
    """Return the name and the tags of a value.

    :param job_id: Not used for one of the cluster.
    """
    name, labels = sample.metric.stats_name, sample.metric.label_names
    values = ((cluster,) if sample.metric.of_cluster else (cluster, job_id)) + sample.labels
    if carrier is Carrier.ATTRIBUTES:
        return name, dict(zip(labels, values, strict=True))
    if len(name) + sum(map(len, labels)) + sum(map(len, values)) > _LONGEST:
        values = tuple(map(short_name, values))
    if carrier is Carrier.TAGS:
        tags = (JOB_TAG if label == "job_id" else label for label in labels)
        return name, dict(zip(tags, values, strict=True))
    # A dot separates the parts of a name.
    return ".".join((name, *(value.replace(".", "__") for value in values))), {}
