"""Cancels of a real driver, with and without a savepoint."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.jobs.model import JobState, OperationState
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.submit_helpers import alive
from tests.support.spark.driver_helpers import APPS, PATIENCE
from tests.support.spark.supervised_job import SupervisedJob, terminate_and_compare


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]
Gated = Callable[..., SupervisedJob]
OLD_FILES = 60_000  # to remove them takes a second or more


def started(gated: Gated, tmp_path: Path) -> tuple[SupervisedJob, Path]:
    """Start a job that has a batch every few hundred milliseconds, and wait for its first checkpoint."""
    job, notes = gated("rows"), tmp_path / "notes"
    job.stream.feed(600)
    job.submit_script(APPS / "timed.py", [str(job.stream.source), str(notes)])
    job.await_committed(1, 3)
    job.await_alive(lambda: job.job.snapshot().latest_checkpoint is not None, "a checkpoint")
    return job, notes


def calls(notes: Path) -> list[float]:
    """When the function of ``foreachBatch`` was called."""
    return [float(line.split()[1]) for line in notes.read_text().splitlines()]


def commits(job: SupervisedJob) -> list[float]:
    """When the batches of the first epoch were committed, by the times of the files."""
    directory = next(path for path in job.live.glob("e1-*") if path.suffix != ".removed") / "rows" / "commits"
    return [path.stat().st_mtime for path in directory.iterdir() if path.name.isdigit()]


def test_nothing_is_committed_or_called_after_canceled_however_slow_the_clean_up_is(
    gated: Gated, tmp_path: Path
) -> None:
    job, notes = started(gated, tmp_path)
    old = job.live / "e0-old.dead" / "rows"
    old.mkdir(parents=True)
    for number in range(OLD_FILES):
        (old / str(number)).touch()
    driver = job.driver()

    cancel = job.job.request_cancel(operation_id="cancel", requested_by="test").operation_id
    found = wait_until(lambda: job.run.result, timeout=PATIENCE, what="CANCELED", interval=0.005)

    assert not any(alive(process.pid) for process in driver)
    result = job.await_result()
    assert (found.state, result.state) == (JobState.CANCELED, JobState.CANCELED)
    assert max(commits(job)) < result.at.timestamp()
    assert max(calls(notes)) < result.at.timestamp()
    answer = job.operation(cancel)
    assert answer.state is OperationState.COMPLETED
    newest = job.job.snapshot().latest_checkpoint
    assert newest is not None
    assert (answer.result["checkpoint"], result.checkpoint) == (newest, newest)
    assert job.job.snapshot().graph is None
    wait_until(lambda: cleanup(job) == "CLEAN", timeout=PATIENCE, what="the clean-up after the end")
    assert not old.exists()


@pytest.mark.hours
def test_cancel_while_the_storage_does_not_answer_holds_once_it_does(gated: Gated, tmp_path: Path) -> None:
    job, notes = started(gated, tmp_path)
    results = job.client.config.work_path / "jobs" / job.job_id / "journal" / "result"
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text("no directory: nothing can be written below it")
    driver = job.driver()
    newest = job.run.newest
    assert newest is not None
    assert newest.started is not None
    supervisor_log = Path(newest.started.handle.log_path).with_name("supervisor.log")

    cancel = job.job.request_cancel(operation_id="cancel", requested_by="test").operation_id
    wait_until(lambda: not any(alive(process.pid) for process in driver), timeout=PATIENCE, what="the driver's end")
    wait_until(lambda: supervisor_log.read_text().count("trying again") >= 3, timeout=PATIENCE, what="three tries")
    assert job.run.result is None
    assert job.operation(cancel).state is OperationState.RUNNING
    results.unlink()

    result = job.await_result()
    assert result.state is JobState.CANCELED
    assert job.operation(cancel).state is OperationState.COMPLETED
    assert max(calls(notes)) < result.at.timestamp()


def cleanup(job: SupervisedJob) -> str:
    """Whether what the run has left is removed."""
    run = job.job.snapshot().run
    return run.result.cleanup if run and run.result else ""


FAST_POLL = 0.01


@pytest.mark.hours
def test_a_driver_killed_before_its_savepoint_leaves_both_to_the_next_one_and_the_savepoint_is_restored(
    gated: Callable[..., SupervisedJob],
) -> None:
    job = gated("windows", "rows")
    job.stream.feed(2)
    job.submit()
    job.await_read(1)
    job.kill()
    job.job.request_cancel(operation_id="asked", requested_by="test", savepoint=True)
    waiting = job.operation("asked").state

    job.recover()
    ended = job.await_result()

    answer = job.operation("asked")
    assert (waiting, ended.state) == (OperationState.REQUESTED, JobState.CANCELED)
    assert answer.state is OperationState.COMPLETED, answer
    savepoint = str(answer.result["savepoint_id"])
    assert [pointer.savepoint_id for pointer in job.job.savepoints.list()] == [savepoint]
    assert job.job.savepoints.verify(savepoint) == []
    job.job.restore(RestoreRequest(job_id=job.job_id, request_id=new_id(), start_from=f"savepoint-{savepoint}"))
    job.stream.feed(1)
    job.await_alive(lambda: job.job.snapshot().leader is not None, "the leader")
    job.await_read(job.job.snapshot().epoch)
    terminate_and_compare(job, 3)


@pytest.mark.hours
def test_a_driver_killed_after_its_savepoint_leaves_a_run_that_is_canceled(gated: Callable[..., SupervisedJob]) -> None:
    """The supervisor dies with it, so that the same request, once more, ends the run."""
    job = gated("rows")
    job.stream.feed(1)
    job.submit()
    job.await_committed(1, 0)
    supervisor = job.supervisor()
    driver = job.driver()
    job.job.request_cancel(operation_id="asked", requested_by="test", savepoint=True)
    wait_until(
        lambda: job.operation("asked").result.get("savepoint_id"), timeout=PATIENCE, what="the note", interval=FAST_POLL
    )

    for process in [supervisor, *driver]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    wait_until(lambda: job.job.snapshot().leader is None, timeout=PATIENCE, what="the end of the driver's session")
    job.job.request_cancel(operation_id="asked", requested_by="a retry", savepoint=True)

    result = job.job.snapshot()
    answer = job.operation("asked")
    assert (answer.state, result.state) == (OperationState.COMPLETED, JobState.CANCELED), answer
    assert job.job.savepoints.verify(str(answer.result["savepoint_id"])) == []
    assert len(job.job.savepoints.list()) == 1


@pytest.mark.hours
def test_a_job_continues_after_a_failed_savepoint(gated: Callable[..., SupervisedJob]) -> None:
    job = gated("windows", "rows")
    job.stream.feed(1)
    job.submit()
    job.await_committed(1, 0)
    savepoints = job.client.config.work_path / "jobs" / job.job_id / "savepoints"
    savepoints.write_text("no directory: nothing can be written below it")

    job.job.request_cancel(operation_id="asked", requested_by="test", savepoint=True)
    wait_until(lambda: job.operation("asked").state.final, timeout=PATIENCE, what="the answer")

    assert job.operation("asked").state is OperationState.FAILED
    assert job.job.savepoints.list().pointers == ()
    savepoints.unlink()
    job.stream.feed(1)
    job.await_read(1)
    terminate_and_compare(job, 2)
