"""A job is deleted but for its savepoint, and a new life of the same id begins from that: rows exact."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.jobs.model import JobState, StartKind
from airflow_provider_ha.jobs.removal.job_deletion import DeletionState
from tests.support.spark.driver_helpers import Stream
from tests.support.spark.supervised_job import SupervisedJob, terminate_and_compare


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]


@pytest.mark.hours
def test_a_new_life_begins_from_the_savepoint_of_the_one_before(client: HaClient, tmp_path: Path) -> None:
    """The sinks have two batches after the savepoint, whose records are kept beside it."""
    job = SupervisedJob(client, Stream(tmp_path), ("windows", "rows"))
    job.stream.feed(2)
    job.submit()
    job.await_read(1)
    asked = job.job.request_savepoint(operation_id=new_id(), requested_by="test")
    job.await_alive(lambda: job.operation(asked.operation_id).state.final, "the savepoint")
    savepoint = str(job.operation(asked.operation_id).result["savepoint_id"])
    job.stream.feed(2)
    job.await_read(1)
    job.stop("suspend")
    assert job.await_result().state is JobState.FINISHED

    assert job.job.delete(requested_by="test", keep_savepoints=True).state is DeletionState.DELETED
    assert client.list_jobs() == []
    job.submit(start_from=f"savepoint-{savepoint}")

    started = job.job.snapshot().run
    assert started is not None
    assert (started.run.number, started.run.start.kind) == (2, StartKind.SAVEPOINT)
    with pytest.raises(JobStateError, match=f"run 2 of job 'gated' starts from savepoint '{savepoint}'"):
        job.job.delete_savepoint(savepoint, requested_by="test")
    job.stream.feed(1)
    job.await_alive(lambda: job.job.snapshot().leader is not None, "the leader")
    epoch = job.job.snapshot().epoch
    job.await_read(epoch)
    job.await_alive(lambda: any(each.run == 2 for each in job.job.checkpoints.list()), "its first checkpoint")
    job.job.delete_savepoint(savepoint, requested_by="test")
    assert len(job.job.savepoints.list()) == 0
    terminate_and_compare(job, 5)
