"""What people read of a value: no Python, no wrapped lines in a pipe, moments to the second."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_provider_ha.cli import console
from airflow_provider_ha.jobs.model import JobState


@dataclass(frozen=True)
class Place:
    """A record of two fields."""

    host: str
    pid: int


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        ("", "-"),
        ({}, "-"),
        ([], "-"),
        (0, "0"),
        (True, "yes"),
        (JobState.RUNNING, "RUNNING"),
        ({"host": "h", "pid": 1}, "host=h pid=1"),
        (Place("h", 1), "host=h pid=1"),
        ({"host": None, "at": {"run": 1}}, "host=- at=(run=1)"),
        (["a", "b"], "a, b"),
        (datetime(2026, 11, 22, 19, 10, 13, 123456, timezone.utc), "2026-11-22T19:10:13Z"),
        (datetime(2026, 11, 22, 19, 10, 13, tzinfo=timezone(timedelta(hours=2))), "2026-11-22T19:10:13+02:00"),
        ("2026-11-22T19:10:13.123456Z", "2026-11-22T19:10:13Z"),
        ({"since": "2026-11-22T19:10:13.123456Z"}, "since=2026-11-22T19:10:13Z"),
        ("at 2026-11-22T19:10:13.123456Z it ended", "at 2026-11-22T19:10:13.123456Z it ended"),
        ("1.50", "1.50"),
        ("0123456789abcdef" * 4, "0123456789ab"),
    ],
)
def test_a_value_is_shown_without_python(value: Any, shown: str) -> None:
    assert console.text_of(value) == shown


def test_a_long_value_makes_no_other_line_longer(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_fields({"state": "LOST", "failure": "x" * 300})
    console.print_table(["JOB", "MESSAGE"], [["orders", ""], ["clicks", "y" * 300]], empty="none")

    assert all(line == line.rstrip() for line in capsys.readouterr().out.splitlines())


def test_a_long_path_is_one_line_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    path = "/data/" + "a-long-name/" * 20 + "end"

    console.print_fields({"directory": path})

    assert capsys.readouterr().out.split() == ["directory", path]
