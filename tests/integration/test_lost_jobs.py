"""A lost job is no dead end: it is recovered by a new request, replaced, or stopped at once. Real ZooKeeper.

The engine only remembers what it was asked to launch.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.control.client import HaClient
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.control.job.requests import IfLost, RestoreRequest, SubmitRequest
from airflow_provider_ha.control.submission.lost_run import carry_out_cancel, end_lost, lost_run, result_of
from airflow_provider_ha.control.submission.recovery import recover
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.jobs import operations
from airflow_provider_ha.jobs.ha_options import HaOptions
from airflow_provider_ha.jobs.model import JobState, Operation, OperationKind, OperationState, StartKind
from airflow_provider_ha.jobs.watchers import followed
from airflow_provider_ha.recovery.conclude import take_lock
from tests.support.clusters.cluster_helpers import Cluster, lead_newest
from tests.support.clusters.lost_jobs import NUMBER, lose


pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def cluster(config: HaConfig, coordinator: Coordinator, tmp_path: Path) -> Cluster:
    return Cluster(config, coordinator, tmp_path)


@pytest.fixture
def another(config: HaConfig, cluster: Cluster) -> Iterator[Callable[[], HaClient]]:
    """Further clients with separate sessions, as other processes have them."""
    sessions: list[KazooCoordinator] = []

    def connect() -> HaClient:
        sessions.append(KazooCoordinator.connect(config))
        return cluster.open(sessions[-1])

    yield connect
    for session in sessions:
        session.close()


def again(cluster: Cluster, request_id: str = "request-2", **changes: Any) -> SubmitRequest:
    """Return the same application as of :func:`lose`, asked for by another request."""
    return dataclasses.replace(cluster.request("flights"), request_id=request_id, **changes)


def other_graph(cluster: Cluster, **changes: Any) -> SubmitRequest:
    return again(cluster, arguments=["--other"], **changes)


def stop(cluster: Cluster, operation_id: str = "stop-1", **arguments: Any) -> Operation:
    return cluster.client.job("flights").request_stop(operation_id=operation_id, requested_by="test", **arguments)


def everything(job: JobContext) -> list[str]:
    """Return every node of the job and every file of its cluster's storage."""
    nodes, waiting = [], [job.paths.base]
    while waiting:
        path = waiting.pop()
        nodes.append(path)
        waiting += [f"{path}/{name}" for name in job.coordinator.children(path)]
    return sorted(nodes) + sorted(map(str, job.config.work_path.rglob("*")))


# A new request of the same graph


def test_the_same_graph_recovers_the_lost_run_and_follows_it(cluster: Cluster) -> None:
    job = lose(cluster)

    submitted = cluster.client.job("flights").submit(again(cluster))

    assert (submitted.run, submitted.attempt, submitted.created) == (1, 2, False)
    assert job.runs.numbers() == [1]
    assert cluster.attempts("flights") == [1, 2]
    assert followed(job.coordinator, job.paths, "request-2") == 1


def test_a_retry_finds_the_run_again_that_its_request_follows(cluster: Cluster) -> None:
    job = lose(cluster)
    client = cluster.client.job("flights")
    client.submit(again(cluster))

    with cluster.led("flights", job.coordinator):
        retried = client.submit(again(cluster))

    assert (retried.run, retried.attempt, retried.created) == (1, 2, False)
    assert cluster.attempts("flights") == [1, 2]


def test_a_retry_after_a_crash_before_the_recovery_recovers(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    job = lose(cluster)
    with monkeypatch.context() as crash:
        crash.setattr("airflow_provider_ha.control.submission.submission.recover", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            cluster.client.job("flights").submit(again(cluster))

    submitted = cluster.client.job("flights").submit(other_graph(cluster))

    assert followed(job.coordinator, job.paths, "request-2") == 1
    assert (submitted.run, submitted.attempt) == (1, 2), "what a request follows does not change with the DAG file"


def test_a_request_whose_followed_run_failed_makes_a_run_of_its_own(cluster: Cluster) -> None:
    job = lose(cluster)
    client = cluster.client.job("flights")
    client.submit(again(cluster))
    client.fail("the test says so", by="test")

    repeated = client.submit(again(cluster))
    found = client.submit(again(cluster))

    assert (repeated.run, repeated.created) == (2, True)
    assert (found.run, found.created) == (2, False)
    assert job.runs.get(2).run.request_id == "request-2"


def test_a_lost_run_without_attempts_left_fails_and_the_request_makes_the_next_one(cluster: Cluster) -> None:
    job = lose(cluster, checkpoint=False, worked=False)
    spent = again(cluster, options=HaOptions(restart_delay=0.0, restart_attempts=0))
    cluster.client.job("flights").submit(dataclasses.replace(spent, if_lost=IfLost.RESTART))
    cluster.exit("flights")

    submitted = cluster.client.job("flights").submit(dataclasses.replace(spent, request_id="request-3"))

    result = job.runs.result(2)
    assert result is not None
    assert result.state is JobState.FAILED
    assert (submitted.run, submitted.created) == (3, True)


@pytest.mark.parametrize("start_from", ["fresh", "latest"])
def test_a_start_where_the_lost_run_has_begun_asks_for_the_same(cluster: Cluster, start_from: str) -> None:
    lose(cluster)

    submitted = cluster.client.job("flights").submit(again(cluster, start_from=start_from))

    assert (submitted.run, submitted.attempt) == (1, 2)


def test_another_start_is_not_the_same_and_says_so(cluster: Cluster) -> None:
    lose(cluster)

    with pytest.raises(JobStateError, match="differs from it in start_from") as caught:
        cluster.client.job("flights").submit(again(cluster, start_from="checkpoint-1"))

    assert "makes a new run of this from 'checkpoint-1'" in caught.value.next_step


def test_two_requests_that_recover_one_lost_run_at_one_time_start_one_driver(
    cluster: Cluster, another: Callable[[], HaClient]
) -> None:
    job = lose(cluster)
    asking = {f"request-{number}": another() for number in (2, 3, 4)}
    ready = threading.Barrier(len(asking))
    request = again(cluster)

    def ask(request_id: str) -> str:
        ready.wait()
        try:
            found = asking[request_id].job("flights").submit(dataclasses.replace(request, request_id=request_id))
        except JobStateError as error:  # it came when the others had recovered the run
            return error.message[:55]
        assert (found.run, found.attempt) == (1, 2)
        assert followed(job.coordinator, job.paths, request_id) == 1
        return "follows"

    with ThreadPoolExecutor(len(asking)) as pool:
        outcomes = list(pool.map(ask, asking))

    assert "follows" in outcomes
    assert set(outcomes) <= {"follows", "job 'flights' already has a live run, number 1; it has no leader"[:55]}
    assert [launch for launch in cluster.engine.launches() if launch[1] == 2] == [("flights", 2)]
    assert cluster.attempts("flights") == [1, 2]


# Another graph


def test_another_graph_is_refused_with_both_choices_and_changes_nothing(cluster: Cluster) -> None:
    job = lose(cluster)
    request = other_graph(cluster, env={"TOKEN": "a-secret"})
    before = everything(job)

    with pytest.raises(JobStateError, match=r"differs from it in arguments, env\.TOKEN") as caught:
        cluster.client.job("flights").submit(request)

    text = str(caught.value)
    for named in ('if_lost="recover"', 'if_lost="restart"', "from checkpoint 1", "spark-ha recover"):
        assert named in text
    assert "spark-ha job stop flights" in text
    assert "SparkHaStopOperator" in text
    assert "a-secret" not in text
    assert everything(job) == before
    assert job.snapshot().state is JobState.LOST


def test_recover_goes_on_with_the_old_graph(cluster: Cluster) -> None:
    job = lose(cluster)

    submitted = cluster.client.job("flights").submit(other_graph(cluster, if_lost=IfLost.RECOVER))

    assert (submitted.run, submitted.attempt) == (1, 2)
    assert job.graph(job.runs.get(1).run.graph).arguments == ()


def test_restart_ends_the_lost_run_and_starts_the_new_graph_from_the_latest_checkpoint(cluster: Cluster) -> None:
    job = lose(cluster)

    submitted = cluster.client.job("flights").submit(other_graph(cluster, if_lost=IfLost.RESTART))

    old, new = job.runs.get(1), job.runs.get(2)
    assert (submitted.run, submitted.attempt, submitted.created) == (2, 1, True)
    assert old.result is not None
    assert (old.result.state, old.result.checkpoint, old.result.epoch) == (JobState.FINISHED, NUMBER, 2)
    assert "its driver was lost, and run 2 takes its place" in old.result.reason
    assert (new.run.start.kind, new.run.start.source_id) == (StartKind.CHECKPOINT, str(NUMBER))
    assert job.graph(new.run.graph).arguments == ("--other",)
    assert len(old.submissions) == 1
    pointer = job.graphs.pointer()
    assert pointer is not None
    assert (pointer.run, pointer.graph) == (2, new.run.graph)


def test_restart_is_refused_while_the_lost_run_has_worked_and_has_no_checkpoint(cluster: Cluster) -> None:
    job = lose(cluster, checkpoint=False)
    request = other_graph(cluster, if_lost=IfLost.RESTART)
    before = everything(job)

    with pytest.raises(JobStateError, match="no checkpoint yet: a new one would repeat what it has committed") as told:
        cluster.client.job("flights").submit(request)

    assert 'start_from="fresh"' in told.value.next_step
    assert everything(job) == before


def test_restart_makes_no_run_when_a_driver_has_led_since_the_plan_was_made(
    cluster: Cluster, another: Callable[[], HaClient]
) -> None:
    job = lose(cluster)
    seen = lost_run(job.snapshot())
    assert seen is not None
    take_lock(another().context("flights"), 1).release()

    with pytest.raises(JobStateError, match="has been led again since"):
        end_lost(job, seen, result_of(job, seen, JobState.FINISHED, reason="test", by="test"), also=())

    assert job.runs.result(1) is None


def test_a_run_that_is_led_is_refused_with_the_commands_that_help(cluster: Cluster) -> None:
    job = cluster.submitted("flights")
    with lead_newest(cluster.config, cluster.coordinator, job), pytest.raises(JobStateError) as caught:
        cluster.client.job("flights").submit(other_graph(cluster, if_lost=IfLost.RESTART))

    assert "already has a live run, number 1; epoch 1 on host (pid 1) leads it" in caught.value.message
    for named in ("spark-ha job stop flights", "spark-ha job cancel flights", "SparkHaFollowOperator"):
        assert named in caught.value.next_step


# A restore


def test_a_restore_into_a_lost_job_is_refused_with_both_choices(cluster: Cluster) -> None:
    job = lose(cluster)

    with pytest.raises(JobStateError, match="has lost the driver of run 1, which a restore would leave") as caught:
        cluster.client.job("flights").restore(RestoreRequest(job_id="flights", request_id="r"))

    for named in ('if_lost="restart" (--if-lost restart)', 'if_lost="recover"', "spark-ha job stop flights"):
        assert named in caught.value.next_step
    assert job.runs.numbers() == [1]


@pytest.mark.parametrize(("choice", "run"), [(IfLost.RESTART, 2), (IfLost.RECOVER, 1)])
def test_a_restore_may_end_the_lost_run_or_go_on_with_it(cluster: Cluster, choice: IfLost, run: int) -> None:
    job = lose(cluster)

    made = cluster.client.job("flights").restore(
        RestoreRequest(job_id="flights", request_id="r", start_from="checkpoint-1", if_lost=choice)
    )

    assert made.run == run
    assert (job.runs.result(1) is not None) == (choice is IfLost.RESTART)


# A stop


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
        "drain": OperationState.ABANDONED,
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
    assert (stopped.state, stopped.error) == (OperationState.ABANDONED, "run 1 ended CANCELED before this was done")
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
    assert (answer.state, answer.error) == (OperationState.ABANDONED, "run 1 ended CANCELED before this was done")


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
    for named in (*said, "spark-ha recover"):
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

    assert operation.state is OperationState.ABANDONED
    assert (job.snapshot().state, job.runs.numbers()) == (JobState.LOST, [1, 2])


def test_a_recovery_of_a_run_that_is_not_the_newest_any_more_recovers_no_other(cluster: Cluster) -> None:
    job = lose(cluster)
    cluster.client.job("flights").submit(other_graph(cluster, if_lost=IfLost.RESTART))
    cluster.exit("flights")

    with pytest.raises(JobStateError, match="run 1 of job 'flights' is not the newest, which is 2"):
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
