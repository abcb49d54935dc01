"""A savepoint of a stopped job, on a mounted path and on S3: after a kill in the middle, restored, rows exact."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.jobs.model import OperationState
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from tests.support.spark.driver_helpers import Stream
from tests.support.spark.layered_job import LayeredJob
from tests.support.spark.supervised_job import SupervisedJob, terminate_and_compare


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]

# The process dies with the copy complete and unknown: the step that a kill can leave half done.
KILLED = """
import os, signal, sys
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_store import SavepointStore
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.api.ha_client import HaClient
SavepointStore.publish = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
with HaClient.open(HaConfig.model_validate_json(sys.stdin.read())) as client:
    client.job(sys.argv[1]).take_savepoint(operation_id="asked", requested_by="a process that is killed")
"""


@pytest.mark.hours
def test_on_a_mounted_path(client: HaClient, tmp_path: Path) -> None:
    saved_and_restored(SupervisedJob(client, Stream(tmp_path), ("windows", "rows")))


@pytest.mark.hours
@pytest.mark.usefixtures("jobs_on_s3")
def test_on_s3(client: HaClient, tmp_path: Path) -> None:
    saved_and_restored(LayeredJob(client, Stream(tmp_path), ("windows", "rows")))


def saved_and_restored(job: SupervisedJob) -> None:
    job.stream.feed(2)
    job.submit()
    job.await_read(1)
    job.stop("suspend")
    stopped = job.await_result()

    given = job.client.config.to_private_json()
    killed = subprocess.run([sys.executable, "-c", KILLED, job.job_id], input=given, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert job.job.operation("asked") is None
    assert len(job.job.savepoints.list()) == 0

    made = job.job.take_savepoint(operation_id="asked", requested_by="test")

    assert (made.state, made.result["checkpoint"]) == (OperationState.COMPLETED, stopped.checkpoint)
    savepoint = str(made.result["savepoint_id"])
    assert job.job.savepoints.verify(savepoint) == []
    job.job.restore(RestoreRequest(job_id=job.job_id, request_id=new_id(), start_from=f"savepoint-{savepoint}"))
    job.stream.feed(1)
    job.await_alive(lambda: job.job.snapshot().leader is not None, "the leader")
    job.await_read(job.job.snapshot().epoch)
    terminate_and_compare(job, 3)
