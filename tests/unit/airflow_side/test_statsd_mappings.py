"""The mappings for statsd_exporter are those of what Airflow sends."""

from __future__ import annotations

import re

import yaml

from airflow_provider_ha.compat.stats import Carrier
from airflow_provider_ha.jobs.metrics import COMMON_LABELS, METRICS, Emitter
from airflow_provider_ha.triggers._stat_names import Sample, stat_of
from tests.docs.statsd_mappings import FILE, mappings


def test_the_mappings_turn_what_airflow_sends_into_what_a_driver_serves() -> None:
    found = yaml.safe_load(FILE.read_text())["mappings"]

    assert FILE.read_text() == mappings(), "run python -m tests.docs.statsd_mappings"
    assert {each["name"] for each in found} == {each.name for each in METRICS if Emitter.AIRFLOW in each.emitters}
    for each in found:
        metric = next(metric for metric in METRICS if metric.name == each["name"])
        labels = metric.label_names
        sent, _ = stat_of(Sample(metric, 1.0, metric.labels), *COMMON_LABELS, Carrier.NAMES)
        parts = re.fullmatch(each["match"].replace(".", r"\.").replace("*", "([^.]*)"), f"airflow.{sent}")
        assert parts is not None, sent
        assert {label: parts[int(place.removeprefix("$"))] for label, place in each["labels"].items()} == {
            label: label for label in labels
        }
