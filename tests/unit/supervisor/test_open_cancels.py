"""What a supervisor does for a dead driver: an open cancel, and the clean-up."""

from __future__ import annotations

import pytest

from airflow_provider_ha.coordination.coordinator import Create
from airflow_provider_ha.coordination.znode_records import read_record
from airflow_provider_ha.errors import (
    HaError,
    LeadershipLostError,
    LeadershipUnavailableError,
    NotConnectedError,
    OutcomeUnknownError,
    RecordCorruptError,
)
from airflow_provider_ha.host.supervisor import exit_report
from airflow_provider_ha.jobs.job_records import JobRecords
from airflow_provider_ha.jobs.model import JobState, Operation, OperationKind, OperationState, QueryStatus, Status
from airflow_provider_ha.jobs.operations import operations
from tests.fake.jobs import CONFIG, PATHS, World
from tests.support.clusters.dead_driver import SPEC, cancel_is_open, failing
from tests.support.clusters.jobs_helpers import a_status


def test_an_open_cancel_is_left_to_a_driver_that_leads(world: World, job: JobRecords) -> None:
    cancel_is_open(job)
    world.lead(world.job(world.session("driver")), run=1, attempt=1)

    exit_report.carry_out_cancel(SPEC, session_ended=True)

    assert job.runs.result(1) is None


@pytest.mark.parametrize(("session_ended", "longer"), [(True, 0.0), (False, CONFIG.timings.session_timeout)])
def test_the_lock_of_a_session_that_could_not_be_closed_is_awaited_until_it_runs_out(
    job: JobRecords, monkeypatch: pytest.MonkeyPatch, session_ended: bool, longer: float
) -> None:
    cancel_is_open(job)
    asked = failing(LeadershipUnavailableError("the dead session still has the lock"))
    monkeypatch.setattr(exit_report, "acquire", asked)

    exit_report.carry_out_cancel(SPEC, session_ended=session_ended)

    assert asked.call_args.kwargs["timeout"] == exit_report.LOCK_SECONDS + longer


def test_an_open_cancel_of_a_run_that_has_ended_since_changes_nothing(
    world: World, job: JobRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancel_is_open(job)
    found = operations.open_cancels(job.coordinator, PATHS, 1)
    driver = world.job(world.session("driver"))
    with world.lead(driver, run=1, attempt=1) as leadership:
        world.finish(driver, leadership, run=1)
    monkeypatch.setattr(operations, "open_cancels", lambda *_: found)

    exit_report.carry_out_cancel(SPEC, session_ended=True)

    ended = job.runs.result(1)
    assert ended is not None
    assert ended.state is JobState.FINISHED


def test_a_cancel_outlives_a_status_that_cannot_be_read(job: JobRecords) -> None:
    """The status is only what people see: it is replaced."""
    cancel_is_open(job)
    job.coordinator.commit(Create(PATHS.status, b"no record"))

    exit_report.carry_out_cancel(SPEC, session_ended=True)

    ended = job.runs.result(1)
    assert ended is not None
    assert ended.state is JobState.CANCELED
    assert [each.state for each in operations.list_operations(job.coordinator, PATHS)] == [OperationState.COMPLETED]


def test_a_death_during_the_savepoint_of_a_cancel_ends_no_run(job: JobRecords) -> None:
    cancel_is_open(job, OperationKind.CANCEL_WITH_SAVEPOINT)

    exit_report.carry_out_cancel(SPEC, session_ended=True)

    assert job.runs.result(1) is None
    assert [each.state for each in operations.list_operations(job.coordinator, PATHS)] == [OperationState.REQUESTED]


def test_a_death_after_the_savepoint_of_a_cancel_ends_the_run_and_the_answer_names_it(
    world: World, job: JobRecords
) -> None:
    cancel_is_open(job, OperationKind.CANCEL_WITH_SAVEPOINT)
    driver = world.job(world.session("driver"))
    with world.lead(driver, run=1, attempt=1) as leadership:
        [asked] = operations.list_operations(job.coordinator, PATHS)
        operations.note(leadership, PATHS, asked, result={"savepoint_id": "s1", "path": "/savepoints/s1"})

    exit_report.carry_out_cancel(SPEC, session_ended=True)

    ended = job.runs.result(1)
    assert ended is not None
    assert ended.state is JobState.CANCELED
    [answer] = operations.list_operations(job.coordinator, PATHS)
    assert answer.state is OperationState.COMPLETED
    assert answer.result == {"savepoint_id": "s1", "path": "/savepoints/s1", "checkpoint": None}


def test_the_end_of_a_run_answers_everything_that_asked_for_an_end(job: JobRecords) -> None:
    """In the transaction with the result: what a process wrote is there, and not only what a reader makes of it."""
    cancel_is_open(job)
    for operation_id, kind, arguments in (
        ("cancel-2", OperationKind.CANCEL, {}),
        ("cancel-3", OperationKind.CANCEL_WITH_SAVEPOINT, {}),
        ("stop-1", OperationKind.STOP, {"mode": "suspend", "savepoint": False}),
        ("savepoint-1", OperationKind.SAVEPOINT, {}),
    ):
        operations.request(
            job.coordinator,
            PATHS,
            kind,
            operation_id=operation_id,
            arguments=arguments,
            requested_by="a DAG",
            clock=job.clock,
        )

    exit_report.carry_out_cancel(SPEC, session_ended=True)

    written = {
        name: Operation.from_bytes(job.coordinator.get(PATHS.operation(name)).data, source=name).state
        for name in job.coordinator.children(PATHS.operations)
    }
    assert written == {
        "cancel-1": OperationState.COMPLETED,
        "cancel-2": OperationState.COMPLETED,
        "cancel-3": OperationState.FAILED,
        "stop-1": OperationState.FAILED,
        "savepoint-1": OperationState.REQUESTED,
    }
    read = {each.operation_id: each.state for each in operations.list_operations(job.coordinator, PATHS)}
    assert read == written | {"savepoint-1": OperationState.ABANDONED}


def test_a_canceled_run_keeps_where_its_queries_stood(job: JobRecords) -> None:
    """The driver knew; the supervisor has no queries to look at."""
    stood = {"counts": QueryStatus(planned=7, committed=6, sink="noop")}
    cancel_is_open(job)
    job.coordinator.commit(Create(PATHS.status, a_status().model_copy(update={"queries": stood}).to_bytes()))

    exit_report.carry_out_cancel(SPEC, session_ended=True)

    status = read_record(job.coordinator, PATHS.status, Status)
    assert status is not None
    assert (status[0].state, status[0].queries) == (JobState.CANCELED, stood)


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (NotConnectedError("no server answers"), NotConnectedError),
        (LeadershipLostError("the lease ran out"), OutcomeUnknownError),
        (RecordCorruptError("the journal is damaged"), None),
    ],
    ids=["outage", "took longer than the lease", "no retry can help"],
)
def test_a_cancel_that_fails_is_tried_again_where_that_can_help(
    job: JobRecords,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: HaError,
    raised: type[HaError] | None,
) -> None:
    monkeypatch.setattr(exit_report, "_cancel", failing(error))

    if raised is None:
        exit_report.carry_out_cancel(SPEC, session_ended=True)
        assert "it stays open for the next leader" in caplog.text
    else:
        with pytest.raises(raised) as caught:
            exit_report.carry_out_cancel(SPEC, session_ended=True)
        assert caught.value.retryable


def test_a_clean_up_that_fails_is_left_to_the_next_leader(
    job: JobRecords, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(exit_report, "_clean", failing(NotConnectedError("no server answers")))

    exit_report.clean_up_run(SPEC, on_lost=lambda reason: None)

    assert "run 1 is not cleaned up; the next leader does it: no server answers" in caplog.text
