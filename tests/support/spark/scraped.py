"""What the driver of a job serves to Prometheus."""

from __future__ import annotations

import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from airflow_provider_ha.api.documents.job import targets_of
from tests.support.spark.supervised_job import SupervisedJob


def scraped(job: SupervisedJob) -> dict[str, float]:
    """Return the samples of the driver, each under its name and its other labels."""
    target = targets_of(job.client.config.cluster_id, job.job.snapshot())
    assert target is not None
    with urllib.request.urlopen(f"http://{target.targets[0]}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            own = [value for name, value in sorted(sample.labels.items()) if name not in target.labels]
            found[" ".join((sample.name.removeprefix("spark_ha_"), *own))] = sample.value
            assert target.labels.items() <= sample.labels.items()
    return found
