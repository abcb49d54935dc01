"""Who has a session's password can end the session: it lies in one file of its owner's, and nowhere else."""

from __future__ import annotations

import base64
import json
import logging
import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator, SessionCredentials
from airflow_provider_ha.coordination.raw_socket import close_session
from airflow_provider_ha.jobs.drivers.driver_spec import read_session, write_session
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters import submit_helpers as helpers


@pytest.fixture
def job(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[JobContext]:
    monkeypatch.setenv("SPARK_HOME", str(helpers.stand_in_spark(tmp_path / "spark")))
    context = helpers.context(config, coordinator)
    helpers.submit(context, helpers.script(tmp_path), mode="wait")
    yield context
    helpers.kill_all(context)


def spellings(credentials: SessionCredentials) -> list[bytes]:
    """Every way in which the password could be written down."""
    password = credentials.password
    return [password, password.hex().encode(), base64.b64encode(password), repr(password).encode()]


def found(credentials: SessionCredentials, places: dict[str, bytes]) -> list[str]:
    return [name for name, content in places.items() if any(text in content for text in spellings(credentials))]


def files(job: JobContext) -> dict[str, bytes]:
    """Everything that the job has on storage and in its working directories."""
    root = job.config.work_path
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def what_others_see(pids: list[int]) -> dict[str, bytes]:
    """What every user of the host can read about a process, and what its children inherit."""
    seen = {}
    for process in (psutil.Process(pid) for pid in pids):
        seen[f"command line of {process.pid}"] = "\0".join(process.cmdline()).encode()
        seen[f"environment of {process.pid}"] = json.dumps(process.environ()).encode()
    return seen


def nodes(coordinator: Coordinator, path: str) -> dict[str, bytes]:
    below = [nodes(coordinator, f"{path}/{name}") for name in coordinator.children(path)]
    return {path: coordinator.get(path).data} | {name: data for part in below for name, data in part.items()}


def test_the_password_lies_in_one_private_file_as_long_as_the_driver_lives_and_then_nowhere(
    job: JobContext, coordinator: Coordinator
) -> None:
    python = wait_until(lambda: helpers.pid_in(job, "driver.pid"), timeout=20, what="the driver")
    file = helpers.directory(job) / "session"
    credentials = read_session(file)
    assert credentials is not None
    pids = [process.pid for process in helpers.processes_of(job.runs.get(1).submissions[0].submission)]

    assert len(pids) >= 3
    assert found(credentials, what_others_see(pids)) == []
    assert found(credentials, files(job)) == [str(file.relative_to(job.config.work_path))]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700

    os.kill(python, signal.SIGKILL)
    wait_until(lambda: job.runs.get(1).submissions[0].exit, timeout=10, what="the exit")
    wait_until(lambda: not file.exists(), timeout=5, what="the removal of the session's file")  # right after the exit

    assert found(credentials, files(job) | nodes(coordinator, job.paths.base)) == []
    assert f"session 0x{credentials.session_id:x} of the dead driver: ended" in _log(job)


def _log(job: JobContext) -> str:
    return (helpers.directory(job) / "supervisor.log").read_text()


def test_the_file_is_private_from_its_first_byte_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_session(tmp_path / "session", SessionCredentials(1, b"secret"))
    finally:
        os.umask(before)

    assert [stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()] == [0o600]


def test_the_password_is_in_no_log_at_the_lowest_level(config: HaConfig, caplog: pytest.LogCaptureFixture) -> None:
    """Kazoo writes passwords of sessions down at DEBUG, and we speak its protocol by hand."""
    caplog.set_level(logging.DEBUG)
    session = KazooCoordinator.connect(config)
    credentials = session.session
    assert credentials is not None
    session.drop_connection()  # connecting again sends the password
    session.find("/")

    assert close_session(config, credentials)
    session.close()

    assert "0x" in caplog.text
    assert found(credentials, {"log": caplog.text.encode(), "repr": repr(credentials).encode()}) == []
