"""A cancel with a savepoint of a real driver: killed during the savepoint and after it, and a savepoint that fails."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import psutil
import pytest

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.jobs.model import JobState, OperationState
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.spark.driver_helpers import PATIENCE
from tests.support.spark.supervised_job import SupervisedJob, terminate_and_compare


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]
FAST_POLL = 0.01


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


def test_a_job_whose_savepoint_fails_goes_on(gated: Callable[..., SupervisedJob]) -> None:
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
