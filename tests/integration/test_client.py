"""A job's life through the client, with a real Spark, also after it has lost its driver."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.jobs.model import JobState, OperationState, StartKind
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import JobSpec, RestoreRequest
from airflow_provider_ha.jobs.submit.requests import LostRunPolicy
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.spark import words_job as words
from tests.support.spark.words_job import feed, request, rows, wait_for_epoch
from tests.support.specs import changed


pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(600)]


def kill_driver(job: JobClient) -> None:
    """Kill the leader once a checkpoint of its epoch is there, and wait until the job is lost."""
    leader = job.snapshot().leader
    assert leader is not None
    os.kill(leader.pid, signal.SIGKILL)
    wait_until(lambda: job.snapshot().state is JobState.LOST, timeout=60, what="the loss")


def wait_for_rows(tmp_path: Path, expected: list[str]) -> None:
    wait_until(lambda: words.rows(tmp_path) == expected, timeout=240, what=f"rows {expected}", interval=0.2)


def another_graph(request: JobSpec, request_id: str) -> JobSpec:
    return changed(
        request,
        request_id=request_id,
        ha=HaOptions(checkpoint_interval=0, restart_in_place=False, restart_delay=0.2),
    )


def test_a_lost_job_is_stopped_at_once_and_goes_on_from_its_newest_checkpoint(client: HaClient, tmp_path: Path) -> None:
    job = client.job("words")
    for word in ("one", "two"):
        words.feed(tmp_path, word)
    request = words.request(tmp_path, "first")
    job.submit(request)
    words.wait_for_epoch(job, 1)
    wait_for_rows(tmp_path, ["one", "two"])
    kill_driver(job)

    stopped = job.request_stop(operation_id="stop-1", requested_by="test")
    words.feed(tmp_path, "three")
    job.submit(another_graph(request, "second"))
    wait_for_rows(tmp_path, ["one", "three", "two"])

    assert stopped.state is OperationState.COMPLETED
    assert stopped.result["checkpoint"] is not None
    assert [job._job.runs.get(number).run.request_id for number in (1, 2)] == ["first", "second"]


@pytest.mark.hours
def test_a_lost_job_is_replaced_by_a_new_graph_from_its_newest_checkpoint(client: HaClient, tmp_path: Path) -> None:
    job = client.job("words")
    for word in ("one", "two"):
        words.feed(tmp_path, word)
    request = words.request(tmp_path, "first")
    job.submit(request)
    words.wait_for_epoch(job, 1)
    wait_for_rows(tmp_path, ["one", "two"])
    kill_driver(job)

    made = job.submit(changed(another_graph(request, "second"), if_lost=LostRunPolicy.RESTART))
    words.feed(tmp_path, "three")
    wait_for_rows(tmp_path, ["one", "three", "two"])

    result = job._job.runs.result(1)
    assert (made.run, made.created) == (2, True)
    assert result is not None
    assert result.state is JobState.FINISHED
    assert job._job.runs.get(2).run.start.source_id == str(result.checkpoint)


@pytest.mark.hours
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
