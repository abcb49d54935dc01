"""What is asked of a job, and its answers, on the fake ensemble and on a real ZooKeeper."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Op
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.coordination.znode_records import read_record
from airflow_provider_ha.errors import FencedError, JobStateError, LeadershipError
from airflow_provider_ha.jobs.model import Operation, OperationKind, OperationState, RunEnd
from airflow_provider_ha.jobs.observe import create_job
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.runs.run_store import RunStore
from tests.support.clusters.jobs_helpers import NOON, Interrupted, a_result, lead, submit


BACKENDS = ("fake", "zookeeper")


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


def test_a_job_without_a_live_run_accepts_no_operation(coordinator: Coordinator, paths: JobPaths) -> None:
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
    asked = ask(coordinator, paths, kind=OperationKind.STOP)
    leadership = lead(coordinator, paths, config)

    taken = operations.claim(leadership, paths, asked)
    end_by(coordinator, paths, leadership, taken, {"savepoint_id": "s1"})

    found = ask(coordinator, paths, kind=OperationKind.STOP)
    assert (found.state, found.result, found.epoch) == (OperationState.COMPLETED, {"savepoint_id": "s1"}, 1)


def end_by(
    coordinator: Coordinator, paths: JobPaths, leadership: Leadership, operation: Operation, result: dict[str, Any]
) -> None:
    """End the run by an operation, as every process does that ends one."""
    ended = a_result(end=RunEnd.of(operation, result))
    answers = operations.ending_ops(coordinator, paths, 1, ended)
    leadership.commit(*answers, RunStore(coordinator, paths).result_op(1, ended))


def as_written(coordinator: Coordinator, paths: JobPaths, operation_id: str) -> Operation:
    found = read_record(coordinator, paths.operation(operation_id), Operation)
    assert found is not None
    return found[0]


def test_two_stops_of_one_run_have_one_answer_in_the_transaction_that_ends_it(
    coordinator: Coordinator, paths: JobPaths, config: HaConfig
) -> None:
    submit(coordinator, paths)
    first, second = (ask(coordinator, paths, each, OperationKind.STOP) for each in ("op-1", "op-2"))
    leadership = lead(coordinator, paths, config)

    end_by(coordinator, paths, leadership, operations.claim(leadership, paths, first), {"checkpoint": 7})

    answered = [as_written(coordinator, paths, each.operation_id) for each in (first, second)]
    assert [(each.state, each.result) for each in answered] == [(OperationState.COMPLETED, {"checkpoint": 7})] * 2


def test_a_stop_that_comes_while_another_ends_the_run_has_its_answer(
    coordinator: Coordinator, paths: JobPaths, config: HaConfig
) -> None:
    """It is requested after the look at what is open, and before the transaction."""
    submit(coordinator, paths)
    leadership = lead(coordinator, paths, config)
    first = operations.claim(leadership, paths, ask(coordinator, paths, "op-1", OperationKind.STOP))
    ended = a_result(end=RunEnd.of(first, {"checkpoint": 7}))
    answers = operations.ending_ops(coordinator, paths, 1, ended)
    ask(coordinator, paths, "op-2", OperationKind.STOP)
    leadership.commit(*answers, RunStore(coordinator, paths).result_op(1, ended))

    late = operations.read(coordinator, paths, "op-2")

    assert as_written(coordinator, paths, "op-2").state is OperationState.REQUESTED
    assert late is not None
    assert (late.state, late.result, late.finished_at) == (OperationState.COMPLETED, {"checkpoint": 7}, NOON)


def test_a_run_with_very_many_stop_requests_ends(
    coordinator: Coordinator, paths: JobPaths, config: HaConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "ANSWERED_AT_MOST", 2)
    submit(coordinator, paths)
    leadership = lead(coordinator, paths, config)
    asked = [ask(coordinator, paths, f"op-{number}", OperationKind.STOP) for number in range(4)]

    end_by(coordinator, paths, leadership, asked[3], {"checkpoint": 7})

    states = [as_written(coordinator, paths, each.operation_id).state for each in asked]
    assert states.count(OperationState.COMPLETED) == 2
    assert states[3] is OperationState.COMPLETED
    assert {each.state for each in operations.list_operations(coordinator, paths)} == {OperationState.COMPLETED}


def test_what_is_open_when_the_run_ends_reads_as_abandoned(coordinator: Coordinator, paths: JobPaths) -> None:
    """No process is left to write it: without this, a caller would wait for the answer without end."""
    submit(coordinator, paths)
    ask(coordinator, paths)
    coordinator.commit(RunStore(coordinator, paths).result_op(1, a_result()))

    found = operations.read(coordinator, paths, "op-1")

    assert found is not None
    assert found.state is OperationState.ABANDONED
    assert found.error == (
        "run 1 ended FINISHED before this was done. "
        "`spark-ha savepoint trigger flights` copies its newest proven checkpoint"
    )


def test_an_answer_that_comes_with_the_result_is_never_seen_as_abandoned(
    coordinator: Coordinator, cluster_paths: ClusterPaths, config: HaConfig
) -> None:
    """Fails when the operation is not read again after the result was seen."""
    seen = set()
    for position in range(4):
        paths = cluster_paths.job(f"stopping-{position}")
        submit(coordinator, paths)
        leadership = lead(coordinator, paths, config)
        taken = operations.claim(leadership, paths, ask(coordinator, paths, kind=OperationKind.STOP))
        ended = a_result(end=RunEnd.of(taken, {}))
        ops: tuple[Op, ...] = (
            *operations.ending_ops(coordinator, paths, 1, ended),
            RunStore(coordinator, paths).result_op(1, a_result()),  # whose end does not answer it
        )
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


def test_a_new_leader_takes_over_open_operations_and_no_final_ones(
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
