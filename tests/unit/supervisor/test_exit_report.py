"""What a supervisor does when the report of a death fails."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from airflow_provider_ha.errors import (
    ConfigurationError,
    HaError,
    NotConnectedError,
)
from airflow_provider_ha.host.supervisor import exit_report, in_place, main
from airflow_provider_ha.jobs.drivers.driver_home import DriverHome
from airflow_provider_ha.jobs.drivers.driver_spec import _note
from tests.support.clusters.dead_driver import DEATH, SPEC, failing


@pytest.mark.parametrize(
    ("error", "stopped"),
    [(ConfigurationError("the credentials are refused"), False), (NotConnectedError("no server answers"), True)],
    ids=["no retry can help", "asked to end"],
)
def test_an_exit_that_cannot_be_written_is_left_to_the_session(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: HaError, stopped: bool
) -> None:
    monkeypatch.setattr(exit_report, "end_session", failing(error))
    following = MagicMock()
    monkeypatch.setattr(in_place, "follow", following)
    stop = main._StopFlag()
    stop.raised = 15 if stopped else 0

    assert main._end(SPEC, DEATH, stop, asked=stopped) == 1

    assert "the exit of the submission could not be written" in caplog.text
    following.assert_not_called()


def test_the_times_of_a_start_are_those_of_its_files(tmp_path: Path) -> None:
    home = DriverHome(tmp_path)
    home.properties.touch()
    os.utime(home.properties, (100.0, 100.0))
    before = home.start_times()

    home.committed.touch()
    os.utime(home.committed, (109.25, 109.25))

    assert (before.bound_at, before.first_commit_seconds) == (None, None)
    assert home.start_times().first_commit_seconds == 9.25


def test_a_marker_has_the_time_of_its_first_event(tmp_path: Path) -> None:
    """A script may start queries for as long as it runs."""
    home = DriverHome(tmp_path)
    _note(home.started)
    os.utime(home.started, (100.0, 100.0))

    _note(home.started)

    assert home.started.stat().st_mtime == 100.0


def test_a_driver_that_never_wrote_has_no_last_lines(tmp_path: Path) -> None:
    spec: Any = SimpleNamespace(home=DriverHome(tmp_path))

    assert exit_report._last_lines(spec) == ""


def test_a_log_that_the_driver_made_a_link_of_keeps_no_exit_from_being_reported(tmp_path: Path) -> None:
    spec: Any = SimpleNamespace(home=DriverHome(tmp_path))
    spec.home.driver_log.symlink_to("/etc/hostname")

    assert exit_report._last_lines(spec) == ""


def test_a_clean_up_ends_with_the_process_as_soon_as_another_one_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)

    exit_report._give_up("the session was lost")

    assert codes == [0]
