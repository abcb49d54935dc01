"""Alert rules and takeovers of the dashboard, evaluated by Prometheus itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from airflow_provider_ha.cli.package_files import MONITORING
from tests.support.promtool import Case, disagreement, misjudged


# It builds promtool, once for a machine, and that takes two cores for ten minutes.
pytestmark = [pytest.mark.hours, pytest.mark.timeout(1800)]
RULES = MONITORING / "spark-ha-alerts.yaml"
JOB = 'cluster="c", job_id="flights"'
QUERY = f'{JOB}, query="hourly"'
SEVERITY = {
    rule["alert"]: rule["labels"]["severity"]
    for group in yaml.safe_load(RULES.read_text())["groups"]
    for rule in group["rules"]
}


def alerted(event: str, values: str) -> dict[str, str]:
    """Return the series of an alert that Airflow reports."""
    return {f'spark_ha_job_alert{{{JOB}, event="{event}"}}': values}


def told(**values: str) -> dict[str, str]:
    """Return series of one job: name of a metric without its prefix -> values."""
    return {f"spark_ha_{name}{{{JOB}}}": value for name, value in values.items()}


UP = f'up{{job="spark-ha", {JOB}}}'
LOST = f'spark_ha_job_state{{{JOB}, state="LOST"}}'
SUBMITTED = f'spark_ha_job_state{{{JOB}, state="SUBMITTED"}}'
STARTING = f'spark_ha_job_state{{{JOB}, state="STARTING"}}'
FAILED = f'spark_ha_job_state{{{JOB}, state="FAILED"}}'
COMMITS = f"spark_ha_commit_age_seconds{{{QUERY}}}"
NOT_INSPECTED = 'spark_ha_not_inspected{cluster="c"}'
LAG = f"spark_ha_lag_rows{{{QUERY}}}"
EACH_FAILS_AFTER_TWO_MINUTES = " ".join(str(half_minute // 4) for half_minute in range(60))
FIRES = [
    ("SparkHaLeaderLost", {UP: "0x60"}),
    ("SparkHaLeaderLost", {LOST: "1x60"}),
    ("SparkHaNotRunning", {SUBMITTED: "1x60", STARTING: "0x60"}),  # it never gets a leader
    ("SparkHaNotRunning", {SUBMITTED: "0x60", STARTING: "1x60"}),  # its driver never works
    ("SparkHaNotRunning", {SUBMITTED: "1x40 0x20", STARTING: "0x40 1x20"}),
    ("SparkHaStalled", told(job_stalled="1x60")),
    ("SparkHaCheckpointOld", {**told(checkpoint_age_seconds="700+30x60"), COMMITS: "5x60"}),
    ("SparkHaCheckpointOld", {**told(leader_since_timestamp_seconds="0x60"), COMMITS: "5x60"}),
    ("SparkHaCheckpointOld", alerted("checkpoint_old", "1x60")),
    ("SparkHaCheckpointFailing", alerted("checkpoint_failing", "1x60")),
    ("SparkHaCheckpointFailing", told(checkpoint_failures_total="0+1x60")),
    ("SparkHaCheckpointFailing", told(checkpoint_failures_total=EACH_FAILS_AFTER_TWO_MINUTES)),
    ("SparkHaRestartBudgetLow", told(restart_attempts_used="1x60", restart_attempts_limit="1x60")),
    ("SparkHaJobFailed", {FAILED: "1x60"}),
    ("SparkHaRestartsOften", {f'spark_ha_restarts_day{{{JOB}, reason="killed"}}': "6x60"}),
    ("SparkHaLagGrows", {LAG: "20000+100x60"}),
    ("SparkHaLeaseShort", told(lease_margin_seconds="0.5x60")),
    ("SparkHaNotInspected", {NOT_INSPECTED: "1x60"}),
    ("SparkHaInputLost", told(accepted_losses_total="0x10 1x50")),
    ("SparkHaInputLost", alerted("input_lost", "1x60")),
    ("SparkHaStandbyMissing", told(standby_drivers_ready="1x60", standby_drivers_requested="2x60")),
    ("SparkHaStandbyMissing", alerted("standby_missing", "1x60")),
    ("SparkHaJobAlert", alerted("quarantined", "1x60")),
]
QUIET = [
    ("SparkHaLeaderLost", {UP: "1x60"}),
    ("SparkHaLeaderLost", {UP: "1x55 0x4"}),  # it was stopped, and its target is not removed yet
    ("SparkHaLeaderLost", {LOST: "0x56 1 1 0x2"}),  # Airflow saw it just before the next driver led
    ("SparkHaNotRunning", {SUBMITTED: "0x60", STARTING: "0x60"}),
    ("SparkHaNotRunning", {STARTING: "0x30 1x30"}),  # it takes its time
    ("SparkHaNotRunning", {STARTING: "1x40 0x20"}),  # it works by now
    ("SparkHaStalled", told(job_stalled="0x60")),
    ("SparkHaCheckpointOld", {**told(checkpoint_age_seconds="5000x60"), COMMITS: "5000x60"}),  # without input
    ("SparkHaCheckpointOld", {**told(leader_since_timestamp_seconds="0x60"), COMMITS: "_x60"}),  # nothing committed
    (
        "SparkHaCheckpointOld",
        {**told(leader_since_timestamp_seconds="0x60", checkpoint_age_seconds="60x60"), COMMITS: "5x60"},
    ),
    ("SparkHaCheckpointFailing", told(checkpoint_failures_total="5x60")),
    ("SparkHaCheckpointFailing", told(checkpoint_failures_total="0x50 3x10")),  # one was tried again for six seconds
    ("SparkHaRestartBudgetLow", told(restart_attempts_used="0x60", restart_attempts_limit="1x60")),
    ("SparkHaRestartBudgetLow", told(restart_attempts_used="7x60", restart_attempts_limit="-1x60")),
    ("SparkHaRestartBudgetLow", told(restart_attempts_used="0x60", restart_attempts_limit="0x60")),
    ("SparkHaJobFailed", {FAILED: "0x60"}),
    ("SparkHaRestartsOften", {f'spark_ha_restarts_day{{{JOB}, reason="killed"}}': "5x60"}),
    ("SparkHaLagGrows", {LAG: "20000-100x60"}),
    ("SparkHaLagGrows", {LAG: "100+1x60"}),
    ("SparkHaLeaseShort", told(lease_margin_seconds="5x60")),
    ("SparkHaNotInspected", {NOT_INSPECTED: "1x50 0x10"}),
    ("SparkHaInputLost", told(accepted_losses_total="1x60")),
    ("SparkHaStandbyMissing", told(standby_drivers_ready="2x60", standby_drivers_requested="2x60")),
    ("SparkHaStandbyMissing", told(standby_drivers_ready="0x60", standby_drivers_requested="0x60")),  # not led
    ("SparkHaJobAlert", alerted("quarantined", "1x50 0x10")),
    ("SparkHaJobAlert", alerted("no_leader", "1x60")),  # SparkHaLeaderLost reports it
]


def test_every_rule_has_both_cases() -> None:
    assert {alert for alert, _ in FIRES} == {alert for alert, _ in QUIET} == set(SEVERITY)


@pytest.mark.parametrize(("alert", "series"), FIRES)
def test_a_rule_fires(alert: str, series: dict[str, str], tmp_path: Path) -> None:
    labels = {
        "SparkHaLagGrows": QUERY,
        "SparkHaNotInspected": 'cluster="c"',
        "SparkHaJobAlert": f'{JOB}, event="quarantined"',
    }
    case = Case(alert, SEVERITY[alert], series, firing=labels.get(alert, JOB))

    assert disagreement(RULES, case, tmp_path) == ""


@pytest.mark.parametrize(("alert", "series"), QUIET)
def test_a_rule_does_not_fire(alert: str, series: dict[str, str], tmp_path: Path) -> None:
    assert disagreement(RULES, Case(alert, SEVERITY[alert], series), tmp_path) == ""


def takeovers() -> str:
    dashboard = json.loads((MONITORING / "spark-ha-dashboard.json").read_text())
    (annotation,) = (each for each in dashboard["annotations"]["list"] if each["name"] == "Takeovers")
    expression: str = annotation["expr"]
    return expression.replace("$cluster", "c").replace("$job", "flights")


def epoch(instance: str) -> str:
    return f'spark_ha_leader_epoch{{cluster="c", job_id="flights", instance="{instance}"}}'


@pytest.mark.parametrize("gap", [0, 1, 20], ids=["at once", "between two scrapes", "after ten minutes"])
def test_a_takeover_by_another_driver_is_drawn_for_a_minute(gap: int, tmp_path: Path) -> None:
    """One sample each half minute: the first driver is scraped until 10m, the next one from then on, or later."""
    begin = 21 + gap
    series = {
        epoch("host-1:9400"): "7x20 stale",
        epoch("host-2:9500"): f"_x{begin} 8x60",
    }
    at = begin // 2 + begin % 2  # a whole minute, with a sample of the new driver
    expected = {"5m": False, "10m": False, f"{at}m": True, f"{at + 2}m": False, f"{at + 20}m": False}

    assert misjudged(takeovers(), series, expected, tmp_path) == ""


def test_a_takeover_that_only_airflow_tells_is_drawn(tmp_path: Path) -> None:
    series = {epoch("airflow"): "7x20 8x60"}

    assert misjudged(takeovers(), series, {"10m": False, "11m": True, "13m": False}, tmp_path) == ""


def test_a_first_leader_is_no_takeover(tmp_path: Path) -> None:
    series = {epoch("host-1:9400"): "_x20 1x60"}

    assert misjudged(takeovers(), series, {"11m": False, "20m": False}, tmp_path) == ""
