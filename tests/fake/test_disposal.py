"""Removing a savepoint of a job: who does it, and which answer is whose. The driver takes its steps while one waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.store.pointer_store import PointerStore
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.reader_leases import hold
from airflow_provider_ha.driver.checkpointing.savepoint_job import SavepointJob
from airflow_provider_ha.driver.operations_loop import OperationHandlers, OperationsLoop
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.errors import (
    CheckpointMissingError,
    JobStateError,
    LeadershipUnavailableError,
    OperationFailedError,
    OutcomeUnknownError,
)
from airflow_provider_ha.host.engines.registry import Engines
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.model import OperationKind, OperationState, StartKind, StartPoint
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.removal.checkpoint_deletion import ANSWER_SECONDS, dispose_savepoint
from airflow_provider_ha.jobs.runs.run_store import RunStore
from tests.conformance.stores.stage import Stage, add_savepoint, savepoints
from tests.fake.jobs import RecordingEngine
from tests.fake.memory_store import MemoryStore
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.clusters.coordination_helpers import JOB
from tests.support.clusters.jobs_helpers import a_result, a_run, begin_from_savepoint, submit


@pytest.fixture
def driver(stage: Stage) -> Job:
    """The driver of a job that has savepoint ``s1``."""
    led = stage.leader("driver")
    submit(led.coordinator, led.paths)
    add_savepoint(led, "s1", 3)
    return led


@pytest.fixture
def context(stage: Stage, driver: Job) -> JobContext:
    """The job as the command sees it; while it waits, the driver does what was asked."""
    loop = serving(driver)

    def wait(seconds: float) -> None:
        stage.wall.pass_by(seconds)
        loop.look()
        while not loop._work.empty():
            loop._do(loop._work.get())

    return asking(stage, wait)


def asking(stage: Stage, wait: Callable[[float], None]) -> JobContext:
    session = stage.session("command")
    return JobContext(
        job_id=JOB,
        config=stage.config,
        coordinator=session,
        store=MemoryStore(stage.wall),
        engines=Engines.only(RecordingEngine()),
        clock=stage.wall,
        sleep=wait,
    )


def serving(driver: Job, run: int = 1) -> OperationsLoop:
    nothing: Any = None
    maker = SavepointJob(driver.savepoints, driver.leadership, nothing, nothing, nothing, nothing)

    def unexpected(*_: object) -> None:
        raise AssertionError("it was not requested")

    return OperationsLoop(
        coordinator=driver.coordinator,
        paths=driver.paths,
        leadership=driver.leadership,
        lifecycle=Lifecycle(),
        handlers=OperationHandlers(
            bool,
            maker.create,
            maker.dispose,
            unexpected,
            unexpected,
            unexpected,
            maker.create,
            unexpected,
            unexpected,
            bool,
        ),
        run=run,
        clock=SystemClock(),
        failed=unexpected,
    )


def dispose(context: JobContext, driver: Job) -> None:
    dispose_savepoint(context, driver.savepoints, "s1", requested_by="a person")


def asked(context: JobContext, driver: Job, **arguments: str) -> None:
    operations.request(
        context.coordinator,
        driver.paths,
        OperationKind.DISPOSE,
        operation_id="by-hand",
        arguments=arguments,
        requested_by="a person",
        clock=context.clock,
    )


def requests(coordinator: Coordinator, driver: Job) -> list[OperationState]:
    return [each.state for each in operations.list_operations(coordinator, driver.paths)]


def test_a_driver_removes_the_savepoint_and_says_so(context: JobContext, driver: Job) -> None:
    dispose(context, driver)

    assert savepoints(driver) == []
    assert not driver.savepoints.directory("s1").exists()
    assert requests(context.coordinator, driver) == [OperationState.COMPLETED]


def test_a_savepoint_that_is_not_there_is_no_request(context: JobContext, driver: Job) -> None:
    with pytest.raises(CheckpointMissingError, match="s2"):
        dispose_savepoint(context, driver.savepoints, "s2", requested_by="a person")

    assert requests(context.coordinator, driver) == []


def test_a_savepoint_of_the_same_id_is_removed_again(context: JobContext, driver: Job) -> None:
    """It came back out of an archive; the answer about the first one is remembered for days."""
    dispose(context, driver)
    add_savepoint(driver, "s1", 4)

    dispose(context, driver)

    assert savepoints(driver) == []


def test_what_a_reader_kept_can_be_removed_once_it_is_read(context: JobContext, driver: Job) -> None:
    reader = hold(context.coordinator, driver.paths, "savepoint-s1", holder="a drill", seconds=600, clock=context.clock)
    with pytest.raises(
        OperationFailedError, match=r"'s1' .* was not removed: .* is being read\..*then repeat the request"
    ):
        dispose(context, driver)
    assert savepoints(driver) == ["s1"]
    reader.release()

    dispose(context, driver)

    assert savepoints(driver) == []


def test_a_driver_that_does_not_answer_is_asked_once(stage: Stage, driver: Job) -> None:
    began = stage.wall.lease_time()
    silent = asking(stage, stage.wall.pass_by)

    for _ in range(2):
        with pytest.raises(OutcomeUnknownError, match=r"has not answered operation 'dispose-\w+'.*the first one stays"):
            dispose(silent, driver)

    assert stage.wall.lease_time() - began == pytest.approx(2 * ANSWER_SECONDS, abs=1)
    assert requests(silent.coordinator, driver) == [OperationState.REQUESTED]
    assert savepoints(driver) == ["s1"]


def test_without_a_driver_it_is_removed_at_once(context: JobContext, driver: Job) -> None:
    driver.leadership.release()

    dispose(context, driver)

    assert savepoints(driver) == []
    assert requests(context.coordinator, driver) == []
    assert context.snapshot().leader is None, "the lock is free again"


def test_without_a_driver_what_is_read_stays(context: JobContext, driver: Job) -> None:
    driver.leadership.release()
    hold(context.coordinator, driver.paths, "savepoint-s1", holder="a drill", seconds=600, clock=context.clock)

    with pytest.raises(JobStateError, match="is being read"):
        dispose(context, driver)

    assert savepoints(driver) == ["s1"]


NEEDED = "run 2 of job 'flights' starts from savepoint 's1', and has taken no checkpoint yet"


def test_the_start_of_a_run_that_waits_for_its_driver_stays(context: JobContext, driver: Job) -> None:
    driver.leadership.release()
    begin_from_savepoint(context.coordinator, driver.paths, "s1")
    epoch = context.snapshot().epoch

    with pytest.raises(JobStateError, match=f"{NEEDED}.*Wait for its first checkpoint, or cancel the run"):
        dispose(context, driver)

    assert savepoints(driver) == ["s1"]
    assert context.snapshot().epoch == epoch, "its driver is on its way to the lock"


def test_a_driver_does_not_remove_the_start_of_its_run(context: JobContext, driver: Job) -> None:
    begin_from_savepoint(context.coordinator, driver.paths, "s1")
    asked(context, driver, savepoint_id="s1")
    loop = serving(driver, run=2)

    loop.look()
    loop._do(loop._work.get())

    answered = operations.read(context.coordinator, driver.paths, "by-hand")
    assert answered is not None
    assert (answered.state, NEEDED in answered.error) == (OperationState.FAILED, True)
    assert savepoints(driver) == ["s1"]


def test_the_start_of_a_run_can_go_once_the_run_has_a_checkpoint(
    context: JobContext, driver: Job, stage: Stage
) -> None:
    begin_from_savepoint(context.coordinator, driver.paths, "s1")
    driver.leadership.release()
    leader = stage.leader("driver of run 2")
    leader.checkpoints.add(leader.leadership, leader.checkpoint(1, 4).model_copy(update={"run": 2}))
    leader.leadership.release()

    dispose(context, driver)

    assert savepoints(driver) == []


@pytest.mark.parametrize("start", ["s2", "another job's s1", "checkpoint"])
def test_what_no_run_of_the_job_begins_from_can_go(context: JobContext, driver: Job, start: str) -> None:
    kind = StartKind.CHECKPOINT if start == "checkpoint" else StartKind.SAVEPOINT
    source = "another" if start.startswith("another") else JOB
    point = StartPoint(kind=kind, source_job=source, source_id="s2" if start == "s2" else "s1")
    runs = RunStore(context.coordinator, driver.paths)
    run = a_run(2, request_id="request-2").model_copy(update={"start": point})
    context.coordinator.commit(runs.result_op(1, a_result()), runs.create_op(run))
    driver.leadership.release()

    dispose(context, driver)

    assert savepoints(driver) == []


def test_a_run_that_is_over_needs_its_start_no_more(context: JobContext, driver: Job) -> None:
    begin_from_savepoint(context.coordinator, driver.paths, "s1")
    context.coordinator.commit(RunStore(context.coordinator, driver.paths).result_op(2, a_result()))
    driver.leadership.release()

    dispose(context, driver)

    assert savepoints(driver) == []


def test_a_run_that_is_made_at_the_last_moment_keeps_its_start(
    context: JobContext, driver: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A submitter takes no lock."""
    driver.leadership.release()
    mark = PointerStore.mark

    def submitted_first(*args: Any, **kwargs: Any) -> str | None:
        begin_from_savepoint(context.coordinator, driver.paths, "s1")
        return mark(*args, **kwargs)

    monkeypatch.setattr(PointerStore, "mark", submitted_first)

    with pytest.raises(JobStateError, match=r"was created while savepoint 's1' was being removed.*Repeat the request"):
        dispose(context, driver)

    assert savepoints(driver) == ["s1"]


def test_a_driver_that_came_up_meanwhile_is_asked(
    context: JobContext, driver: Job, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.leadership.release()
    before = context.snapshot()
    successor = stage.leader("successor")
    monkeypatch.setattr(JobContext, "snapshot", lambda _: before)
    loop = serving(successor)

    def wait(seconds: float) -> None:
        loop.look()
        loop._do(loop._work.get())

    def refused(*_: object, **__: object) -> None:
        raise LeadershipUnavailableError("another process leads")

    monkeypatch.setattr("airflow_provider_ha.jobs.removal.checkpoint_deletion.take_lock", refused)

    dispose(asking(stage, wait), successor)

    assert savepoints(successor) == []
    assert requests(context.coordinator, successor) == [OperationState.COMPLETED]


def test_a_request_that_names_no_savepoint_is_answered_with_what_is_missing(context: JobContext, driver: Job) -> None:
    asked(context, driver)

    context.sleep(0)

    answered = operations.read(context.coordinator, driver.paths, "by-hand")
    assert answered is not None
    assert answered.state is OperationState.FAILED
    assert "no savepoint_id is given" in answered.error
    assert savepoints(driver) == ["s1"]
