"""What an operation asks of the savepoints of its schedule."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.retention.policy import SavepointRetention, max_age_of
from airflow_provider_ha.driver.savepoint_job import retention_of
from airflow_provider_ha.errors import ConfigurationError


@pytest.mark.parametrize(
    ("schedule", "arguments", "retention"),
    [
        ("nightly", {"retain": 3}, SavepointRetention("nightly", 3)),
        ("nightly", {"retain": None, "retain_days": 1.5}, SavepointRetention("nightly", None, timedelta(hours=36))),
        ("nightly", {"retain": 3, "retain_days": 7}, SavepointRetention("nightly", 3, timedelta(days=7))),
        ("nightly", {"retain": "3", "retain_days": "7"}, SavepointRetention("nightly", 3, timedelta(days=7))),
        ("nightly", {"retain": None, "label": "x"}, None),
        (None, {"retain": 3, "retain_days": 7}, None),
    ],
)
def test_only_a_schedule_removes_and_only_when_it_says_what(
    schedule: str | None, arguments: dict[str, Any], retention: SavepointRetention | None
) -> None:
    assert retention_of(schedule, arguments) == retention


@pytest.mark.parametrize("days", [0, -1, math.nan, math.inf, 1e9])
def test_an_age_that_nothing_can_have_is_refused(days: float) -> None:
    with pytest.raises(ConfigurationError, match="cannot be kept for"):
        max_age_of(days)
