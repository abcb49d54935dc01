"""What a supervisor does when something fails before its driver runs, or while it runs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from airflow_provider_ha.errors import (
    ConfigurationError,
    HaError,
    StorageUnavailableError,
)
from airflow_provider_ha.host.archives.archive_store import ArchiveStore
from airflow_provider_ha.host.archives.driver_launch import DriverLaunch
from airflow_provider_ha.host.process_tree import Death
from airflow_provider_ha.host.supervisor import main
from airflow_provider_ha.host.supervisor.arrival import lock_directory
from airflow_provider_ha.jobs.drivers.driver_home import DriverHome
from airflow_provider_ha.jobs.drivers.spark_release import find_spark_home
from airflow_provider_ha.jobs.runs.submissions import NOT_LAUNCHED
from tests.engine_helpers import handle
from tests.fake.jobs import CONFIG
from tests.support.clusters.dead_driver import SPEC, failing


@pytest.mark.parametrize(
    ("error", "outage"),
    [(StorageUnavailableError("the disk is full"), True), (ConfigurationError("no Spark"), False)],
)
def test_a_driver_that_cannot_be_started_has_an_end_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, error: HaError, outage: bool
) -> None:
    monkeypatch.setattr(main, "start", failing(error))

    death = main.run(SPEC, main._StopFlag())

    assert (death.code, death.pids, death.outage) == (NOT_LAUNCHED, (), outage)
    assert death.reason == f"the driver could not be started: {error}"


def test_a_directory_that_has_no_room_for_the_lock_is_an_end_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[Death] = []
    monkeypatch.setattr(main, "arrived", lambda _: SPEC)
    monkeypatch.setattr(main, "lock_directory", failing(StorageUnavailableError("the disk is full")))

    def end(spec: object, death: Death, stop: object, *, asked: bool) -> int:
        ended.append(death)
        return 0

    monkeypatch.setattr(main, "_end", end)

    assert main.main([]) == 0

    assert [(death.code, death.outage) for death in ended] == [(NOT_LAUNCHED, True)]


def test_a_supervisor_that_fails_kills_what_it_supervises(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = MagicMock(code=-9, kill=MagicMock(return_value=(7, 8)))
    monkeypatch.setattr(main, "start", lambda _: (tree, DriverLaunch((), {}), 0))
    monkeypatch.setattr(main, "watch", failing(MemoryError("no memory")))

    death = main.run(SPEC, main._StopFlag())

    assert (death.code, death.pids) == (-9, (7, 8))
    assert death.reason == "the supervisor failed: MemoryError('no memory')"
    assert tree.kill.called


def test_an_archive_that_cannot_be_set_aside_does_not_lose_the_death_of_its_jvm(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An attempt then, and no outage: the next one may map the same archive."""
    tree = MagicMock(code=-6, pid=1, kill=MagicMock(return_value=(7,)))
    monkeypatch.setattr(main, "start", lambda _: (tree, DriverLaunch((), {}, archive="key"), 0))
    monkeypatch.setattr(main, "watch", lambda *_: "the JVM ended")
    monkeypatch.setattr(ArchiveStore, "set_aside", failing(OSError("no space left on device")))
    spec: Any = SimpleNamespace(home=DriverHome(tmp_path), config=CONFIG)

    death = main.run(spec, main._StopFlag())

    assert (death.code, death.pids, death.outage) == (-6, (7,), False)


def test_a_host_without_room_for_another_thread_kills_the_driver_that_it_has_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree = MagicMock(code=-9, kill=MagicMock(return_value=(7,)))
    monkeypatch.setattr(main, "start", lambda _: (tree, DriverLaunch((), {}), 0))
    monkeypatch.setattr("threading.Thread.start", failing(RuntimeError("can't start new thread")))

    death = main.run(SPEC, main._StopFlag())

    assert (death.code, death.pids) == (-9, (7,))
    assert "can't start new thread" in death.reason


def test_a_driver_whose_log_cannot_be_rotated_is_not_called_never_started_while_it_lives(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The exit is the proof of death: the next attempt starts at once."""
    tree = MagicMock()
    for name in ("require_room", "open_store", "fetch_graph", "spark_submit", "fetch_application", "driver_launch"):
        monkeypatch.setattr(main, name, MagicMock())
    for name in ("remember", "secret_values", "named_spark_home", "engine_options", "write_private"):
        monkeypatch.setattr(main, name, MagicMock())
    monkeypatch.setattr(main, "ProcessTree", lambda *_, **__: tree)
    monkeypatch.setattr(main, "rotate_log", failing(RuntimeError("can't start new thread")))
    spec: Any = SimpleNamespace(
        home=DriverHome(tmp_path), config=CONFIG, ticket=MagicMock(), job_id="flights", run=1, handle=handle()
    )

    death = main.run(spec, main._StopFlag())

    assert "can't start new thread" in death.reason
    assert tree.kill.called


def test_a_lock_that_the_file_system_does_not_have_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    spec: Any = SimpleNamespace(home=DriverHome(tmp_path / "file"))

    with pytest.raises(ConfigurationError, match=r"cannot be locked \(Not a directory\).*file system with locks"):
        lock_directory(spec)


def test_a_spark_home_without_spark_submit_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no bin/spark-submit in .*Correct SPARK_HOME"):
        find_spark_home(tmp_path)
