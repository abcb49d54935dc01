"""What a user wants restored, as people write it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timezone

import pytest

from airflow_provider_ha.checkpoints.restore.restore_point import RestorePoint, parse_restore_point
from airflow_provider_ha.errors import ConfigurationError


NOW = datetime(2026, 11, 21, 14, 5, tzinfo=timezone.utc)


@pytest.fixture(autouse=True)
def _berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A host whose local time is one hour ahead of UTC."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def before(text: str) -> str:
    moment = parse_restore_point(text, now=NOW).before
    assert moment is not None
    return moment.astimezone(timezone.utc).isoformat()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("latest", RestorePoint()),
        ("checkpoint-12", RestorePoint(number=12)),
        ("savepoint-before-the-release", RestorePoint(savepoint_id="before-the-release")),
    ],
)
def test_a_checkpoint_or_a_savepoint_is_named(text: str, wanted: RestorePoint) -> None:
    assert parse_restore_point(text, now=NOW) == wanted


def test_a_time_of_day_is_the_last_one_that_is_over() -> None:
    assert before("before 15:05") == "2026-11-21T14:05:00+00:00"
    assert before("before 15:06") == "2026-11-20T14:06:00+00:00"
    assert before("before 14:05:30+00:00") == "2026-11-20T14:05:30+00:00"


def test_a_moment_without_a_zone_is_local_time() -> None:
    assert before("before 2026-11-21T14:05") == "2026-11-21T13:05:00+00:00"


@pytest.mark.parametrize("zone", ["Z", "+00:00", ".000+00:00"])
def test_a_moment_with_a_zone_is_as_it_says(zone: str) -> None:
    assert before(f"before-2026-11-21T14:04:00{zone}") == "2026-11-21T14:04:00+00:00"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("newest", "names neither a checkpoint nor a savepoint"),
        ("checkpoint-", "names neither a checkpoint"),
        ("checkpoint-\N{SUPERSCRIPT TWO}", "names neither a checkpoint"),
        ("savepoint-", "names neither a checkpoint"),
        ("before ", "names neither a checkpoint"),
        ("before lunch", "'lunch' is not a time"),
        ("before 2026-11-21T15:06", r"2026-11-21T15:06:00\+01:00 is in the future \(it is 2026-11-21T15:05:00"),
    ],
)
def test_a_name_without_a_match_is_an_error_that_shows_the_syntax(text: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason) as caught:
        parse_restore_point(text, now=NOW)

    assert caught.value.next_step
