"""A run whose driver is dead, as its supervisor sees it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from airflow_provider_ha.host.supervisor import exit_report, in_place
from airflow_provider_ha.jobs.job_records import JobRecords
from airflow_provider_ha.jobs.recovery import transactions as concluding
from tests.fake.jobs import World
from tests.fake.orders import LOST


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exit_report, "LOCK_SECONDS", 0.0)
    monkeypatch.setattr(concluding, "LOCK_SECONDS", 0.0)
    monkeypatch.setattr("time.sleep", lambda seconds: None)


@pytest.fixture
def world() -> World:
    """Run 1 was led in epoch 1, and its driver is dead."""
    return LOST.world()


@pytest.fixture
def job(world: World, monkeypatch: pytest.MonkeyPatch) -> JobRecords:
    """The job as the supervisor sees it."""
    records = world.job(world.session("supervisor"))

    @contextmanager
    def connected(_: object) -> Iterator[JobRecords]:
        yield records

    for module in (exit_report, in_place, in_place):
        monkeypatch.setattr(module, "connected", connected)
    return records
