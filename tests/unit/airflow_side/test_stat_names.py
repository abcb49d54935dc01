"""Names and tags in Airflow's Stats, the channel that Airflow's configuration selects, and the mappings of names."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
import yaml

from airflow_provider_ha.airflow_side.job_stats import Carrier, Sample, carrier, stat_of
from airflow_provider_ha.jobs import metric_names
from airflow_provider_ha.jobs.metric_names import COMMON_LABELS, METRICS, Emitter
from tests.docs.statsd_mappings import FILE, mappings


ALERT = Sample(metric_names.JOB_ALERT, 1.0, "a.b", ("no_leader",))


@pytest.mark.parametrize(
    ("carrier", "stat"),
    [
        (Carrier.ATTRIBUTES, ("spark_ha.job_alert", {"cluster": "prod", "job_id": "a.b", "event": "no_leader"})),
        (Carrier.TAGS, ("spark_ha.job_alert", {"cluster": "prod", "spark_job": "a.b", "event": "no_leader"})),
        (Carrier.NAMES, ("spark_ha.job_alert.prod.a__b.no_leader", {})),
    ],
)
def test_a_value_says_which_job_it_is_of(carrier: Carrier, stat: tuple[str, dict[str, str]]) -> None:
    assert stat_of(ALERT, "prod", carrier) == stat


@pytest.mark.parametrize("carrier", [Carrier.TAGS, Carrier.NAMES])
def test_a_name_that_airflow_would_refuse_is_shortened_and_stays_one_of_its_own(carrier: Carrier) -> None:
    def stat(job_id: str) -> tuple[str, Mapping[str, str]]:
        return stat_of(Sample(metric_names.JOB_ALERT, 1.0, job_id, ("recovery_point_exceeded",)), "c" * 128, carrier)

    found = {str(stat(f"{'j' * 127}{end}")) for end in "ab"}

    assert len(found) == 2
    name, tags = stat("j" * 128)
    assert len(name) + sum(len(f",{tag}={value}") for tag, value in tags.items()) <= 250


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, Carrier.NOTHING),
        ({"STATSD_ON": "True"}, Carrier.NAMES),
        ({"STATSD_ON": "True", "STATSD_INFLUXDB_ENABLED": "True"}, Carrier.TAGS),
        ({"STATSD_DATADOG_ENABLED": "True"}, Carrier.TAGS),
        ({"STATSD_DATADOG_ENABLED": "True", "STATSD_DATADOG_METRICS_TAGS": "False"}, Carrier.NAMES),
        ({"OTEL_ON": "True"}, Carrier.ATTRIBUTES),
        ({"OTEL_ON": "True", "STATSD_ON": "True"}, Carrier.NAMES),
    ],
)
def test_what_carries_metrics_is_read_from_airflow_as_airflow_reads_it(
    options: dict[str, str], expected: Carrier, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in options.items():
        monkeypatch.setenv(f"AIRFLOW__METRICS__{name}", value)

    assert carrier() is expected


def test_the_mappings_convert_airflow_s_metrics_into_those_of_a_driver() -> None:
    found = yaml.safe_load(FILE.read_text())["mappings"]
    cluster_label, job_label = COMMON_LABELS

    assert FILE.read_text() == mappings(), "run python -m tests.docs.statsd_mappings"
    assert {each["name"] for each in found} == {each.name for each in METRICS if Emitter.AIRFLOW in each.emitters}
    for each in found:
        metric = next(metric for metric in METRICS if metric.name == each["name"])
        labels = metric.label_names
        sent, _ = stat_of(Sample(metric, 1.0, job_label, metric.labels), cluster_label, Carrier.NAMES)
        parts = re.fullmatch(each["match"].replace(".", r"\.").replace("*", "([^.]*)"), f"airflow.{sent}")
        assert parts is not None, sent
        assert {label: parts[int(place.removeprefix("$"))] for label, place in each["labels"].items()} == {
            label: label for label in labels
        }
