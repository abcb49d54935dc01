"""A job's life through the client, with a real Spark: submitted, killed, recovered, stopped, restored, canceled."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.jobs.model import JobState, OperationState, StartKind
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.spark.words_job import feed, request, rows, wait_for_epoch


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_job_is_submitted_killed_recovered_stopped_restored_and_canceled(client: HaClient, tmp_path: Path) -> None:
    job = client.job("words")
    feed(tmp_path, "one")

    submitted = job.submit(request(tmp_path, "first"))
    wait_for_epoch(job, 1)
    leader = job.snapshot().leader
    assert leader is not None
    os.kill(leader.pid, signal.SIGKILL)
    wait_until(lambda: job.snapshot().state is JobState.LOST, timeout=30, what="the loss")
    recovered = job.recover(by="test")
    feed(tmp_path, "two")
    wait_for_epoch(job, 2)
    stop = job.request_stop(operation_id="stop-1", requested_by="test")
    wait_until(lambda: job.snapshot().state is JobState.FINISHED, timeout=120, what="the stop")
    stopped = job.operation("stop-1")
    feed(tmp_path, "three")
    restored = job.restore(RestoreRequest(job_id="words", request_id="second"))
    wait_for_epoch(job, 3)
    wait_until(lambda: rows(tmp_path) == ["one", "three", "two"], timeout=120, what="the third row")
    job.request_cancel(operation_id="cancel-1", requested_by="test")
    wait_until(lambda: job.snapshot().state is JobState.CANCELED, timeout=60, what="the cancel")

    assert (submitted.run, recovered.run, recovered.attempt, restored.run) == (1, 1, 2, 2)
    assert not stop.state.final, "asked for, or taken up already; the answer comes later"
    assert stopped is not None
    assert stopped.state is OperationState.COMPLETED
    run = job.snapshot().run
    assert run is not None
    assert run.run.start.kind is StartKind.CHECKPOINT
    assert rows(tmp_path) == ["one", "three", "two"]
