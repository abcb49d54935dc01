"""Which checkpoints and payloads are no longer needed."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import CheckpointKind, CheckpointPointer, SavepointPointer
from airflow_provider_ha.checkpoints.store.retention_policy import (
    SavepointRetention,
    floors,
    max_age_of,
    outlived,
    replayable,
    superfluous,
    superfluous_savepoints,
)
from airflow_provider_ha.driver.checkpointing.savepoint_job import retention_of
from airflow_provider_ha.errors import ConfigurationError


NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
DAY = timedelta(days=1)


def pointers(*numbers: int) -> list[CheckpointPointer]:
    return [
        CheckpointPointer(
            number=number,
            epoch=1,
            run=1,
            reason=CheckpointKind.PERIODIC,
            payload="p",
            sha256="d",
            size=1,
            cut={"q": number},
            created_at=NOW,
        )
        for number in numbers
    ]


@pytest.mark.parametrize(
    ("keep", "leased", "removed"), [(2, set(), [1, 2]), (2, {2}, [1]), (9, set(), []), (0, set(), [1, 2, 3])]
)
def test_the_oldest_go_except_what_is_read_and_the_newest(keep: int, leased: set[int], removed: list[int]) -> None:
    assert [pointer.number for pointer in superfluous(pointers(4, 3, 2, 1), keep, leased)] == removed


@pytest.mark.parametrize(("newer", "keep", "gone"), [(0, 0, False), (1, 0, True), (1, 2, False), (2, 2, True)])
def test_what_a_run_has_claimed_goes_with_the_oldest_checkpoint_that_stays(newer: int, keep: int, gone: bool) -> None:
    assert outlived(pointers(*range(newer)), keep) is gone


def test_a_payload_is_needed_while_an_older_cut_would_replay_it() -> None:
    floor = floors([{"q": 7}, {"q": 3, "late": 9}])

    assert floor == {"q": 3, "late": 9}
    assert replayable({"q": 4}, floor)
    assert not replayable({"q": 2, "late": 8, "gone": 50}, floor)


def test_the_record_of_the_oldest_cut_itself_is_needed() -> None:
    """Without it nothing shows that another epoch's later batches belong to a timeline that was given up."""
    assert replayable({"q": 3}, floors([{"q": 3}]))


def savepoint(name: str, *, days: int, claimed_by: int | None = None) -> SavepointPointer:
    return SavepointPointer(
        savepoint_id=name,
        directory=name,
        manifest_sha256="d",
        size=1,
        cut={"q": 1},
        schedule="nightly",
        created_at=NOW - days * DAY,
        claimed_by=claimed_by,
    )


@pytest.mark.parametrize(
    "retention", [SavepointRetention("nightly", 1), SavepointRetention("nightly", None, DAY)], ids=["count", "age"]
)
def test_what_is_read_and_what_a_run_has_claimed_stays_beyond_every_limit(retention: SavepointRetention) -> None:
    """The newest of the schedule's own stays as well: what is claimed is not the schedule's any more."""
    found = [
        savepoint("claimed", days=2, claimed_by=3),
        savepoint("newest", days=3),
        savepoint("read", days=4),
        savepoint("old", days=5),
        savepoint("oldest", days=6),
    ]

    gone = superfluous_savepoints(found, retention, now=NOW, leased={"read"})

    assert [pointer.savepoint_id for pointer in gone] == ["oldest", "old"]


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
def test_only_a_schedule_with_a_retention_removes_savepoints(
    schedule: str | None, arguments: dict[str, Any], retention: SavepointRetention | None
) -> None:
    assert retention_of(schedule, arguments) == retention


@pytest.mark.parametrize("days", [0, -1, math.nan, math.inf, 1e9])
def test_an_age_that_nothing_can_have_is_refused(days: float) -> None:
    with pytest.raises(ConfigurationError, match="cannot be kept for"):
        max_age_of(days)
