"""The list of metrics follows the naming rules of Prometheus, and each of its labels is bounded."""

from __future__ import annotations

import re

import pytest

from airflow_provider_ha.jobs import metric_names
from airflow_provider_ha.jobs.metric_names import COMMON_LABELS, METRICS, Metric, MetricKind


def test_every_metric_of_the_module_is_in_the_list_once() -> None:
    defined = [value for value in vars(metric_names).values() if isinstance(value, Metric)]

    assert list(METRICS) == defined
    assert len({metric.name for metric in METRICS}) == len(METRICS)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_metric_is_named_by_the_rules_of_prometheus(metric: Metric) -> None:
    """The rules: https://prometheus.io/docs/practices/naming."""
    assert re.fullmatch(r"spark_ha_[a-z][a-z_]*[a-z]", metric.name)
    assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER)
    if metric.unit in ("seconds", "bytes"):
        assert metric.name.removesuffix("_total").endswith(f"_{metric.unit}")
    elif metric.unit:
        assert metric.unit in metric.name
    assert metric.help
    assert not metric.help.endswith(".")
    assert metric.emitters


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_no_label_grows_with_the_life_of_a_job(metric: Metric) -> None:
    assert set(metric.labels) <= {"query", "state", "phase", "place", "reason", "event", "level"}
    assert not set(metric.labels) & set(COMMON_LABELS)


def test_the_name_in_airflow_has_a_dot_after_its_prefix() -> None:
    assert metric_names.CHECKPOINT_AGE.stats_name == "spark_ha.checkpoint_age_seconds"
