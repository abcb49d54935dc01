"""When the dashboard draws a takeover, evaluated by Prometheus itself: each driver is another instance."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_ha.cli.metrics import MONITORING
from tests.support.promtool import misjudged


# It builds promtool, once for a machine, and that takes two cores for ten minutes.
pytestmark = [pytest.mark.hours, pytest.mark.timeout(1800)]


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
