"""A checkpoint that is deleted while a real driver goes on: what stays is restored from, and no row is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.spark.driver_helpers import PATIENCE
from tests.support.spark.supervised_job import SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]
AN_HOUR = 3600.0


def await_answer(job: SupervisedJob, operation_id: str) -> None:
    wait_until(lambda: job.operation(operation_id).state.final, timeout=PATIENCE, what="the answer")


@pytest.mark.hours
def test_a_running_job_deletes_a_checkpoint_and_is_recovered_after_that(gated: Callable[..., SupervisedJob]) -> None:
    job = gated("rows")
    job.options = HaOptions(
        checkpoint_interval=AN_HOUR, restart_delay=0, restart_in_place=False, retained_checkpoints=5
    )
    job.stream.feed(1)
    job.submit()
    for name in ("first", "second"):
        job.await_read(1)
        job.job.request_checkpoint(operation_id=name, requested_by="test")
        await_answer(job, name)
        job.stream.feed(1)
    newest, oldest = (pointer.number for pointer in job.job.checkpoints.list())

    removal = job.job.plan_checkpoint_deletion(f"checkpoint-{oldest}")
    job.job.delete_checkpoint(removal, requested_by="test")
    job.await_read(1)
    job.kill()
    job.recover()
    job.await_read(2)

    assert removal.proven == f"checkpoint-{newest}"
    assert [each.number for each in job.job.checkpoints.list() if each.number <= newest] == [newest]
    job.stop("suspend")
    assert job.await_result().state is JobState.FINISHED
    assert job.stream.seen() == job.stream.expected_rows(job.stream.files)
