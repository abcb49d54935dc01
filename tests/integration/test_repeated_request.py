"""``--request-id`` and Ctrl-C of the commands that ask a job for something. Real ZooKeeper, no driver."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.cli import console, job_requests
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.errors import NotConnectedError
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.cluster_helpers import Cluster, lead_newest
from tests.support.ctrl_c import spark_ha_with_ctrl_c


YES, NO, UNKNOWN, INTERRUPTED, WRONG_CALL = 0, 1, 2, 130, 64
ASKING = [
    ("job", "stop", "flights", "--mode", "terminate", "--savepoint"),
    ("job", "cancel", "flights", "--savepoint"),
    ("savepoint", "trigger", "flights", "--label", "ticket", "--schedule", "nightly", "--retain-days", "7"),
    ("checkpoint", "trigger", "flights"),
]
asking = pytest.mark.parametrize("words", ASKING, ids=lambda words: " ".join(words[:2]))


@pytest.fixture
def paths(config: HaConfig, coordinator: Coordinator, tmp_path: Path) -> JobPaths:
    """A job that has a run."""
    return Cluster(config, coordinator, tmp_path).submitted("flights").paths


@pytest.fixture
def driver(config: HaConfig, coordinator: Coordinator, paths: JobPaths, tmp_path: Path) -> Iterator[Leadership]:
    """Leads it, and answers nothing by itself."""
    (tmp_path / "driver").mkdir()
    job = Cluster(config, coordinator, tmp_path / "driver").context("flights")
    assert job.paths == paths
    with lead_newest(config, coordinator, job) as leadership:
        yield leadership


@asking
@pytest.mark.usefixtures("driver")
def test_a_repeated_request_is_one_operation(
    spark_ha: Any, coordinator: Coordinator, paths: JobPaths, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    repeated = (*words, "--wait", "0", "--json", "--request-id", "tonight")

    first = spark_ha(*repeated)
    monkeypatch.setattr("getpass.getuser", lambda: "bob")
    second = spark_ha(*repeated)

    assert (first[0], second[0]) == (YES, YES)
    assert json.loads(first[1]) == json.loads(second[1])
    assert coordinator.children(paths.operations) == ["tonight"]
    assert "operation tonight was requested of run 1 before" in second[2]
    assert first[2] == ""


def test_a_repeated_request_has_the_outcome_of_the_first_one(
    spark_ha: Any, coordinator: Coordinator, paths: JobPaths, driver: Leadership
) -> None:
    words = ("checkpoint", "trigger", "flights", "--request-id", "tonight")
    spark_ha(*words, "--wait", "0")
    [asked] = operations.list_operations(coordinator, paths)
    operations.fail(driver, paths, asked, error="the disk is full", clock=SystemClock())

    for wait in ("0", "5"):
        code, out, _ = spark_ha(*words, "--wait", wait)

        assert code == NO
        assert "the disk is full" in out


@pytest.mark.usefixtures("driver")
def test_one_id_asks_for_one_thing(spark_ha: Any, coordinator: Coordinator, paths: JobPaths) -> None:
    spark_ha("job", "stop", "flights", "--wait", "0", "--request-id", "tonight")

    code, _, err = spark_ha("job", "stop", "flights", "--savepoint", "--request-id", "tonight")

    assert code == NO
    assert "Use another operation id" in err
    assert coordinator.children(paths.operations) == ["tonight"]


@asking
def test_an_id_that_cannot_be_one_is_refused_before_anything_is_asked(
    spark_ha: Any, coordinator: Coordinator, paths: JobPaths, words: tuple[str, ...]
) -> None:
    code, _, err = spark_ha(*words, "--request-id", "a#b")

    assert code == WRONG_CALL
    assert "request id 'a#b' is not a valid name" in err
    assert coordinator.children(paths.operations) == []


@asking
@pytest.mark.usefixtures("driver")
def test_ctrl_c_reports_that_the_operation_continues_and_names_the_command_for_its_outcome(
    spark_ha: Any, coordinator: Coordinator, paths: JobPaths, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr(job_requests, "operation_phase", MagicMock(side_effect=KeyboardInterrupt))

    code, out, err = spark_ha(*words)

    [operation_id] = coordinator.children(paths.operations)
    assert (code, out) == (INTERRUPTED, "")
    assert f"interrupted: operation {operation_id} (" in err
    assert "of job flights continues" in err
    assert f"The same command with --request-id {operation_id} shows its outcome" in err
    assert "spark-ha job show flights" in err


def test_ctrl_c_before_the_answer_to_the_request_names_its_id(
    spark_ha: Any, paths: JobPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    del paths
    monkeypatch.setattr(JobClient, "request_stop", MagicMock(side_effect=KeyboardInterrupt))

    code, _, err = spark_ha("job", "stop", "flights", "--request-id", "tonight")

    assert code == INTERRUPTED
    assert "the request may be stored" in err
    assert "The same command with --request-id tonight does not repeat it" in err


def test_ctrl_c_after_the_answer_says_how_it_ended(
    spark_ha: Any, paths: JobPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    del paths
    monkeypatch.setattr(console, "print_fields", MagicMock(side_effect=KeyboardInterrupt))

    code, _, err = spark_ha("job", "cancel", "flights", "--request-id", "tonight")

    assert code == INTERRUPTED
    assert "interrupted: operation tonight of job flights is COMPLETED" in err


@pytest.mark.usefixtures("driver")
def test_a_connection_that_is_lost_during_the_wait_leaves_the_id(
    spark_ha: Any, coordinator: Coordinator, paths: JobPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JobClient, "operation", MagicMock(side_effect=NotConnectedError("no server answers")))

    code, _, err = spark_ha("job", "stop", "flights")

    [operation_id] = coordinator.children(paths.operations)
    assert code == UNKNOWN
    assert f"The same command with --request-id {operation_id} does not repeat the request" in err


@pytest.mark.usefixtures("environment", "driver")
def test_ctrl_c_at_a_terminal_ends_the_wait_without_a_stack_trace(
    coordinator: Coordinator, paths: JobPaths, tmp_path: Path
) -> None:
    with (tmp_path / "said").open("wb") as said:
        command = subprocess.Popen(
            spark_ha_with_ctrl_c("job", "stop", "flights", "--request-id", "tonight"),
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
    wait_until(lambda: b"request sent to the driver" in (tmp_path / "said").read_bytes(), timeout=60, what="the wait")

    os.killpg(command.pid, signal.SIGINT)

    assert command.wait(60) == INTERRUPTED
    text = (tmp_path / "said").read_text()
    assert "interrupted: operation tonight (stop) of job flights continues" in text
    assert "Traceback" not in text
    assert coordinator.children(paths.operations) == ["tonight"]
