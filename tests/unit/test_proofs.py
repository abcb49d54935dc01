"""What may count as proof: of time that has passed, and of a driver's death."""

from __future__ import annotations

import os
import socket
import time

import pytest

from airflow_provider_ha.clock import SystemClock, new_id
from airflow_provider_ha.jobs.model import SubmissionStarted
from airflow_provider_ha.submit.local import LocalEngine


def test_the_lease_clock_counts_suspended_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine was up for 500 s and asleep for 300 s of them."""
    clocks = {time.CLOCK_BOOTTIME: 500.0, time.CLOCK_MONOTONIC: 200.0}
    monkeypatch.setattr("airflow_provider_ha.clock.time.clock_gettime", clocks.__getitem__)

    assert SystemClock().lease_time() == 500.0


def started_on(host: str) -> SubmissionStarted:
    return SubmissionStarted(host=host, pid=1, process_started=time.time(), log="driver.log", uid=os.geteuid())


def test_what_was_started_on_another_host_is_not_known_to_be_gone() -> None:
    assert not LocalEngine().is_gone(new_id(), started_on("another.host"))


def test_what_was_started_here_and_has_no_process_is_gone() -> None:
    assert LocalEngine().is_gone(new_id(), started_on(socket.gethostname()))
