"""A checkpoint that is requested of a real driver: taken at once, that of an idle job, or left to the next driver."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_provider_ha.jobs.model import JobState, Operation, OperationState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.spark.driver_helpers import PATIENCE
from tests.support.spark.supervised_job import SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]
AN_HOUR = 3600.0


def answered(job: SupervisedJob, operation_id: str) -> Operation:
    wait_until(lambda: job.operation(operation_id).state.final, timeout=PATIENCE, what="the answer")
    return job.operation(operation_id)


def test_it_holds_all_that_is_committed_and_a_killed_driver_leaves_it_to_the_next_one(
    gated: Callable[..., SupervisedJob],
) -> None:
    job = gated("rows")
    job.options = HaOptions(checkpoint_interval=AN_HOUR, restart_delay=0, restart_in_place=False)
    job.stream.feed(2)
    job.submit()
    job.await_committed(1, 1)

    job.job.request_checkpoint(operation_id="first", requested_by="test")
    first = answered(job, "first")
    job.job.request_checkpoint(operation_id="idle", requested_by="test")
    idle = answered(job, "idle")
    job.kill()
    job.job.request_checkpoint(operation_id="lost", requested_by="test")
    waiting = job.operation("lost").state
    job.stream.feed(1)
    job.recover()
    lost = answered(job, "lost")

    assert first.state is idle.state is lost.state is OperationState.COMPLETED, (first, idle, lost)
    assert first.result["cut"] == {"rows": 1}
    assert idle.result == first.result | {"new": False}
    assert waiting is OperationState.REQUESTED
    assert lost.epoch == 2
    assert lost.result["checkpoint"] >= first.result["checkpoint"]  # the same one when nothing was committed since
    numbers = [pointer.number for pointer in job.job.checkpoints.list()]
    assert numbers[0] >= lost.result["checkpoint"]
    job.await_committed(2, 2)  # the checkpoint may have come before the batch, and a suspension drains nothing
    job.stop("suspend")
    assert job.await_result().state is JobState.FINISHED
    assert job.stream.seen() == job.stream.expected_rows(job.stream.files)
