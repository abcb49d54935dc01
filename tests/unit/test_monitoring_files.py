"""The dashboards and the alert rules name metrics and labels that exist, in expressions that Prometheus parses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from typer.testing import CliRunner

from airflow_provider_ha.cli.app import app
from airflow_provider_ha.cli.package_files import MONITORING
from airflow_provider_ha.cli.session import ClusterTarget
from airflow_provider_ha.host.engines.local import DEPLOY
from airflow_provider_ha.jobs.metric_names import COMMON_LABELS, METRICS, MetricKind
from airflow_provider_ha.jobs.model import JobState


DASHBOARD, RULES = MONITORING / "spark-ha-dashboard.json", MONITORING / "spark-ha-alerts.yaml"
CLUSTER = MONITORING / "spark-ha-cluster-dashboard.json"
ROOT = MONITORING.parents[1]
MAPPINGS = MONITORING / "spark-ha-statsd-mappings.yaml"  # tests/unit/airflow_side/test_stat_names.py
LISTED = {
    f"{metric.name}{part}": metric
    for metric in METRICS
    for part in (("_bucket", "_sum", "_count") if metric.kind is MetricKind.HISTOGRAM else ("",))
}
_SELECTOR = re.compile(r"\b(spark_ha_\w+)(?:\{([^}]*)\})?")


def alerts() -> dict[str, dict[str, Any]]:
    document = yaml.safe_load(RULES.read_text())
    return {rule["alert"]: rule for group in document["groups"] for rule in group["rules"]}


def shown(dashboard: Path) -> Iterator[str]:
    """Return the expressions of a dashboard."""
    document = json.loads(dashboard.read_text())
    yield from (target["expr"] for panel in document["panels"] for target in panel["targets"])
    yield from (annotation["expr"] for annotation in document["annotations"]["list"])


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in alerts().values())
    yield from (expression for dashboard in (DASHBOARD, CLUSTER) for expression in shown(dashboard))


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_an_expression_parses_and_names_what_drivers_tell(expression: str) -> None:
    promql_parser.parse(expression)

    for name, selected in _SELECTOR.findall(expression):
        assert name in LISTED, name
        labels = dict(re.findall(r"(\w+)!?=\"([^\"]*)\"", selected))
        assert labels.keys() <= {*COMMON_LABELS, *LISTED[name].labels, "le"}
        assert labels.get("state", "RUNNING") in {state.value for state in JobState}


def variables(dashboard: Path) -> list[list[str]]:
    """Return the metrics that each variable of a dashboard is read from."""
    listed = json.loads(dashboard.read_text())["templating"]["list"]
    return [re.findall(r"spark_ha_\w+", each["query"]["query"]) for each in listed if each["type"] == "query"]


def test_the_variables_of_the_dashboard_are_read_from_a_metric_of_every_driver() -> None:
    assert variables(DASHBOARD) == [["spark_ha_leader_epoch"]] * 2


def test_the_dashboard_of_a_cluster_has_every_job_that_a_driver_or_airflow_reports() -> None:
    assert variables(CLUSTER) == [["spark_ha_job_state"]]
    assert [expression for expression in shown(CLUSTER) if 'cluster="$cluster"' not in expression] == []
    assert [expression for expression in shown(CLUSTER) if "$job" in expression] == []


def test_a_row_of_the_dashboard_of_a_cluster_leads_to_the_dashboard_of_its_job() -> None:
    (link,) = re.findall(r"/d/([\w-]+)\?([^\"]+)", CLUSTER.read_text())
    job = json.loads(DASHBOARD.read_text())

    assert link[0] == job["uid"]
    assert re.findall(r"var-(\w+)=", link[1]) == [each["name"] for each in job["templating"]["list"]]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("alert", sorted(alerts()))
def test_an_alert_leads_to_a_section_of_the_documentation(alert: str) -> None:
    site = DEPLOY.removesuffix("docs/how-to/deploy.md")
    page, _, anchor = alerts()[alert]["annotations"]["runbook_url"].removeprefix(site).partition("#")

    assert anchors(ROOT / page) >= ({anchor} if anchor else set())


def test_every_metric_is_on_the_dashboard_or_in_a_rule() -> None:
    told = {LISTED[name] for expression in expressions() for name, _ in _SELECTOR.findall(expression)}
    also_told = {"spark_ha_checkpoint_number", "spark_ha_batch_number", "spark_ha_input_rows_total"}
    also_told |= {"spark_ha_class_archive"}  # one text for each driver
    also_told |= {"spark_ha_standby_driver_level_seconds"}  # beside their number, which has a rule
    also_told |= {"spark_ha_state_restore_bytes", "spark_ha_state_restore_seconds"}  # of the start of a driver
    also_told |= {"spark_ha_state_copies_bytes_total", "spark_ha_state_copies_seconds_total"}  # to tune an option

    assert {metric.name for metric in METRICS if metric not in told} == also_told


@pytest.mark.parametrize(
    "alert",
    [
        "SparkHaLeaderLost",
        "SparkHaNotRunning",
        "SparkHaStalled",
        "SparkHaCheckpointOld",
        "SparkHaCheckpointFailing",
        "SparkHaRestartBudgetLow",
        "SparkHaJobFailed",
        "SparkHaLagGrows",
    ],
)
def test_there_is_a_rule_for_everything_that_a_person_is_called_for(alert: str) -> None:
    rule = alerts()[alert]

    assert rule["labels"]["severity"] in ("warning", "critical")
    assert "job_id" in rule["annotations"]["summary"]
    assert rule["annotations"]["description"]


def test_the_files_are_copied_and_nothing_is_overwritten_unasked(tmp_path: Path) -> None:
    def copy(*words: str) -> Any:
        return CliRunner().invoke(app, ["metrics", "files", str(tmp_path), *words], obj=ClusterTarget())

    first = copy()
    (tmp_path / RULES.name).write_text("mine")
    second, third = copy(), copy("--force")

    assert (first.exit_code, second.exit_code, third.exit_code) == (0, 64, 0)
    assert RULES.name in second.stderr
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        path.name: path.read_bytes() for path in (CLUSTER, DASHBOARD, RULES, MAPPINGS)
    }
