"""What the suite runs on: a cluster on the fake ensemble, and for some rules a real ZooKeeper as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.jobs.recovery import transactions
from tests.conformance.leadership.stage import Stage
from tests.contract.conftest import cluster, config, coordinator, ensemble, pytest_generate_tests


__all__ = ["cluster", "config", "coordinator", "ensemble", "pytest_generate_tests"]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A contender that finds a job's lock taken says so at once: its wait is in real time."""
    monkeypatch.setattr(transactions, "LOCK_SECONDS", 0.0)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A cluster without jobs, in virtual time."""
    return Stage(tmp_path)
