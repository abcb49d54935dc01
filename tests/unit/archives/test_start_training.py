"""Start of a training: beside a running job, and not while the host is busy."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.host.archives.archive_store import ArchiveStore
from airflow_provider_ha.host.archives.driver_launch import DriverLaunch, start_training
from airflow_provider_ha.host.archives.jvm_command import ArchivedClassPath
from airflow_provider_ha.host.archives.training import Training
from airflow_provider_ha.host.supervisor.main import watch
from airflow_provider_ha.jobs.drivers.driver_home import DriverHome
from airflow_provider_ha.testing.waiting import wait_until
from tests.fake.jobs import CONFIG


KEY = "0123456789abcdef"
pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")


@pytest.fixture
def store(tmp_path: Path) -> ArchiveStore:
    return ArchiveStore(tmp_path / "archives")


@pytest.fixture
def training(tmp_path: Path) -> Training:
    """A training that fails, because its Spark does not exist."""
    return Training(KEY, tmp_path / "spark", tmp_path / "java", ArchivedClassPath((), (), None), "4.2.0")


def set_load(monkeypatch: pytest.MonkeyPatch, free: float) -> None:
    """Let the host have *free* cores without work."""
    load = (os.cpu_count() or 1) - free
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))


def failed(store: ArchiveStore) -> str:
    """Return the reason of the training that failed."""
    return wait_until(lambda: store.failure(KEY), timeout=60, what="the end of the training").reason


def test_a_training_waits_while_the_host_is_busy(
    store: ArchiveStore, training: Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_load(monkeypatch, free=0.0)

    assert not start_training(training, store, tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_a_training_starts_once_a_core_is_free(
    store: ArchiveStore, training: Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_load(monkeypatch, free=0.1)

    assert start_training(training, store, tmp_path)

    assert "is not a script of Spark" in failed(store)


def test_a_training_that_cannot_start_is_not_tried_again(
    store: ArchiveStore, training: Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_load(monkeypatch, free=0.1)

    assert start_training(training, store, tmp_path / "missing")


def test_a_supervisor_starts_the_training_once_its_job_is_running(
    training: Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = CONFIG.model_copy(update={"storage_root": tmp_path.as_uri(), "home_root": None})
    spec: Any = SimpleNamespace(config=config, home=DriverHome(tmp_path))
    tree: Any = SimpleNamespace(code=None)
    stop: Any = SimpleNamespace(raised=15)
    launch = DriverLaunch((), {}, training=training)
    set_load(monkeypatch, free=0.1)

    watch(tree, spec, stop, launch)
    assert not ArchiveStore.of(config).directory.exists()
    spec.home.running.touch()
    watch(tree, spec, stop, launch)

    assert failed(ArchiveStore.of(config))
