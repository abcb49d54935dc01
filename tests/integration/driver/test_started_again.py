"""Queries that a script stops or lets fail and starts again, and names that change with every start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.jobs.model import JobState, OperationState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from tests.support.clusters import submit_helpers
from tests.support.spark.driver_helpers import APPS, Stream
from tests.support.spark.supervised_job import SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]


@pytest.fixture
def job(config: HaConfig, tmp_path: Path) -> Iterator[SupervisedJob]:
    with HaClient.open(config) as client:
        job = SupervisedJob(client, Stream(tmp_path))
        yield job
        submit_helpers.kill_all(job.job._job)


def submit_again(job: SupervisedJob) -> None:
    job.stream.feed(2)
    job.submit_script(APPS / "again.py", [str(job.stream.source), str(job.stream.output), str(job.gates)])
    job.await_committed(1, 1)


def stop_and_compare(job: SupervisedJob) -> None:
    """Stop the job, restore it with a script that ends, have every window emitted, and compare with the truth."""
    stop = job.stop("suspend")
    result = job.await_result()
    assert result.state is JobState.FINISHED, result.reason
    assert job.operation(stop).state is OperationState.COMPLETED
    job.submit_script(APPS / "plain.py", [str(job.stream.source), str(job.stream.output)])
    job.await_read(2)
    job.stop("terminate")
    assert job.await_result().state is JobState.FINISHED
    assert job.stream.windows() == job.stream.expected_windows(job.stream.files)


def starts(job: SupervisedJob) -> int:
    """How often the query was started."""
    return job.log(newest_only=True).count("query windows started at")


def test_a_query_that_failed_is_started_again_and_the_output_is_exact(job: SupervisedJob) -> None:
    submit_again(job)
    job.close_gate("fail")
    job.stream.feed(1)
    job.await_held("fail")
    job.await_alive(lambda: starts(job) > 1, "another start")
    job.open_gate("fail")
    job.stream.feed(1)

    job.await_read(1)

    stop_and_compare(job)


@pytest.mark.hours
def test_a_query_that_the_script_stopped_is_started_again_and_the_output_is_exact(job: SupervisedJob) -> None:
    submit_again(job)
    (job.gates / "again").touch()
    job.await_alive(lambda: starts(job) == 2, "the second start")
    job.stream.feed(2)

    job.await_read(1)

    stop_and_compare(job)


def test_a_name_that_changes_with_every_start_is_refused_after_a_loss(job: SupervisedJob) -> None:
    job.stream.feed(1)
    job.submit_script(APPS / "renamed.py", [str(job.stream.source), str(job.stream.output)])
    job.await_alive(lambda: bool(job.job.checkpoints.list().pointers), "a checkpoint")
    (name,) = job.job.checkpoints.list().pointers[0].cut
    job.kill()

    job.recover()

    result = job.await_result()
    assert result.state is JobState.FAILED
    assert f"it had '{name}'" in result.reason
    assert "allow_new_queries=True" in result.reason
    assert [pointer.cut.keys() for pointer in job.job.checkpoints.list()] == [{name}] * len(
        job.job.checkpoints.list().pointers
    )


@pytest.mark.hours
def test_a_name_that_changes_is_permitted_by_an_option(job: SupervisedJob) -> None:
    job.options = HaOptions(checkpoint_interval=0, restart_in_place=False, restart_delay=0, allow_new_queries=True)
    job.stream.feed(1)
    job.submit_script(APPS / "renamed.py", [str(job.stream.source), str(job.stream.output)])
    job.await_alive(lambda: bool(job.job.checkpoints.list().pointers), "a checkpoint")
    job.kill()

    job.recover()

    job.await_alive(lambda: len(job.job.checkpoints.list().pointers[0].cut) == 2, "a checkpoint of both names")
