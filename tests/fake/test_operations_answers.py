"""What the driver answers to a stop that it cannot do, and what it does when it does not lead any more."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import pytest

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.coordination.coordinator import Delete
from airflow_provider_ha.driver.ending.stop_job import StopFailedError
from airflow_provider_ha.driver.operations_loop import OperationHandlers, OperationsLoop, abandoned
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.errors import LeadershipError, LeadershipLostError, OperationFailedError
from airflow_provider_ha.jobs.model import Operation, OperationKind, OperationState
from airflow_provider_ha.jobs.operations import operations
from tests.conformance.stores.stage import Stage
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.clusters.jobs_helpers import submit


class Driver:
    """A driver that leads run 1, and is asked for one operation.

    :ivar work: What it does for that.
    :ivar left: Why its process ends.
    """

    def __init__(self, job: Job, kind: OperationKind) -> None:
        self.job = job
        self.work: Callable[[], None] = lambda: None
        self.left: list[str | None] = []
        self.jvm_is_gone = False
        self.lifecycle = Lifecycle()
        self.loop = OperationsLoop(
            coordinator=job.coordinator,
            paths=job.paths,
            leadership=job.leadership,
            lifecycle=self.lifecycle,
            handlers=OperationHandlers(
                ready=lambda _: True,
                checkpoint=self._work,
                savepoint=self._work,
                dispose=self._work,
                stop=lambda _: self.work(),
                stopped=self.left.append,
                cancel=lambda _: self.work(),
                hand_over=lambda: self.work(),
                make_way=lambda operation: self.left.append(f"{operation.operation.value} {self.asked().state.value}"),
                jvm_is_gone=lambda: self.jvm_is_gone,
            ),
            run=1,
            clock=SystemClock(),
            failed=lambda _: None,
        )
        operations.request(
            job.coordinator,
            job.paths,
            kind,
            operation_id="asked",
            arguments={},
            requested_by="a person",
            clock=SystemClock(),
        )

    def _work(self, _: Operation) -> dict[str, object]:
        self.work()
        return {}

    def serve(self) -> Operation:
        """Take the operation up, and do it."""
        self.loop.look()
        self.loop._do(self.loop._work.get(timeout=1))
        return self.asked()

    def asked(self) -> Operation:
        found = operations.read(self.job.coordinator, self.job.paths, "asked")
        assert found is not None
        return found


@pytest.fixture
def job(stage: Stage) -> Job:
    led = stage.leader("driver")
    submit(led.coordinator, led.paths)
    return led


def test_a_stop_that_fails_before_the_first_query_is_asked_leaves_the_end_to_the_next_one(job: Job) -> None:
    driver = Driver(job, OperationKind.STOP)

    def refuse() -> None:
        raise OperationFailedError("a query is at rest", next_step="Try again later")

    driver.work = refuse

    answered = driver.serve()

    assert (answered.state, answered.error) == (OperationState.FAILED, "a query is at rest. Try again later.")
    assert driver.left == []
    assert driver.lifecycle.claim_end()


def test_a_stop_that_fails_after_that_is_answered_with_what_is_left_and_ends_the_process(job: Job) -> None:
    driver = Driver(job, OperationKind.STOP)

    def fail() -> None:
        driver.lifecycle.begin_stop()
        raise StopFailedError("the disk is full", {"checkpoint": 7})

    driver.work = fail

    answered = driver.serve()

    assert (answered.state, answered.result) == (OperationState.FAILED, {"checkpoint": 7})
    assert driver.left == [answered.error]
    assert not driver.lifecycle.claim_end(), "the next process has it"


def test_a_stop_that_fails_because_the_jvm_has_died_is_left_to_the_next_driver(job: Job) -> None:
    driver = Driver(job, OperationKind.STOP)
    driver.jvm_is_gone = True

    def fail() -> None:
        driver.lifecycle.begin_stop()
        raise StopFailedError("Error while sending or receiving", {})

    driver.work = fail

    answered = driver.serve()

    assert answered.state is OperationState.RUNNING, "an answer would tell the person that the job runs on"
    assert len(driver.left) == 1


def test_a_stop_of_a_script_that_has_ended_by_itself_is_answered_by_the_writer_of_its_result(job: Job) -> None:
    driver = Driver(job, OperationKind.STOP)
    driver.work = lambda: pytest.fail("the run has its end already")
    assert driver.lifecycle.claim_end()

    assert driver.serve().state is OperationState.RUNNING

    assert driver.left == []


def test_what_waits_behind_a_stop_is_not_begun_once_the_queries_are_stopped(job: Job) -> None:
    driver = Driver(job, OperationKind.CANCEL_WITH_SAVEPOINT)
    driver.work = lambda: pytest.fail("the end of the run answers it")
    driver.loop.look()
    driver.lifecycle.begin_stop()

    driver.loop._do(driver.loop._work.get(timeout=1))

    assert driver.asked().state is OperationState.RUNNING


def test_a_hand_over_is_answered_before_its_process_ends(job: Job) -> None:
    driver = Driver(job, OperationKind.HAND_OVER)
    driver.work = driver.lifecycle.begin_stop

    answered = driver.serve()

    assert (answered.state, driver.left) == (OperationState.COMPLETED, ["hand-over COMPLETED"])
    assert not driver.lifecycle.claim_end(), "a script that ends now does not finish the run"


def test_a_hand_over_that_is_refused_leaves_the_job_running(job: Job) -> None:
    driver = Driver(job, OperationKind.HAND_OVER)

    def refuse() -> None:
        raise OperationFailedError("no standby driver is ready", next_step="Wait for one")

    driver.work = refuse

    answered = driver.serve()

    assert (answered.state, driver.left) == (OperationState.FAILED, [])
    assert driver.lifecycle.claim_end()


def test_a_fail_over_is_answered_before_the_kill_and_stops_no_query(job: Job) -> None:
    driver = Driver(job, OperationKind.FAIL_OVER)
    driver.work = lambda: pytest.fail("a rehearsal is a loss in the middle of a batch")

    answered = driver.serve()

    assert (answered.state, driver.left) == (OperationState.COMPLETED, ["fail-over COMPLETED"])


@pytest.mark.parametrize("kind", [OperationKind.HAND_OVER, OperationKind.FAIL_OVER])
def test_a_takeover_that_an_earlier_driver_began_is_not_repeated(job: Job, kind: OperationKind) -> None:
    """Otherwise the driver that follows ends as well, and so on."""
    begun = Driver(job, kind).asked().model_copy(update={"state": OperationState.RUNNING, "epoch": 1})

    assert abandoned(begun, run=1, epoch=2) == "the driver of epoch 1 died while it worked on it"


@pytest.mark.parametrize(
    ("kind", "way_on"),
    [
        (
            OperationKind.CANCEL_WITH_SAVEPOINT,
            ". To end the run immediately: `spark-ha job cancel {}`, without a savepoint",
        ),
        (OperationKind.SAVEPOINT, ""),
    ],
    ids=["cancel", "savepoint"],
)
def test_what_comes_while_the_run_ends_is_named_once_in_the_log(
    job: Job, kind: OperationKind, way_on: str, caplog: pytest.LogCaptureFixture
) -> None:
    driver = Driver(job, kind)
    driver.lifecycle.begin_stop()

    with caplog.at_level(logging.INFO):
        driver.loop.look()
        taken_up = caplog.messages[-1]
        driver.loop._do(driver.loop._work.get(timeout=1))

    assert taken_up == (
        f"operation asked ({kind.value}) waits: run 1 is ending already. The end of the run answers it, or the next "
        f"driver takes it up{way_on.format(job.paths.job_id)}"
    )
    assert caplog.messages.count(taken_up) == 1


def test_what_was_taken_up_before_the_stop_is_named_when_it_would_begin(
    job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    driver = Driver(job, OperationKind.SAVEPOINT)
    driver.loop.look()
    driver.lifecycle.begin_stop()

    with caplog.at_level(logging.INFO):
        driver.loop._do(driver.loop._work.get(timeout=1))

    assert caplog.messages[-1].startswith("operation asked (savepoint) waits: run 1 is ending already.")


def test_an_operation_whose_driver_lost_its_lead_in_the_middle_is_not_answered(job: Job) -> None:
    driver = Driver(job, OperationKind.SAVEPOINT)

    def lose() -> None:
        raise LeadershipLostError("the lease ran out")

    driver.work = lose

    with pytest.raises(LeadershipLostError):
        driver.serve()

    assert driver.asked().state is OperationState.RUNNING, "the next epoch takes it up"


def test_a_driver_that_leads_no_more_takes_nothing_up(stage: Stage, job: Job) -> None:
    driver = Driver(job, OperationKind.SAVEPOINT)
    stage.depose(job)

    with pytest.raises(LeadershipError):
        driver.loop.look()

    assert driver.asked().state is OperationState.REQUESTED


@pytest.mark.parametrize("kind", [OperationKind.SAVEPOINT, OperationKind.CHECKPOINT])
def test_what_needs_queries_waits_until_the_script_has_started_them(job: Job, kind: OperationKind) -> None:
    driver, asked, ready = Driver(job, kind), [], False

    def is_ready(kind: OperationKind) -> bool:
        asked.append(kind)
        return ready

    driver.loop.handlers = replace(driver.loop.handlers, ready=is_ready)
    driver.loop.look()
    waiting = driver.asked().state
    ready = True

    assert (waiting, driver.serve().state) == (OperationState.REQUESTED, OperationState.COMPLETED)
    assert set(asked) == {kind}


SAVED: dict[str, object] = {"savepoint_id": "s1", "path": "/savepoints/s1"}


class Canceling(Driver):
    """A driver that is asked for a cancel with a savepoint.

    :ivar ended: The operations for which its process was to end, as ZooKeeper had them at that moment.
    """

    def __init__(self, job: Job) -> None:
        super().__init__(job, OperationKind.CANCEL_WITH_SAVEPOINT)
        self.ended: list[Operation] = []
        self.loop.handlers = replace(
            self.loop.handlers, savepoint=self._save, cancel=lambda _: self.ended.append(self.asked())
        )

    def _save(self, _: Operation) -> dict[str, object]:
        self.work()
        return SAVED


def test_a_cancel_with_a_savepoint_ends_the_run_once_the_savepoint_is_noted(job: Job) -> None:
    driver = Canceling(job)

    driver.serve()

    [noted] = driver.ended
    assert (noted.state, noted.result) == (OperationState.RUNNING, SAVED)
    assert operations.open_cancels(job.coordinator, job.paths, 1) == [noted]


def test_a_cancel_whose_savepoint_fails_ends_nothing(job: Job) -> None:
    driver = Canceling(job)

    def refuse() -> None:
        raise OperationFailedError("the disk is full", next_step="Make room")

    driver.work = refuse

    answered = driver.serve()

    assert (answered.state, answered.error) == (OperationState.FAILED, "the disk is full. Make room.")
    assert driver.ended == []
    assert driver.left == []
    assert operations.open_cancels(job.coordinator, job.paths, 1) == []


def test_a_driver_that_loses_its_lead_during_the_savepoint_leaves_the_cancel_to_the_next_one(job: Job) -> None:
    driver = Canceling(job)

    def lose() -> None:
        raise LeadershipLostError("the lease ran out")

    driver.work = lose
    driver.loop.look()
    with pytest.raises(LeadershipError):
        driver.loop._do(driver.loop._work.get(timeout=1))

    assert (driver.asked().state, driver.ended) == (OperationState.RUNNING, [])
    assert operations.open_cancels(job.coordinator, job.paths, 1) == [], "no process ends the run yet"


def test_a_cancel_whose_savepoint_an_earlier_driver_took_ends_the_run_before_the_script_is_ready(job: Job) -> None:
    driver = Canceling(job)
    operations.note(job.leadership, job.paths, driver.asked(), result=SAVED)
    driver.loop.handlers = replace(driver.loop.handlers, ready=lambda _: False)

    driver.loop.look()

    assert [each.result for each in driver.ended] == [SAVED]


def test_a_cancel_that_was_removed_during_its_savepoint_ends_nothing(job: Job) -> None:
    driver = Canceling(job)

    def remove() -> None:
        job.coordinator.commit(Delete(job.paths.operation("asked")))

    driver.work = remove
    driver.loop.look()

    driver.loop._do(driver.loop._work.get(timeout=1))

    assert driver.ended == []
