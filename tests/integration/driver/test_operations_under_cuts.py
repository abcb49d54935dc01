"""Each write of the operations' threads meets a cut of the connection, on a real ZooKeeper: the driver goes on.

Cut before a transaction, and nothing was sent; cut after it, and the answer is lost. T is 4 s, the most that the server
of the tests grants, so that a busy machine has two seconds to spare.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Delete
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.driver.operations_loop import OperationHandlers, OperationsLoop
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.errors import OperationFailedError, StorageUnavailableError
from airflow_provider_ha.jobs.model import Operation, OperationKind, OperationState
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.testing.proxy import FaultProxy
from airflow_provider_ha.testing.waiting import wait_until
from tests.conftest import FAST
from tests.support.clusters.coordination_helpers import ignore, job_paths, lead
from tests.support.clusters.jobs_helpers import submit


CUT_SECONDS = 1.0  # of the 3.2 s that these timings survive
PATIENT = FAST.model_copy(update={"session_timeout": 4.0})
CUTS = {"before": FaultProxy.cut_before_transaction, "after": FaultProxy.cut_after_transaction}


@dataclass
class Stage:
    """A driver's operations loop behind a proxy, and a client beside it."""

    coordinator: Coordinator
    paths: JobPaths
    proxy: FaultProxy
    leadership: Leadership
    loop: OperationsLoop
    done: list[str]
    errors: list[BaseException] = field(default_factory=list)

    def ask(self, operation_id: str, kind: OperationKind = OperationKind.SAVEPOINT, **arguments: Any) -> None:
        operations.request(
            self.coordinator,
            self.paths,
            kind,
            operation_id=operation_id,
            arguments=arguments,
            requested_by="test",
            clock=SystemClock(),
        )

    def state(self, operation_id: str) -> OperationState | None:
        found = operations.read(self.coordinator, self.paths, operation_id)
        return found.state if found else None

    def await_state(self, operation_id: str, state: OperationState) -> None:
        wait_until(
            lambda: self.errors or self.state(operation_id) is state, timeout=20, what=f"{operation_id} {state.value}"
        )
        assert self.errors == []
        assert self.state(operation_id) is state

    def assert_still_leading(self) -> None:
        assert not self.leadership.lost.is_set()
        assert self.leadership.epoch == 1


@pytest.fixture
def config(config: HaConfig) -> HaConfig:
    return config.model_copy(update={"timings": PATIENT})


@pytest.fixture
def stage(config: HaConfig, coordinator: Coordinator, proxy: FaultProxy) -> Iterator[Stage]:
    driver = KazooCoordinator.connect(config.model_copy(update={"zookeeper": proxy.hosts}))
    paths = job_paths(config)
    submit(coordinator, paths)
    with lead(config, driver) as leadership:
        leadership.start_heartbeats(ignore)
        done: list[str] = []
        errors: list[BaseException] = []
        cancels = iter((StorageUnavailableError("the journal cannot be written"), None))

        def savepoint(operation: Operation) -> dict[str, Any]:
            done.append(operation.operation_id)
            if operation.arguments.get("label") == "fails":
                raise OperationFailedError("it cannot be made")
            if operation.arguments.get("label") == "in the way":
                raise NotADirectoryError(errno.ENOTDIR, "a file is in the way")
            return {"savepoint_id": operation.operation_id}

        def cancel(operation: Operation) -> None:
            done.append(operation.operation_id)
            if (error := next(cancels)) is not None:
                raise error

        loop = OperationsLoop(
            coordinator=driver,
            paths=paths,
            leadership=leadership,
            lifecycle=Lifecycle(),
            handlers=OperationHandlers(
                lambda _: True,
                savepoint,
                lambda _: {},
                ignore,
                ignore,
                cancel,
                lambda _: {},
                lambda: None,
                ignore,
                bool,
            ),
            run=1,
            clock=SystemClock(),
            failed=errors.append,
        )
        loop.start()
        yield Stage(coordinator, paths, proxy, leadership, loop, done, errors)
        loop.lifecycle.leaving.set()
    driver.close()


@pytest.mark.parametrize("moment", CUTS)
def test_savepoint_whose_answer_meets_a_cut_of_a_second_is_completed(stage: Stage, moment: str) -> None:
    CUTS[moment](stage.proxy, "COMPLETED")

    stage.ask("op")
    assert stage.proxy.hit.wait(20)
    stage.proxy.cut()
    healing = threading.Timer(CUT_SECONDS, stage.proxy.heal)
    healing.start()

    stage.await_state("op", OperationState.COMPLETED)
    healing.join()
    stage.assert_still_leading()
    assert stage.done == ["op"]


@pytest.mark.parametrize("moment", CUTS)
def test_failure_whose_answer_is_cut_off_is_reported(stage: Stage, moment: str) -> None:
    CUTS[moment](stage.proxy, "FAILED")

    stage.ask("op", label="fails")

    stage.await_state("op", OperationState.FAILED)
    assert stage.proxy.hit.is_set()
    stage.assert_still_leading()


def test_a_file_in_the_way_fails_the_operation_and_not_the_driver(stage: Stage) -> None:
    stage.ask("op", label="in the way")

    stage.await_state("op", OperationState.FAILED)
    stage.assert_still_leading()


@pytest.mark.parametrize("moment", CUTS)
def test_operation_whose_claim_meets_a_cut_is_done_once(stage: Stage, moment: str) -> None:
    CUTS[moment](stage.proxy, "RUNNING")

    stage.ask("op")

    stage.await_state("op", OperationState.COMPLETED)
    assert stage.proxy.hit.is_set()
    assert stage.done == ["op"]


def test_operation_of_another_run_is_abandoned_through_a_cut(stage: Stage) -> None:
    stage.proxy.cut_before_transaction("ABANDONED")
    asked = Operation(
        operation_id="op",
        operation=OperationKind.SAVEPOINT,
        run=7,
        requested_by="test",
        requested_at=SystemClock().now(),
    )

    stage.coordinator.commit(Create(stage.paths.operation("op"), asked.to_bytes()))

    stage.await_state("op", OperationState.ABANDONED)
    assert stage.proxy.hit.is_set()


def test_old_answer_is_forgotten_through_a_cut(stage: Stage) -> None:
    at = SystemClock().now() - timedelta(days=8)
    old = Operation(
        operation_id="old",
        operation=OperationKind.SAVEPOINT,
        run=1,
        requested_by="test",
        requested_at=at,
        state=OperationState.COMPLETED,
        finished_at=at,
    )
    stage.proxy.cut_before_transaction("operations/old")

    stage.coordinator.commit(Create(stage.paths.operation("old"), old.to_bytes()))

    wait_until(lambda: stage.errors or stage.state("old") is None, timeout=20, what="the old answer to be forgotten")
    assert stage.errors == []
    assert stage.proxy.hit.is_set()


def test_answer_to_an_operation_whose_node_was_removed_ends_no_driver(stage: Stage) -> None:
    def removed(operation: Operation) -> dict[str, Any]:
        stage.coordinator.commit(Delete(stage.paths.operation(operation.operation_id)))
        return {}

    stage.loop.handlers = OperationHandlers(
        lambda _: True, removed, lambda _: {}, ignore, ignore, ignore, lambda _: {}, lambda: None, ignore, bool
    )
    stage.ask("gone")
    wait_until(lambda: stage.state("gone") is None, timeout=20, what="the node to be gone")
    stage.ask("next", OperationKind.DISPOSE, savepoint_id="any")

    stage.await_state("next", OperationState.COMPLETED)


def test_cancel_that_meets_an_error_is_carried_out_again(stage: Stage) -> None:
    stage.ask("op", OperationKind.CANCEL)

    wait_until(lambda: stage.errors or stage.done == ["op", "op"], timeout=20, what="the second try")
    assert stage.errors == []


def test_operation_that_nobody_can_read_keeps_no_other_from_being_done(stage: Stage) -> None:
    stage.coordinator.commit(Create(stage.paths.operation("broken"), b"garbled"))

    stage.ask("op")

    stage.await_state("op", OperationState.COMPLETED)


def test_stop_that_cannot_be_meant_never_claims_the_end_of_the_run(stage: Stage) -> None:
    claims: list[bool] = []

    def claim_end() -> bool:
        claims.append(True)
        return False

    stage.loop.lifecycle.claim_end = claim_end  # type: ignore[method-assign]  # it is never to be called

    stage.ask("op", OperationKind.STOP, mode="gently")

    stage.await_state("op", OperationState.FAILED)
    assert claims == []


def test_step_of_the_wall_clock_ages_no_answer() -> None:
    clock = _SteppedClock()
    loop = _idle_loop(clock)

    clock.step = timedelta(days=8)
    clock.boot += 5

    assert loop._now() == clock.begin + timedelta(seconds=5)


class _SteppedClock:
    """A wall clock that an operator sets, beside a boot-time clock that goes on."""

    def __init__(self) -> None:
        self.begin = SystemClock().now()
        self.step = timedelta()
        self.boot = 100.0

    def now(self) -> datetime:
        return self.begin + self.step

    def lease_time(self) -> float:
        return self.boot


def _idle_loop(clock: Any) -> OperationsLoop:
    nothing: Callable[..., Any] = ignore
    return OperationsLoop(
        coordinator=None,  # type: ignore[arg-type]
        paths=None,  # type: ignore[arg-type]
        leadership=None,  # type: ignore[arg-type]
        lifecycle=Lifecycle(),
        handlers=OperationHandlers(lambda _: True, *[nothing] * 9),
        run=1,
        clock=clock,
        failed=nothing,
    )
