"""What may count as proof: of time that has passed, and of a driver's death."""

from __future__ import annotations

import os
import time

import pytest

from airflow_provider_ha.clock import SystemClock, new_id
from airflow_provider_ha.jobs.drivers.driver_spec import boot_id, pid_namespace
from airflow_provider_ha.jobs.runs.submissions import SubmissionStarted
from tests.engine_helpers import changed, is_gone, started


def test_the_lease_clock_counts_suspended_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine was up for 500 s and asleep for 300 s of them."""
    clocks = {time.CLOCK_BOOTTIME: 500.0, time.CLOCK_MONOTONIC: 200.0}
    monkeypatch.setattr("airflow_provider_ha.clock.time.clock_gettime", clocks.__getitem__)

    assert SystemClock().lease_time() == 500.0


def started_on(boot: str) -> SubmissionStarted:
    here = {"boot": boot, "pid_namespace": pid_namespace(), "uid": os.geteuid(), "process_started": time.time()}
    return changed(started(), **here)


def test_what_was_started_on_another_host_is_not_known_to_be_gone() -> None:
    assert not is_gone(new_id(), started_on("of another host"))


def test_what_was_started_here_and_has_no_process_is_gone() -> None:
    assert is_gone(new_id(), started_on(boot_id()))
