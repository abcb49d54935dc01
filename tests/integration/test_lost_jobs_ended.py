"""Stop and cancel of a lost job: it ends at once, with what its driver had left open. Real ZooKeeper."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.model import JobState, Operation, OperationKind, OperationState
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.recovery.lost_runs import carry_out_cancel, lost_run, recover
from airflow_provider_ha.jobs.submit.requests import LostRunPolicy
from tests.support.clusters.cluster_helpers import Cluster, lead_newest
from tests.support.clusters.lost_jobs import NUMBER, again, lose, other_graph


pytestmark = pytest.mark.timeout(300)


def stop(cluster: Cluster, operation_id: str = "stop-1", **arguments: Any) -> Operation:
    return cluster.client.job("flights").request_stop(operation_id=operation_id, requested_by="test", **arguments)


def test_a_stop_of_a_lost_job_ends_it_at_once_with_its_newest_checkpoint(cluster: Cluster) -> None:
    job = lose(cluster)

    operation = stop(cluster)

    snapshot = job.snapshot()
    assert operation.state is OperationState.COMPLETED
    assert operation.result == {"checkpoint": NUMBER, "path": job.keys.pin(NUMBER, 1)}
    assert (snapshot.state, snapshot.graph, snapshot.leader, snapshot.epoch) == (JobState.FINISHED, None, None, 2)
    assert snapshot.run is not None
    assert snapshot.run.result is not None
    assert (snapshot.run.result.checkpoint, snapshot.run.result.epoch) == (NUMBER, 2)
    assert "stopped without a driver" in snapshot.run.result.reason


def test_what_was_asked_of_the_driver_before_it_was_lost_is_answered_with_it(cluster: Cluster) -> None:
    job = lose(cluster)
    ask_in_vain(job, "earlier", OperationKind.STOP, mode="suspend", savepoint=False)
    ask_in_vain(job, "drain", OperationKind.STOP, mode="terminate", savepoint=False)

    stop(cluster)

    states = {each.operation_id: each.state for each in operations.list_operations(job.coordinator, job.paths)}
    assert states == {
        "stop-1": OperationState.COMPLETED,
        "earlier": OperationState.COMPLETED,
        "drain": OperationState.FAILED,
    }


def ask_in_vain(job: JobContext, operation_id: str, kind: OperationKind, **arguments: Any) -> None:
    """Ask a lost driver for something, as before it was lost."""
    operations.request(
        job.coordinator,
        job.paths,
        kind,
        operation_id=operation_id,
        arguments=arguments,
        requested_by="test",
        clock=job.clock,
    )


def test_a_cancel_that_the_driver_has_left_open_comes_before_a_stop(cluster: Cluster) -> None:
    job = lose(cluster)
    ask_in_vain(job, "cancel-1", OperationKind.CANCEL)

    stopped = stop(cluster)

    canceled = cluster.client.job("flights").operation("cancel-1")
    assert canceled is not None
    assert canceled.state is OperationState.COMPLETED
    assert stopped.state is OperationState.FAILED
    assert stopped.error == (
        f"run 1 was cancelled (checkpoint {NUMBER}) by operation 'cancel-1' of test, not stopped at a batch boundary. "
        "A restore continues from its newest checkpoint: `spark-ha job restore flights`"
    )
    assert job.snapshot().state is JobState.CANCELED


SAVED = {"savepoint_id": "s1", "path": "/savepoints/s1"}


def cancel_with_savepoint(cluster: Cluster) -> Operation:
    return cluster.client.job("flights").request_cancel(operation_id="cancel-1", requested_by="test", savepoint=True)


def test_a_cancel_with_a_savepoint_waits_for_a_driver_and_says_what_helps(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    job = lose(cluster)

    with caplog.at_level(logging.WARNING):
        asked = cancel_with_savepoint(cluster)

    assert (asked.state, job.snapshot().state) == (OperationState.REQUESTED, JobState.LOST)
    for named in ("spark-ha job cancel flights", "spark-ha savepoint trigger flights"):
        assert named in caplog.text
    assert recover(job, by="test").attempt == 2, "the next driver takes the savepoint"


@pytest.mark.parametrize("by", ["the same request", "a recovery"])
def test_a_driver_that_died_between_savepoint_and_cancel_leaves_a_run_that_is_ended(cluster: Cluster, by: str) -> None:
    job = cluster.submitted("flights")
    with lead_newest(cluster.config, cluster.coordinator, job) as leadership:
        asked = cancel_with_savepoint(cluster)
        operations.note(leadership, job.paths, asked, result=SAVED)
    cluster.exit("flights")

    if by == "the same request":
        cancel_with_savepoint(cluster)
    else:
        with pytest.raises(JobStateError, match="is CANCELED"):
            recover(job, by="test")

    answer = cluster.client.job("flights").operation("cancel-1")
    assert answer is not None
    assert (answer.state, answer.result, job.snapshot().state) == (OperationState.COMPLETED, SAVED, JobState.CANCELED)


def test_a_plain_cancel_ends_a_run_whose_savepoint_is_not_taken_yet(cluster: Cluster) -> None:
    lose(cluster)
    cancel_with_savepoint(cluster)

    cluster.client.job("flights").request_cancel(operation_id="cancel-2", requested_by="test")

    answer = cluster.client.job("flights").operation("cancel-1")
    assert answer is not None
    assert answer.state is OperationState.FAILED
    assert "cancelled" in answer.error
    assert "without a savepoint. `spark-ha savepoint trigger flights`" in answer.error


def test_canceled_is_left_to_the_supervisor_until_its_driver_is_proven_dead(cluster: Cluster) -> None:
    job = lose(cluster)
    ask_in_vain(job, "cancel-1", OperationKind.CANCEL)
    slept: list[float] = []

    def prove_death(seconds: float) -> None:
        slept.append(seconds)
        cluster.exit("flights")

    def carry_out() -> bool:
        lost = lost_run(job.snapshot())
        assert lost is not None
        assert carry_out_cancel(dataclasses.replace(job, sleep=prove_death), lost, by="test")
        return job.runs.result(1) is not None

    first, second = carry_out(), carry_out()

    assert (first, second, len(slept)) == (False, True, 1)


def test_a_new_request_does_not_undo_a_cancel_that_the_driver_has_left_open(cluster: Cluster) -> None:
    job = lose(cluster)
    ask_in_vain(job, "cancel-1", OperationKind.CANCEL)

    submitted = cluster.client.job("flights").submit(again(cluster))

    result = job.runs.result(1)
    assert result is not None
    assert result.state is JobState.CANCELED
    assert (submitted.run, submitted.created) == (2, True)


def test_a_stop_that_is_asked_again_ends_the_run_that_was_lost_meanwhile(cluster: Cluster) -> None:
    job = cluster.submitted("flights")
    with lead_newest(cluster.config, cluster.coordinator, job):
        asked = stop(cluster)

    answered = stop(cluster)

    assert asked.state is OperationState.REQUESTED
    assert answered.state is OperationState.COMPLETED


@pytest.mark.parametrize(
    ("made", "asked", "said"),
    [
        ({}, {"mode": "terminate"}, ("a drain needs a driver", "spark-ha job stop flights")),
        ({}, {"savepoint": True}, ("a savepoint needs a driver", "spark-ha job stop flights")),
        ({"checkpoint": False}, {}, ("has no checkpoint yet", "spark-ha job cancel flights")),
    ],
    ids=["drain", "savepoint", "no checkpoint"],
)
def test_what_needs_a_driver_is_left_to_the_next_one_and_says_what_helps(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, made: Any, asked: Any, said: tuple[str, ...]
) -> None:
    job = lose(cluster, **made)

    with caplog.at_level(logging.WARNING):
        operation = stop(cluster, **asked)

    assert operation.state is OperationState.REQUESTED
    assert job.snapshot().state is JobState.LOST
    for named in (*said, "spark-ha cluster recover"):
        assert named in caplog.text


def test_a_job_that_is_led_is_stopped_by_its_driver(cluster: Cluster) -> None:
    job = cluster.submitted("flights")

    with lead_newest(cluster.config, cluster.coordinator, job):
        operation = stop(cluster)

    assert operation.state is OperationState.REQUESTED
    assert job.runs.result(1) is None


def test_a_stop_of_a_run_that_ends_meanwhile_does_not_end_the_next_one(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, real = cluster.submitted("flights"), operations.request

    def ask_and_see_it_end(*arguments: Any, **more: Any) -> Operation:
        monkeypatch.setattr(operations, "request", real)
        asked = real(*arguments, **more)
        cluster.client.job("flights").request_cancel(operation_id="cancel-1", requested_by="test")
        cluster.client.job("flights").submit(again(cluster))
        lead_newest(cluster.config, cluster.coordinator, job).release()
        return asked

    monkeypatch.setattr(operations, "request", ask_and_see_it_end)
    operation = stop(cluster)

    assert operation.state is OperationState.FAILED
    assert "by operation 'cancel-1'" in operation.error
    assert (job.snapshot().state, job.runs.numbers()) == (JobState.LOST, [1, 2])


def test_a_recovery_of_a_run_that_is_not_the_newest_any_more_recovers_no_other(cluster: Cluster) -> None:
    job = lose(cluster)
    cluster.client.job("flights").submit(other_graph(cluster, if_lost=LostRunPolicy.RESTART))
    cluster.exit("flights")

    with pytest.raises(JobStateError, match="for run 1 of job 'flights', and the newest is run 2"):
        recover(job, by="test", run_number=1)

    assert cluster.attempts("flights") == [1]


@pytest.mark.parametrize("round_number", range(5))
def test_a_stop_and_a_recovery_at_one_time_leave_one_of_both(
    cluster: Cluster, another: Callable[[], HaClient], round_number: int
) -> None:
    del round_number
    job = lose(cluster)
    stopping, recovering = another().job("flights"), another().job("flights")
    ready = threading.Barrier(2)

    def end() -> Operation:
        ready.wait()
        return stopping.request_stop(operation_id="stop-1", requested_by="test")

    def go_on() -> str:
        ready.wait()
        try:
            return f"attempt {recovering.recover(by='test').attempt}"
        except JobStateError as error:
            return error.message

    with ThreadPoolExecutor(2) as pool:
        stopped, recovered = pool.submit(end), pool.submit(go_on)
        operation, outcome = stopped.result(), recovered.result()

    snapshot = job.snapshot()
    if operation.state is OperationState.COMPLETED:
        assert (snapshot.state, snapshot.graph) == (JobState.FINISHED, None)
        assert outcome in ("attempt 1", "attempt 2", "run 1 of job 'flights' is FINISHED and is never run again")
    else:
        assert (operation.state, outcome) == (OperationState.REQUESTED, "attempt 2")
        assert snapshot.graph is not None
        assert snapshot.run is not None
        assert snapshot.run.result is None
