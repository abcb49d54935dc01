"""Every way in which a driver makes a reason public hides its secrets: file, status, result, answer of an operation."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Create
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.driver.ending.exit_reason import FAILURE_FILE, ExitCode, read_failure, write_failure
from airflow_provider_ha.driver.figures import ReportedTriggers
from airflow_provider_ha.driver.members.run_writer import JobWriter
from airflow_provider_ha.jobs.graph_store import JobGraphStore
from airflow_provider_ha.jobs.job_graph import GraphPointer
from airflow_provider_ha.jobs.model import JobState, OperationKind, RunResult, Status
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.runs.journal import JobJournal
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.open_storage import open_store
from tests.support.clusters.jobs_helpers import BLOB, lead, submit


BACKENDS = ("fake",)
SAID, PUBLIC = "no connection to postgres://app:hunter2@db/prod", "no connection to postgres://app:***@db/prod"


@pytest.fixture
def writer(config: HaConfig, coordinator: Coordinator, paths: JobPaths) -> JobWriter:
    """What the leader of run 1 writes with."""
    submit(coordinator, paths)
    coordinator.commit(Create(paths.job_graph, GraphPointer(graph=BLOB, run=1).to_bytes()))
    store = open_store(config)
    nothing_started: Any = SimpleNamespace(started=[], resting=[], triggers=ReportedTriggers())
    return JobWriter(
        coordinator=coordinator,
        paths=paths,
        graphs=JobGraphStore(coordinator, store, paths),
        journal=JobJournal(store, JobKeys(paths.job_id)),
        leadership=lead(coordinator, paths, config),
        registry=nothing_started,
        run=1,
        clock=SystemClock(),
    )


def test_the_reason_on_disk_holds_no_password(tmp_path: Path) -> None:
    write_failure(tmp_path, ExitCode.FAILED, SAID)

    assert read_failure(tmp_path) == PUBLIC
    assert json.loads((tmp_path / FAILURE_FILE).read_text())["code"] == int(ExitCode.FAILED)


def test_a_secret_at_the_limit_of_a_reason_is_hidden_before_it_is_cut(tmp_path: Path) -> None:
    write_failure(tmp_path, ExitCode.FAILED, "x" * 1988 + " a://b:hunter2@c")

    assert "hun" not in (read_failure(tmp_path) or "")


def test_the_status_holds_no_password(coordinator: Coordinator, paths: JobPaths, writer: JobWriter) -> None:
    writer.set_state(JobState.RUNNING, f"no checkpoint: {SAID}")
    writer.publish_status(None)

    status = Status.from_bytes(coordinator.get(paths.status).data, source="the status")
    assert status.message == f"no checkpoint: {PUBLIC}"


def test_the_result_of_a_run_holds_no_password(coordinator: Coordinator, paths: JobPaths, writer: JobWriter) -> None:
    writer.end(JobState.FAILED, reason=SAID)

    result = RunResult.from_bytes(coordinator.get(paths.run_result(1)).data, source="the result")
    status = Status.from_bytes(coordinator.get(paths.status).data, source="the status")
    assert (result.reason, status.message) == (PUBLIC, PUBLIC)


def test_the_answer_of_an_operation_holds_no_password(
    config: HaConfig, coordinator: Coordinator, paths: JobPaths
) -> None:
    submit(coordinator, paths)
    asked = operations.request(
        coordinator,
        paths,
        OperationKind.SAVEPOINT,
        operation_id="op-1",
        arguments={},
        requested_by="test",
        clock=SystemClock(),
    )
    leader = lead(coordinator, paths, config)

    failed = operations.fail(leader, paths, operations.claim(leader, paths, asked), error=SAID, clock=SystemClock())

    assert failed.error == PUBLIC
    assert operations.read(coordinator, paths, "op-1") == failed
