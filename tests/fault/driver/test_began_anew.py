"""A run begins from nothing after a checkpoint, gives its sink a batch and is lost: nothing goes back behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.errors import RestoreRefusedError
from airflow_provider_ha.jobs.model import JobState, StartKind
from tests.support.spark.driver_helpers import Stream
from tests.support.spark.supervised_job import SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]


@pytest.mark.hours
def test_a_submit_does_not_go_back_to_the_checkpoint_before_a_fresh_run_that_was_lost(
    client: HaClient, tmp_path: Path
) -> None:
    job = SupervisedJob(client, Stream(tmp_path), ("rows",))
    job.stream.feed(2)
    job.submit()
    job.await_read(1)
    job.stop("suspend")
    assert job.await_result().state is JobState.FINISHED
    job.close_gate("batch")
    with pytest.raises(RestoreRefusedError, match=r"from nothing is LOSS_POSSIBLE: .*the numbers start again at 0"):
        job.submit(start_from="fresh")
    job.submit(start_from="fresh", accept=(Verdict.LOSS_POSSIBLE,))
    job.await_held("batch")  # its function has been called with a batch that the first run has given it, too
    job.kill()
    job.job.request_cancel(operation_id=new_id(), requested_by="test")
    assert job.await_result().state is JobState.CANCELED
    job.open_gate("batch")

    with pytest.raises(RestoreRefusedError, match=r"LOSS_POSSIBLE: .*run 2 did not continue from this cut"):
        job.submit()

    job.submit(start_from="fresh", accept=(Verdict.LOSS_POSSIBLE,))
    job.await_alive(lambda: job.job.snapshot().leader is not None, "the leader")
    job.await_read(job.job.snapshot().epoch)
    job.stop("suspend")
    assert job.await_result().state is JobState.FINISHED
    job.submit()
    again = job.job.snapshot().run
    assert again is not None
    assert (again.run.number, again.run.start.kind) == (4, StartKind.CHECKPOINT)
    job.await_alive(lambda: job.job.snapshot().leader is not None, "the leader")
    job.job.request_cancel(operation_id=new_id(), requested_by="test")
    assert job.await_result().state is JobState.CANCELED
