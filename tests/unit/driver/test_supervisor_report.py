"""Supervisor of a submission: its lock and its report."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.driver.ending.exit_reason import ExitCode, write_failure
from airflow_provider_ha.errors import ConfigurationError, NotConnectedError, StorageUnavailableError
from airflow_provider_ha.host.process_tree import Death
from airflow_provider_ha.host.supervisor import exit_report
from airflow_provider_ha.host.supervisor.arrival import lock_directory
from airflow_provider_ha.jobs.drivers.driver_home import DriverHome, Ticket
from airflow_provider_ha.jobs.drivers.driver_spec import DriverSpec
from airflow_provider_ha.jobs.job_graph import Blob
from airflow_provider_ha.jobs.runs.submissions import Failure, FailureKind, SubmissionExit
from tests.support.clusters.full_disk import SmallDisk, small_disk


def spec_in(directory: Path) -> DriverSpec:
    return DriverSpec(
        config=HaConfig.build(zookeeper="127.0.0.1:1", storage_root=f"file://{directory}/storage", cluster_id="c"),
        ticket=Ticket(job_id="j", run=1, attempt=1, submission_id="s", graph=Blob(sha256="0" * 64, size=1)),
        directory=directory,
    )


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", inodes=20) as mounted:
        yield mounted


def test_a_disk_without_room_for_the_lock_is_an_outage(disk: SmallDisk) -> None:
    disk.fill_inodes()

    with pytest.raises(StorageUnavailableError, match=r"supervisor\.lock could not be written"):
        lock_directory(spec_in(disk.path))


def test_a_full_disk_does_not_hide_the_supervisor_that_was_first(disk: SmallDisk) -> None:
    first = lock_directory(spec_in(disk.path))
    disk.fill_inodes()

    with pytest.raises(ConfigurationError, match="another supervisor works"):
        lock_directory(spec_in(disk.path))
    os.close(first)


DEATH = Death(-9, (1, 2), "killed")


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done, in order; the first end of the session gets no answer."""
    calls: list[str] = []

    def end_session(spec: object) -> None:
        calls.append("session")
        if calls.count("session") == 1:
            raise NotConnectedError("no server answers")

    def write_exit(spec: object, death: Death, restart: object) -> exit_report.ExitReport:
        calls.append("exit")
        return exit_report.ExitReport()

    monkeypatch.setattr(exit_report, "end_session", end_session)
    monkeypatch.setattr(exit_report, "carry_out_cancel", lambda spec, **_: calls.append("cancel"))
    monkeypatch.setattr(exit_report, "_write_exit", write_exit)
    monkeypatch.setattr("airflow_provider_ha.host.supervisor.exit_report.time.sleep", lambda seconds: None)
    return calls


@pytest.mark.parametrize(
    ("code", "kind"), [(ExitCode.LEADERSHIP_LOST, FailureKind.OUTAGE), (ExitCode.FAILED, FailureKind.APPLICATION)]
)
def test_driver_that_lost_its_leadership_has_met_an_outage(code: ExitCode, kind: FailureKind, tmp_path: Path) -> None:
    told = Failure(kind=FailureKind.APPLICATION, error_class="ValueError")
    write_failure(tmp_path, code, "the lease ran out\nafter 20 s", told)

    spec = SimpleNamespace(home=DriverHome(tmp_path))
    failure = exit_report._failure(spec, "the lease ran out\nafter 20 s", DEATH)  # type: ignore[arg-type]

    assert failure is not None
    assert failure.kind is kind


def test_the_dead_session_is_ended_before_the_exit_is_written(done: list[str], tmp_path: Path) -> None:
    """Who reads the exit takes the job, and must not find it led by the dead. With real processes that shows seldom."""
    spec = SimpleNamespace(home=DriverHome(tmp_path))

    assert exit_report.report(spec, DEATH, restart=None, stopped=lambda: False)  # type: ignore[arg-type]

    assert done == ["session", "session", "cancel", "exit"]


@pytest.mark.parametrize(("code", "decision"), [(ExitCode.DECISION_NEEDED, "Decide it."), (ExitCode.FAILED, "")])
def test_what_has_to_be_decided_is_part_of_the_exit(
    code: ExitCode, decision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[SubmissionExit] = []
    job = SimpleNamespace(coordinator=None, paths=SimpleNamespace(submission_exit=lambda *_: "exit"))
    monkeypatch.setattr(exit_report, "connected", lambda _: nullcontext(job))
    monkeypatch.setattr(exit_report, "create_once", lambda _, __, record: written.append(record))
    write_failure(tmp_path, code, "Decide it.")
    spec = SimpleNamespace(home=DriverHome(tmp_path), run=1, attempt=1)

    exit_report._write_exit(spec, DEATH, None)  # type: ignore[arg-type]

    assert [record.decision for record in written] == [decision]
