"""What is asked of a job, and its answers, on the fake ensemble and on a real ZooKeeper."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.errors import FencedError, JobStateError, LeadershipError
from airflow_provider_ha.jobs import operations
from airflow_provider_ha.jobs.jobs import create_job
from airflow_provider_ha.jobs.model import Operation, OperationKind, OperationState
from airflow_provider_ha.jobs.runs import RunStore
from tests.support.clusters.jobs_helpers import NOON, Interrupted, a_result, lead, submit


BACKENDS = ("fake", "zookeeper")


@pytest.fixture
def paths(cluster_paths: ClusterPaths) -> JobPaths:
    return cluster_paths.job("flights")


def ask(
    coordinator: Coordinator, paths: JobPaths, operation_id: str = "op-1", kind: OperationKind = OperationKind.SAVEPOINT
) -> Operation:
    return operations.request(
        coordinator,
        paths,
        kind,
        operation_id=operation_id,
        arguments={"label": "nightly"},
        requested_by="dag 'nightly', task savepoint",
        clock=SystemClock(),
    )


def test_asking_twice_with_one_id_is_asking_once(coordinator: Coordinator, paths: JobPaths) -> None:
    submit(coordinator, paths)

    first = ask(coordinator, paths)
    second = ask(coordinator, paths)

    assert first == second
    assert operations.list_operations(coordinator, paths) == [first]
    assert first.state is OperationState.REQUESTED


def test_one_id_cannot_ask_for_two_things(coordinator: Coordinator, paths: JobPaths) -> None:
    submit(coordinator, paths)
    ask(coordinator, paths)

    with pytest.raises(JobStateError, match="another operation id"):
        ask(coordinator, paths, kind=OperationKind.CANCEL)


def test_nothing_can_be_asked_of_a_job_without_a_live_run(coordinator: Coordinator, paths: JobPaths) -> None:
    create_job(coordinator, paths)
    with pytest.raises(JobStateError, match="Submit"):
        ask(coordinator, paths)

    submit(coordinator, paths)
    coordinator.commit(RunStore(coordinator, paths).result_op(1, a_result()))
    with pytest.raises(JobStateError, match="FINISHED"):
        ask(coordinator, paths)

    assert coordinator.children(paths.operations) == []


def test_an_answer_is_found_again_after_the_run_ended(
    coordinator: Coordinator, paths: JobPaths, config: HaConfig
) -> None:
    submit(coordinator, paths)
    asked = ask(coordinator, paths)
    leadership = lead(coordinator, paths, config)

    taken = operations.claim(leadership, paths, asked)
    answer = operations.completed_op(paths, taken, result={"savepoint_id": "s1"}, at=NOON)
    leadership.commit(answer, RunStore(coordinator, paths).result_op(1, a_result()))

    found = ask(coordinator, paths)
    assert (found.state, found.result, found.epoch) == (OperationState.COMPLETED, {"savepoint_id": "s1"}, 1)


def test_what_is_open_when_the_run_ends_reads_as_abandoned(coordinator: Coordinator, paths: JobPaths) -> None:
    """No process is left to write it: without this, a caller would wait for the answer without end."""
    submit(coordinator, paths)
    ask(coordinator, paths)
    coordinator.commit(RunStore(coordinator, paths).result_op(1, a_result()))

    found = operations.read(coordinator, paths, "op-1")

    assert found is not None
    assert found.state is OperationState.ABANDONED
    assert "FINISHED" in found.error


def test_an_answer_that_comes_with_the_result_is_never_seen_as_abandoned(
    coordinator: Coordinator, cluster_paths: ClusterPaths, config: HaConfig
) -> None:
    """Fails when the operation is not read again after the result was seen."""
    seen = set()
    for position in range(4):
        paths = cluster_paths.job(f"stopping-{position}")
        submit(coordinator, paths)
        leadership = lead(coordinator, paths, config)
        taken = operations.claim(leadership, paths, ask(coordinator, paths))
        answer = operations.completed_op(paths, taken, result={}, at=NOON)
        ops = (answer, RunStore(coordinator, paths).result_op(1, a_result()))
        watched = Interrupted(coordinator, partial(leadership.commit, *ops), before_read=position)

        found = operations.read(watched, paths, "op-1")

        assert found is not None
        seen.add(found.state)

    assert seen == {OperationState.RUNNING, OperationState.COMPLETED}


def test_a_deposed_leader_cannot_answer(coordinator: Coordinator, paths: JobPaths, config: HaConfig) -> None:
    submit(coordinator, paths)
    asked = ask(coordinator, paths)
    deposed = lead(coordinator, paths, config)
    taken = operations.claim(deposed, paths, asked)
    deposed.release()
    lead(coordinator, paths, config)

    with pytest.raises(LeadershipError) as refused:
        operations.complete(deposed, paths, taken, result={}, clock=SystemClock())

    assert isinstance(refused.value, FencedError) or "released" in str(refused.value)
    assert (found := operations.read(coordinator, paths, "op-1")) is not None
    assert found.state is OperationState.RUNNING


def test_a_new_leader_takes_over_what_a_lost_one_left_and_nothing_that_is_final(
    coordinator: Coordinator, paths: JobPaths, config: HaConfig
) -> None:
    submit(coordinator, paths)
    lost = lead(coordinator, paths, config)
    left = operations.claim(lost, paths, ask(coordinator, paths))
    lost.release()
    leadership = lead(coordinator, paths, config)

    taken = operations.claim(leadership, paths, left)
    failed = operations.fail(
        leadership, paths, taken, error="the stop hangs", result={"path": "checkpoints/7"}, clock=SystemClock()
    )

    assert taken.epoch == 2
    assert operations.read(coordinator, paths, "op-1") == failed
    assert failed.result == {"path": "checkpoints/7"}
    with pytest.raises(JobStateError, match="FAILED"):
        operations.claim(leadership, paths, failed)


def test_only_final_operations_are_forgotten_by_age_or_by_number() -> None:
    def operation(number: int, *, age: timedelta, final: bool = True) -> Operation:
        at = NOON - age
        return Operation(
            operation_id=f"op-{number}",
            operation=OperationKind.STOP,
            run=1,
            requested_by="test",
            requested_at=at,
            state=OperationState.COMPLETED if final else OperationState.RUNNING,
            finished_at=at if final else None,
        )

    hour = timedelta(hours=1)
    recent = [operation(number, age=number * timedelta(minutes=1)) for number in range(99)]
    old_and_open = operation(200, age=timedelta(days=30), final=False)
    hundredth = operation(300, age=hour * 3)
    surplus = operation(301, age=hour * 4)
    outdated = operation(302, age=timedelta(days=8))

    assert operations.expired([*recent, hundredth, surplus, old_and_open], NOON) == [surplus]
    assert operations.expired([outdated, old_and_open, *recent[:5]], NOON) == [outdated]
