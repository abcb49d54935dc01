"""Each way in which a stop can fail: the operation says why, the run has no result, and the job goes on exactly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.driver.ending import stop_job
from airflow_provider_ha.jobs.model import JobState, Operation, OperationState
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.full_disk import SmallDisk, config_on
from tests.support.spark.driver_helpers import APPS, PATIENCE
from tests.support.spark.supervised_job import SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]
flink = pytest.mark.flink


@pytest.fixture
def config(zookeeper: str, tmp_path: Path, disk: SmallDisk) -> HaConfig:
    """A cluster whose work root is a separate disk."""
    return config_on(disk, zookeeper, tmp_path)


@pytest.fixture
def job(gated: Callable[..., SupervisedJob]) -> SupervisedJob:
    """A running job that has written two files."""
    job = gated("rows")
    job.stream.feed(2)
    job.submit_script(APPS / "ill_ending.py", [*job.stream.arguments, str(job.gates)])
    job.await_committed(1, 1)
    return job


def sign(job: SupervisedJob, name: str) -> Path:
    """Tell the script how to go wrong; returns the sign, to be taken away again."""
    path = job.gates / name
    path.touch()
    return path


def await_failure(job: SupervisedJob, operation_id: str) -> Operation:
    """Wait until the operation has failed and the driver is gone; the run lives on."""
    wait_until(lambda: job.operation(operation_id).state.final, timeout=PATIENCE, what="the end of the stop")
    assert job.operation(operation_id).state is OperationState.FAILED, job.log(newest_only=True)
    job.await_lost()
    run = job.job.snapshot().run
    assert run is not None
    assert run.result is None, "a stop that failed ends no run"
    return job.operation(operation_id)


def recover_and_compare(job: SupervisedJob) -> None:
    """Start the run again, feed one more file, stop it for good, and compare all rows."""
    job.recover()
    job.stream.feed(1)
    job.await_read(2)
    job.stop("suspend")
    result = job.await_result()
    assert result.state is JobState.FINISHED, result.reason
    assert job.stream.seen() == job.stream.expected_rows(job.stream.files)


@pytest.mark.hours
@flink(
    "StopWithSavepointTerminationHandlerImplTest#testSavepointCreationFailureWith"
    "{outExecutionTermination,FailingExecutions,FinishingExecutions}",
    entry=93,
)
def test_a_savepoint_that_cannot_be_written(job: SupervisedJob) -> None:
    savepoints = job.client.config.work_path / "jobs" / job.job_id / "savepoints"
    savepoints.write_text("no directory: no savepoint can be made in it")

    stop = job.job.request_stop(operation_id=new_id(), requested_by="test", savepoint=True)
    failed = await_failure(job, stop.operation_id)

    assert "savepoints" in failed.error
    assert failed.result["checkpoint"] == job.job.snapshot().latest_checkpoint, "the sharp checkpoint is not lost"
    savepoints.unlink()
    recover_and_compare(job)


@flink("StopWithSavepointTest#testConcurrentSavepointFailureAndGloballyTerminalStateCauseRestart", entry=98)
@pytest.mark.hours
def test_a_query_that_fails_in_its_last_batch(job: SupervisedJob) -> None:
    hold = sign(job, "hold")
    (job.gates / "hold-reached").unlink()
    job.stream.feed(1)
    job.await_held("hold")
    stop = job.stop("suspend")
    wait_until(
        lambda: (status := job.job.snapshot().status) and status.state is JobState.STOPPING,
        timeout=PATIENCE,
        what="STOPPING",
    )
    failing = sign(job, "batch")

    hold.unlink()
    failed = await_failure(job, stop)

    assert "the batch fails" in failed.error
    failing.unlink()
    recover_and_compare(job)


@pytest.mark.hours
@flink("StopWithSavepointTerminationHandlerImplTest#testFailedTerminationHandling", entry=94)
def test_a_drain_whose_script_fails(job: SupervisedJob) -> None:
    failing = sign(job, "second run")

    failed = await_failure(job, job.stop("terminate"))

    assert "the second run fails" in failed.error
    failing.unlink()
    recover_and_compare(job)


@flink("StopWithSavepointTest#testOnFailureWaitsForSavepointCompletion", entry=97)
@pytest.mark.hours
def test_a_drain_whose_script_does_not_end(job: SupervisedJob) -> None:
    lingering = sign(job, "linger")

    failed = await_failure(job, job.stop("terminate"))

    assert f"the script has not ended {stop_job.SCRIPT_END_SECONDS:.0f} s after its queries" in failed.error
    assert failed.result["checkpoint"] == job.job.snapshot().latest_checkpoint
    lingering.unlink()
    recover_and_compare(job)


@pytest.mark.hours
def test_a_suspend_whose_script_does_not_end_is_done(job: SupervisedJob) -> None:
    sign(job, "linger")

    stop = job.stop("suspend")

    assert job.await_result().state is JobState.FINISHED
    assert job.operation(stop).state is OperationState.COMPLETED


@pytest.mark.hours
def test_a_disk_that_is_full_at_the_sharp_checkpoint(job: SupervisedJob, disk: SmallDisk) -> None:
    disk.fill_inodes()

    failed = await_failure(job, job.stop("suspend"))

    assert "No space left on device" in failed.error
    disk.free()
    recover_and_compare(job)
