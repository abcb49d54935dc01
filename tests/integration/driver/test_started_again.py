"""Queries that a script stops or lets fail and starts again, and names that change with every start."""

from __future__ import annotations

import pytest

from airflow_provider_ha.jobs.model import JobState, OperationState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from tests.support.spark.driver_helpers import APPS
from tests.support.spark.supervised_job import SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]


def submit_again(gated: SupervisedJob) -> None:
    gated.stream.feed(2)
    gated.submit_script(APPS / "again.py", [str(gated.stream.source), str(gated.stream.output), str(gated.gates)])
    gated.await_committed(1, 1)


def stop_and_compare(gated: SupervisedJob) -> None:
    """Stop the gated, restore it with a script that ends, have every window emitted, and compare with the truth."""
    stop = gated.stop("suspend")
    result = gated.await_result()
    assert result.state is JobState.FINISHED, result.reason
    assert gated.operation(stop).state is OperationState.COMPLETED
    gated.submit_script(APPS / "plain.py", [str(gated.stream.source), str(gated.stream.output)])
    gated.await_read(2)
    gated.stop("terminate")
    assert gated.await_result().state is JobState.FINISHED
    assert gated.stream.windows() == gated.stream.expected_windows(gated.stream.files)


def starts(gated: SupervisedJob) -> int:
    """How often the query was started."""
    return gated.log(newest_only=True).count("query windows started at")


def test_a_query_that_failed_is_started_again_and_the_output_is_exact(gated: SupervisedJob) -> None:
    submit_again(gated)
    gated.close_gate("fail")
    gated.stream.feed(1)
    gated.await_held("fail")
    gated.await_alive(lambda: starts(gated) > 1, "another start")
    gated.open_gate("fail")
    gated.stream.feed(1)

    gated.await_read(1)

    stop_and_compare(gated)


@pytest.mark.hours
def test_a_query_that_the_script_stopped_is_started_again_and_the_output_is_exact(gated: SupervisedJob) -> None:
    submit_again(gated)
    (gated.gates / "again").touch()
    gated.await_alive(lambda: starts(gated) == 2, "the second start")
    gated.stream.feed(2)

    gated.await_read(1)

    stop_and_compare(gated)


@pytest.mark.hours
def test_a_name_that_changes_with_every_start_is_refused_after_a_loss(gated: SupervisedJob) -> None:
    gated.stream.feed(1)
    gated.submit_script(APPS / "renamed.py", [str(gated.stream.source), str(gated.stream.output)])
    gated.await_alive(lambda: bool(gated.job.checkpoints.list().pointers), "a checkpoint")
    (name,) = gated.job.checkpoints.list().pointers[0].cut
    gated.kill()

    gated.recover()

    result = gated.await_result()
    assert result.state is JobState.FAILED
    assert f"it had '{name}'" in result.reason
    assert "allow_new_queries=True" in result.reason
    assert [pointer.cut.keys() for pointer in gated.job.checkpoints.list()] == [{name}] * len(
        gated.job.checkpoints.list().pointers
    )


@pytest.mark.hours
def test_a_name_that_changes_is_permitted_by_an_option(gated: SupervisedJob) -> None:
    gated.options = HaOptions(checkpoint_interval=0, restart_in_place=False, restart_delay=0, allow_new_queries=True)
    gated.stream.feed(1)
    gated.submit_script(APPS / "renamed.py", [str(gated.stream.source), str(gated.stream.output)])
    gated.await_alive(lambda: bool(gated.job.checkpoints.list().pointers), "a checkpoint")
    gated.kill()

    gated.recover()

    gated.await_alive(lambda: len(gated.job.checkpoints.list().pointers[0].cut) == 2, "a checkpoint of both names")
