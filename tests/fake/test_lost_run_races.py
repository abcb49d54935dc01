"""What a caller without a driver answers when another process, or an outage, is faster: one order each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_ha.coordination.coordinator import Create, Delete
from airflow_provider_ha.errors import (
    ConfigurationError,
    EngineUnavailableError,
    HaError,
    JobStateError,
    LeadershipUnavailableError,
    OutcomeUnknownError,
    StorageUnavailableError,
)
from airflow_provider_ha.host.engines.engine import Observation, PendingSubmission, RunningSubmission
from airflow_provider_ha.jobs.drivers.driver_home import Ticket
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.model import JobState, Operation, OperationKind, OperationState, StartPoint
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.operations.stop import cancel, stop
from airflow_provider_ha.jobs.recovery import transactions as concluding
from airflow_provider_ha.jobs.recovery.lost_runs import carry_out_cancel, lost_run, recover
from airflow_provider_ha.jobs.runs.submissions import DriverHandle, Submission, SubmissionStarted
from airflow_provider_ha.jobs.submit import run_submission as submitting
from airflow_provider_ha.jobs.submit.launch import ensure_submitted
from airflow_provider_ha.jobs.submit.run_submission import PreparedSubmission as PreparedRun
from airflow_provider_ha.jobs.submit.run_submission import failed_run, submit_run
from tests.engine_helpers import handle, started
from tests.fake.jobs import PATHS, RecordingEngine, World
from tests.fake.orders import LOST
from tests.support.fake.faults import Fault, Planned


@pytest.fixture(autouse=True)
def _wait_for_no_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concluding, "LOCK_SECONDS", 0.0)


@pytest.fixture
def world() -> World:
    """Run 1 was led in epoch 1, and its driver is lost."""
    return LOST.world()


def driver_leads(world: World) -> None:
    """Let the driver that was taken for lost lead after all."""
    world.lead(world.job(world.session("driver")), run=1, attempt=1)


def after_the_next_look(monkeypatch: pytest.MonkeyPatch, event: Callable[[], None]) -> None:
    """Let something happen right after the next time that the job is read."""
    look, events = JobContext.snapshot, [event]

    def snapshot(job: JobContext) -> Any:
        seen = look(job)
        if events:
            events.pop()()
        return seen

    monkeypatch.setattr(JobContext, "snapshot", snapshot)


def suspend(job: JobContext) -> Operation:
    return stop(job, operation_id="stop-1", requested_by="a person", mode="suspend", savepoint=False)


def test_a_lost_run_without_a_graph_pointer_is_refused_with_the_reason(job: JobContext) -> None:
    job.coordinator.commit(Delete(PATHS.job_graph))

    with pytest.raises(JobStateError, match="run 1 has no graph pointer"):
        recover(job, by="a person")

    assert [each.submission.attempt for each in job.runs.get(1).submissions] == [1]


def test_a_stop_whose_answer_was_lost_with_its_request_says_so_and_can_be_repeated(
    world: World, job: JobContext
) -> None:
    world.ensemble.faults.plan(Planned(Fault.DROP_REQUEST, "caller", "/result"))

    with pytest.raises(OutcomeUnknownError, match="result"):
        suspend(job)

    assert job.runs.result(1) is None
    world.ensemble.advance(5)
    assert suspend(job).state is OperationState.COMPLETED
    ended = job.runs.result(1)
    assert ended is not None
    assert ended.state is JobState.FINISHED


def test_a_stop_answers_with_the_number_of_a_checkpoint_that_cannot_be_read_now(
    job: JobContext, caplog: pytest.LogCaptureFixture
) -> None:
    job.coordinator.commit(Create(PATHS.checkpoint(7), b"no pointer"))

    answered = suspend(job)

    assert (answered.state, answered.result) == (OperationState.COMPLETED, {"checkpoint": 7})
    assert "Checkpoint 7 of job 'flights' cannot be read now" in caplog.text


def test_a_cancel_is_left_to_a_driver_that_leads_since_the_look(
    world: World, job: JobContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    after_the_next_look(monkeypatch, lambda: driver_leads(world))

    asked = cancel(job, operation_id="cancel-1", requested_by="a person")

    assert asked.state is OperationState.REQUESTED
    assert job.runs.result(1) is None


class Ending(RecordingEngine):
    """Ends what it is asked to end, if it can be reached."""

    def __init__(self, error: HaError | None = None) -> None:
        super().__init__()
        self._error = error
        self.asked: list[tuple[str, DriverHandle]] = []

    def terminate(self, handle: DriverHandle) -> None:
        self.asked.append(("terminate", handle))
        if self._error is not None:
            raise self._error

    def forget(self, handle: DriverHandle) -> None:
        self.asked.append(("forget", handle))


def test_what_is_not_proven_dead_of_a_run_that_has_ended_is_ended_and_forgotten(world: World, job: JobContext) -> None:
    world.engine = engine = Ending()

    ended = cancel(world.job(job.coordinator), operation_id="cancel-1", requested_by="a person")

    assert ended.state is OperationState.COMPLETED
    assert engine.asked == [("terminate", handle()), ("forget", handle())]


def test_what_has_left_an_exit_is_left_alone(world: World, job: JobContext) -> None:
    concluding.note_not_launched(job, 1, 1, "it is gone", outage=False)
    world.engine = engine = Ending()

    cancel(world.job(job.coordinator), operation_id="cancel-1", requested_by="a person")

    assert engine.asked == []


def test_a_stop_of_a_run_whose_driver_cannot_be_reached_is_complete(world: World, job: JobContext) -> None:
    world.engine = engine = Ending(EngineUnavailableError("no master answers"))

    ended = suspend(world.job(job.coordinator))

    assert ended.state is OperationState.COMPLETED
    assert engine.asked == [("terminate", handle())]


def test_an_open_cancel_of_a_lost_run_is_left_to_a_driver_that_leads_since(world: World, job: JobContext) -> None:
    lost = lost_run(job.snapshot())
    assert lost is not None
    operations.request(
        job.coordinator,
        PATHS,
        OperationKind.CANCEL,
        operation_id="cancel-1",
        arguments={},
        requested_by="a person",
        clock=job.clock,
    )
    driver_leads(world)

    assert carry_out_cancel(job, lost, by="a person")

    assert job.runs.result(1) is None
    assert [each.state for each in operations.list_operations(job.coordinator, PATHS)] == [OperationState.REQUESTED]


class Refusing(RecordingEngine):
    """Starts nothing, and says why."""

    def __init__(self, error: HaError) -> None:
        super().__init__()
        self._error = error

    def launch(self, ticket: Ticket, reserved: DriverHandle | None) -> DriverHandle:
        raise self._error


@pytest.mark.parametrize(
    ("error", "outage"),
    [
        (ConfigurationError("there is no spark-submit"), False),
        (StorageUnavailableError("the disk is full"), True),
        (EngineUnavailableError("no master answers"), True),
    ],
)
def test_a_launch_that_is_refused_is_the_end_of_its_submission(
    world: World, job: JobContext, error: HaError, outage: bool
) -> None:
    """Else the next caller would wait until the launch is overdue; and an outage uses up no attempt."""
    world.engine = Refusing(error)
    world.ensemble.advance(60)

    with pytest.raises(type(error)):
        recover(world.job(job.coordinator), by="caller", wait=False)

    ended = job.runs.get(1).submissions[-1]
    assert ended.submission.attempt == 2
    assert ended.exit is not None
    assert (ended.exit.reason, ended.exit.outage) == (f"it could not be launched: {error}", outage)


class Late(RecordingEngine):
    """Sees nothing of a submission; another process goes on with it while this one looks."""

    def __init__(self, event: Callable[[], None]) -> None:
        super().__init__()
        self._event = event

    def seen(self, submission_id: str, known: DriverHandle | None) -> Observation:
        self._event()
        return super().seen(submission_id, known)


def claimed(world: World) -> JobContext:
    """Return a job whose second submission is made by another process, which has not started it yet."""
    job = world.job(world.session("caller"))
    made = Submission(
        attempt=2, submission_id="s-2", requested_by="other", engine="local", created_at=world.ensemble.clock.now()
    )
    job.coordinator.commit(Create(PATHS.submission(1, 2), made.to_bytes()))
    return job


def test_a_submission_that_another_process_starts_during_the_look_is_not_made_again(world: World) -> None:
    other = claimed(world)
    start = Create(PATHS.submission_started(1, 2), started().to_bytes())

    def start_it() -> None:
        if other.coordinator.find(start.path) is None:
            other.coordinator.commit(start)

    engine = Late(start_it)
    world.engine = engine

    assert ensure_submitted(world.job(other.coordinator), 1, by="caller") == 2

    assert engine.launched == []


def test_a_submission_that_leads_is_not_made_again_although_its_start_was_never_noted(world: World) -> None:
    job = claimed(world)
    world.lead(world.job(world.session("driver")), run=1, attempt=2)
    began = world.ensemble.clock.lease_time()

    assert ensure_submitted(job, 1, by="caller") == 2

    assert world.engine.launched == []
    assert world.ensemble.clock.lease_time() - began < world.engine.facts.launch_seconds


class Reserving(RecordingEngine):
    """Knows the handle of a submission before its launch, and loses the answer to that."""

    def reserve(self, ticket: Ticket) -> DriverHandle:
        return handle(pid=ticket.attempt)

    def launch(self, ticket: Ticket, reserved: DriverHandle | None) -> DriverHandle:
        assert reserved == self.reserve(ticket)
        raise OutcomeUnknownError("no answer came")

    def seen(self, submission_id: str, known: DriverHandle | None) -> Observation:
        return RunningSubmission(known) if known is not None else super().seen(submission_id, known)


def test_a_reserved_handle_is_on_record_and_finds_a_driver_whose_answer_was_lost(world: World, job: JobContext) -> None:
    world.engine = Reserving()
    world.ensemble.advance(60)

    recover(world.job(job.coordinator), by="caller", wait=False)
    lost = job.runs.get(1).submissions[-1]
    found = ensure_submitted(world.job(job.coordinator), 1, by="another")

    assert (lost.submission.attempt, lost.submission.reserved, lost.started) == (2, handle(pid=2), None)
    assert (found, job.runs.get(1).submissions[-1].started) == (2, SubmissionStarted(handle=handle(pid=2)))


class Stuck(RecordingEngine):
    """Has accepted a submission that waits for something that never comes."""

    def seen(self, submission_id: str, known: DriverHandle | None) -> Observation:
        del submission_id, known
        return PendingSubmission("there is no such queue", final=True)


def test_a_submission_that_waits_without_an_end_is_overdue(world: World) -> None:
    other = claimed(world)
    world.engine = engine = Stuck()

    assert ensure_submitted(world.job(other.coordinator), 1, by="caller") == 3

    assert engine.launched == [(1, 3)]


def test_a_request_that_made_no_run_has_no_failed_one(job: JobContext) -> None:
    assert failed_run(job, "request-9") is None


def test_a_run_that_vanishes_between_two_reads_is_not_that_of_a_request(job: JobContext) -> None:
    known = submitting._find_request(job, [1, 2], "request-1")

    assert (known.number, known.own) == (1, True)


def test_a_lost_run_of_another_request_is_refused_with_the_commands_that_help(world: World, job: JobContext) -> None:
    prepared = PreparedRun(graph=LOST.graph, start=StartPoint())

    with pytest.raises(JobStateError, match=r"lost the driver of run 1, which is of another request.*spark-ha"):
        submit_run(job, "request-2", lambda: prepared)

    assert job.runs.numbers() == [1]
    assert world.engine.launched == []


def test_a_request_that_follows_a_run_says_that_another_process_recovers_it(
    world: World, job: JobContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise LeadershipUnavailableError("another process leads the cluster")

    monkeypatch.setattr(submitting, "recover", refused)

    with pytest.raises(LeadershipUnavailableError):
        submitting._found(job, submitting._RequestState(1, own=False, next_use=0), "request-2")
