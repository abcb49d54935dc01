"""A cancel under the real supervisor: CANCELED is written once everything is dead, and is tried until it holds.

"JVM", "Python" and "worker" are the stand-ins of ``tests.support.clusters.submit_helpers``; the death of "Python" is
what a driver makes of a cancel.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Create, SessionState
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.coordination.raw_socket import close_session
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.jobs.drivers.driver_spec import read_session
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.model import Generation, JobState, Operation, OperationKind, OperationState, RunResult
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.recovery.lost_runs import recover
from airflow_provider_ha.testing.waiting import wait_until
from tests.engine_helpers import pid_of
from tests.support.clusters import submit_helpers as helpers


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    """A ZooKeeper that a test may kill."""
    with EmbeddedZooKeeper(tmp_path / "zookeeper", tick_ms=200) as running:
        yield running


def started(job: JobContext, tmp_path: Path) -> dict[str, int]:
    """Start the stand-ins as a driver that leads; returns their process ids."""
    helpers.submit(job, helpers.script(tmp_path), mode="lead")
    wait_until(lambda: job.coordinator.find(job.paths.leader), timeout=20, what="the leader")
    names = {"jvm": "jvm.pid", "python": "driver.pid", "worker": "worker.pid"}
    return {role: wait_until(partial(helpers.pid_in, job, name), timeout=20, what=name) for role, name in names.items()}


def ask(job: JobContext) -> Operation:
    return operations.request(
        job.coordinator,
        job.paths,
        OperationKind.CANCEL,
        operation_id="cancel",
        arguments={},
        requested_by="test",
        clock=SystemClock(),
    )


def result(job: JobContext) -> RunResult | None:
    return job.runs.result(1)


def cleanup(job: JobContext) -> str:
    found = result(job)
    return found.cleanup if found else ""


def answer(job: JobContext) -> Operation:
    found = operations.read(job.coordinator, job.paths, "cancel")
    assert found is not None
    return found


def log_of(job: JobContext) -> str:
    return (helpers.directory(job) / "supervisor.log").read_text()


def test_canceled_is_written_once_everything_is_dead_and_then_the_run_is_cleaned_up(
    job: JobContext, tmp_path: Path
) -> None:
    tree = started(job, tmp_path)
    current, old = (
        job.keys.working_directory(2, "new"),
        job.config.work_path / job.keys.working_directory(1, "old.dead"),
    )
    old.mkdir(parents=True)
    generation = Generation(run=1, epoch=2, directory=current)
    job.coordinator.commit(Create(job.paths.generation, generation.to_bytes()))
    ask(job)

    os.kill(tree["python"], signal.SIGKILL)
    found = wait_until(lambda: result(job), timeout=20, what="the result", interval=0.01)

    assert not [pid for pid in tree.values() if helpers.alive(pid)]
    assert found.state is JobState.CANCELED
    assert answer(job).state is OperationState.COMPLETED
    assert job.coordinator.find(job.paths.job_graph) is None
    wait_until(lambda: job.runs.get(1).submissions[0].exit, timeout=20, what="the exit")
    wait_until(lambda: cleanup(job) == "CLEAN", timeout=20, what="the clean-up")
    assert not old.exists()


def test_driver_that_dies_without_a_cancel_gets_no_result(job: JobContext, tmp_path: Path) -> None:
    tree = started(job, tmp_path)

    os.kill(tree["python"], signal.SIGKILL)
    wait_until(lambda: job.runs.get(1).submissions[0].exit, timeout=20, what="the exit")

    assert result(job) is None


def test_operation_that_nobody_can_read_does_not_hinder_a_cancel(job: JobContext, tmp_path: Path) -> None:
    tree = started(job, tmp_path)
    job.coordinator.commit(Create(job.paths.operation("broken"), b"garbled"))
    ask(job)

    os.kill(tree["python"], signal.SIGKILL)

    found = wait_until(lambda: result(job), timeout=20, what="the result")
    assert found.state is JobState.CANCELED


def test_cancel_is_tried_again_until_the_journal_can_be_written(job: JobContext, tmp_path: Path) -> None:
    tree = started(job, tmp_path)
    ask(job)
    results = job.config.work_path / job.keys.journal("result", "any")
    results.parent.write_text("no directory: nothing can be written below it")

    os.kill(tree["python"], signal.SIGKILL)
    wait_until(lambda: "trying again" in log_of(job), timeout=20, what="a failed try")
    assert result(job) is None
    results.parent.unlink()

    found = wait_until(lambda: result(job), timeout=20, what="the result")
    assert found.state is JobState.CANCELED


@pytest.mark.long
def test_cancel_is_tried_again_until_zookeeper_answers(
    config: HaConfig, server: EmbeddedZooKeeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(helpers.stand_in_spark(tmp_path / "spark")))
    here = config.model_copy(update={"zookeeper": server.hosts})
    session = KazooCoordinator.connect(here)
    job = helpers.context(here, session)
    try:
        tree = started(job, tmp_path)
        ask(job)

        server.kill()
        os.kill(tree["python"], signal.SIGKILL)
        wait_until(lambda: not any(map(helpers.alive, tree.values())), timeout=20, what="the death of all")
        wait_until(lambda: "trying again" in log_of(job), timeout=60, what="a failed try")
        server.start()
        wait_until(lambda: session.state is SessionState.CONNECTED, timeout=20, what="a session")

        found = wait_until(lambda: result(job), timeout=60, what="the result")
        assert found.state is JobState.CANCELED
    finally:
        helpers.kill_all(job)
        session.close()


def test_recovery_ends_a_lost_run_whose_cancel_is_open_instead_of_submitting_it_again(
    job: JobContext, tmp_path: Path
) -> None:
    tree = started(job, tmp_path)
    supervisor = job.runs.get(1).submissions[0].started
    assert supervisor is not None
    ask(job)
    for pid in (pid_of(supervisor), tree["python"], tree["worker"]):
        os.kill(pid, signal.SIGKILL)
    session = read_session(helpers.directory(job) / "session")
    assert session is not None
    close_session(job.config, session)
    wait_until(lambda: job.snapshot().state is JobState.LOST, timeout=20, what="the loss")

    with pytest.raises(JobStateError, match="CANCELED"):
        recover(job, by="test")

    assert len(job.runs.get(1).submissions) == 1
    assert answer(job).state is OperationState.COMPLETED


def test_run_that_a_newer_one_follows_is_left_to_its_leader(job: JobContext, tmp_path: Path) -> None:
    tree = started(job, tmp_path)
    ask(job)
    generation = Generation(run=1, epoch=2, directory=job.keys.working_directory(2, "new"))
    newer = job.runs.get(1).run.model_copy(update={"number": 2})
    job.coordinator.commit(Create(job.paths.generation, generation.to_bytes()), job.runs.create_op(newer))

    os.kill(tree["python"], signal.SIGKILL)
    wait_until(lambda: job.runs.get(1).submissions[0].exit, timeout=20, what="the exit")
    wait_until(lambda: not helpers.alive(supervisor(job)), timeout=20, what="the end of the supervisor")

    assert cleanup(job) == "DIRTY"


def supervisor(job: JobContext) -> int:
    found = job.runs.get(1).submissions[0].started
    assert found is not None
    return pid_of(found)
