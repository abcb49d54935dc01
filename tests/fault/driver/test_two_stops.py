"""Requests of a real driver: several that end one run, and checkpoints on request."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from airflow_provider_ha.jobs.model import JobState, Operation, OperationState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.spark.driver_helpers import PATIENCE
from tests.support.spark.supervised_job import SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]


@pytest.mark.hours
def test_all_that_a_stop_fulfils_is_answered_with_it_and_the_rest_with_what_ended_the_run(
    gated: Callable[..., SupervisedJob],
) -> None:
    job = gated("rows")
    job.stream.feed(2)
    job.submit()
    job.await_committed(1, 0)
    job.close_gate("batch")
    job.stream.feed(1)
    job.await_held("batch")
    for operation_id in ("first", "second"):
        job.job.request_stop(operation_id=operation_id, requested_by=operation_id, savepoint=True)
        wait_until(partial(_is_taken_up, job, operation_id), timeout=PATIENCE, what="the driver to take it up")
    job.job.request_stop(operation_id="plain", requested_by="a DAG")
    job.job.request_stop(operation_id="drain", requested_by="a DAG", mode="terminate")
    job.job.request_cancel(operation_id="cancel", requested_by="a DAG", savepoint=True)

    job.open_gate("batch")
    result = job.await_result()

    answers = {name: job.operation(name) for name in ("first", "second", "plain", "drain", "cancel")}
    assert (result.state, result.reason) == (JobState.FINISHED, "suspended")
    done = [answers[name] for name in ("first", "second", "plain")]
    assert {each.state for each in done} == {OperationState.COMPLETED}, answers
    assert [each.result for each in done] == [answers["first"].result] * 3
    assert [pointer.savepoint_id for pointer in job.job.savepoints.list()] == [done[0].result["savepoint_id"]]
    assert done[0].result["checkpoint"] == result.checkpoint
    refused = [answers[name] for name in ("drain", "cancel")]
    assert {each.state for each in refused} == {OperationState.FAILED}, answers
    for each in refused:
        assert f"was suspended (checkpoint {result.checkpoint}) by operation 'first' of first" in each.error


def _is_taken_up(job: SupervisedJob, operation_id: str) -> bool:
    return job.operation(operation_id).state is OperationState.RUNNING


AN_HOUR = 3600.0


def answered(job: SupervisedJob, operation_id: str) -> Operation:
    wait_until(lambda: job.operation(operation_id).state.final, timeout=PATIENCE, what="the answer")
    return job.operation(operation_id)


@pytest.mark.hours
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
