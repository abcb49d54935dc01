"""What a supervisor does when something fails: before its driver runs, while it runs, and after its death."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from airflow_provider_ha._process.tree import Death
from airflow_provider_ha.coordination.coordinator import Create
from airflow_provider_ha.coordination.records import read_record
from airflow_provider_ha.errors import (
    ConfigurationError,
    HaError,
    LeadershipLostError,
    NotConnectedError,
    OutcomeUnknownError,
    RecordCorruptError,
    StorageUnavailableError,
)
from airflow_provider_ha.jobs import operations
from airflow_provider_ha.jobs.host.driver_home import DriverHome
from airflow_provider_ha.jobs.host.driver_spec import DriverSpec
from airflow_provider_ha.jobs.host.ticket import Ticket
from airflow_provider_ha.jobs.job_records import JobRecords
from airflow_provider_ha.jobs.model import JobState, OperationKind, OperationState, QueryStatus, Status
from airflow_provider_ha.jobs.submissions import NOT_LAUNCHED, SubmissionExit
from airflow_provider_ha.recovery import conclude as concluding
from airflow_provider_ha.recovery.restart import GiveUp, Resubmit
from airflow_provider_ha.supervisor import after_death, exit_report, in_place, main, next_attempt
from airflow_provider_ha.supervisor.directory_lock import lock_directory
from airflow_provider_ha.supervisor.spark_submit import find_spark_home
from tests.fake.jobs import CONFIG, PATHS, World
from tests.fake.orders import LOST
from tests.support.clusters.jobs_helpers import a_status


SPEC: Any = SimpleNamespace(
    run=1,
    attempt=1,
    job_id="flights",
    home=DriverHome(Path("/nowhere")),
    handle=None,
    forget=lambda: None,
    config=CONFIG,
)
DEATH = Death(-9, (1, 2), "killed")


def failing(error: BaseException) -> Any:
    return MagicMock(side_effect=error)


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(after_death, "LOCK_SECONDS", 0.0)
    monkeypatch.setattr(concluding, "LOCK_SECONDS", 0.0)
    monkeypatch.setattr("time.sleep", lambda seconds: None)


@pytest.fixture
def world() -> World:
    """Run 1 was led in epoch 1, and its driver is dead."""
    return LOST.world()


@pytest.fixture
def job(world: World, monkeypatch: pytest.MonkeyPatch) -> JobRecords:
    """The job as the supervisor sees it."""
    records = world.job(world.session("supervisor"))

    @contextmanager
    def connected(_: object) -> Iterator[JobRecords]:
        yield records

    for module in (after_death, in_place, next_attempt):
        monkeypatch.setattr(module, "connected", connected)
    return records


def cancel_is_open(job: JobRecords, kind: OperationKind = OperationKind.CANCEL) -> None:
    operations.request(
        job.coordinator,
        PATHS,
        kind,
        operation_id="cancel-1",
        arguments={},
        requested_by="a person",
        clock=job.clock,
    )


# Before and while the driver runs


@pytest.mark.parametrize(
    ("error", "outage"),
    [(StorageUnavailableError("the disk is full"), True), (ConfigurationError("no Spark"), False)],
)
def test_a_driver_that_cannot_be_started_has_an_end_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, error: HaError, outage: bool
) -> None:
    monkeypatch.setattr(main, "start", failing(error))

    death = main.run(SPEC, main._StopFlag())

    assert (death.code, death.pids, death.outage) == (NOT_LAUNCHED, (), outage)
    assert death.reason == f"the driver could not be started: {error}"


def test_a_directory_that_has_no_room_for_the_lock_is_an_end_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[Death] = []
    monkeypatch.setattr(main, "arrived", lambda _: SPEC)
    monkeypatch.setattr(main, "lock_directory", failing(StorageUnavailableError("the disk is full")))

    def end(spec: object, death: Death, stop: object, *, asked: bool) -> int:
        ended.append(death)
        return 0

    monkeypatch.setattr(main, "_end", end)

    assert main.main([]) == 0

    assert [(death.code, death.outage) for death in ended] == [(NOT_LAUNCHED, True)]


def test_a_supervisor_that_fails_kills_what_it_supervises(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = MagicMock(code=-9, kill=MagicMock(return_value=(7, 8)))
    monkeypatch.setattr(main, "start", lambda _: tree)
    monkeypatch.setattr(main, "watch", failing(MemoryError("no memory")))

    death = main.run(SPEC, main._StopFlag())

    assert (death.code, death.pids) == (-9, (7, 8))
    assert death.reason == "the supervisor failed: MemoryError('no memory')"
    assert tree.kill.called


def test_a_host_without_room_for_another_thread_kills_the_driver_that_it_has_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree = MagicMock(code=-9, kill=MagicMock(return_value=(7,)))
    monkeypatch.setattr(main, "start", lambda _: tree)
    monkeypatch.setattr("threading.Thread.start", failing(RuntimeError("can't start new thread")))

    death = main.run(SPEC, main._StopFlag())

    assert (death.code, death.pids) == (-9, (7,))
    assert "can't start new thread" in death.reason


def test_a_driver_whose_log_cannot_be_rotated_is_not_called_never_started_while_it_lives(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The exit is the proof of death: the next attempt starts at once."""
    tree = MagicMock()
    for name in ("require_room", "open_store", "fetch_graph", "spark_submit", "fetch_application"):
        monkeypatch.setattr(main, name, MagicMock())
    for name in ("remember", "secret_values", "named_spark_home", "engine_options", "write_private"):
        monkeypatch.setattr(main, name, MagicMock())
    monkeypatch.setattr(main, "ProcessTree", lambda *_, **__: tree)
    monkeypatch.setattr(main, "rotate_log", failing(RuntimeError("can't start new thread")))
    spec: Any = SimpleNamespace(home=DriverHome(tmp_path), config=CONFIG, ticket=MagicMock(), job_id="flights", run=1)

    death = main.run(spec, main._StopFlag())

    assert "can't start new thread" in death.reason
    assert tree.kill.called


def test_a_lock_that_the_file_system_does_not_have_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    spec: Any = SimpleNamespace(home=DriverHome(tmp_path / "file"))

    with pytest.raises(ConfigurationError, match=r"cannot be locked \(Not a directory\).*file system with locks"):
        lock_directory(spec)


def test_a_spark_home_without_spark_submit_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no bin/spark-submit in .*Correct SPARK_HOME"):
        find_spark_home(tmp_path)


# After the death: the report


@pytest.mark.parametrize(
    ("error", "stopped"),
    [(ConfigurationError("the credentials are refused"), False), (NotConnectedError("no server answers"), True)],
    ids=["no retry can help", "asked to end"],
)
def test_an_exit_that_cannot_be_written_is_left_to_the_session(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: HaError, stopped: bool
) -> None:
    monkeypatch.setattr(exit_report, "_end_session", failing(error))
    following = MagicMock()
    monkeypatch.setattr(next_attempt, "follow", following)
    stop = main._StopFlag()
    stop.raised = 15 if stopped else 0

    assert main._end(SPEC, DEATH, stop, asked=stopped) == 1

    assert "the exit of the submission could not be written" in caplog.text
    following.assert_not_called()


def test_a_driver_that_never_wrote_has_no_last_lines(tmp_path: Path) -> None:
    spec: Any = SimpleNamespace(home=DriverHome(tmp_path))

    assert exit_report._last_lines(spec) == ""


def test_a_clean_up_ends_with_the_process_as_soon_as_another_one_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)

    exit_report._give_up("the session was lost")

    assert codes == [0]


# After the death: an open cancel, and the clean-up


def test_an_open_cancel_is_left_to_a_driver_that_leads(world: World, job: JobRecords) -> None:
    cancel_is_open(job)
    world.lead(world.job(world.session("driver")), run=1, attempt=1)

    after_death.carry_out_cancel(SPEC)

    assert job.runs.result(1) is None


def test_an_open_cancel_of_a_run_that_has_ended_since_changes_nothing(
    world: World, job: JobRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancel_is_open(job)
    found = operations.open_cancels(job.coordinator, PATHS, 1)
    driver = world.job(world.session("driver"))
    with world.lead(driver, run=1, attempt=1) as leadership:
        world.finish(driver, leadership, run=1)
    monkeypatch.setattr(operations, "open_cancels", lambda *_: found)

    after_death.carry_out_cancel(SPEC)

    ended = job.runs.result(1)
    assert ended is not None
    assert ended.state is JobState.FINISHED


def test_a_cancel_outlives_a_status_that_cannot_be_read(job: JobRecords) -> None:
    """The status is only what people see: it is replaced."""
    cancel_is_open(job)
    job.coordinator.commit(Create(PATHS.status, b"no record"))

    after_death.carry_out_cancel(SPEC)

    ended = job.runs.result(1)
    assert ended is not None
    assert ended.state is JobState.CANCELED
    assert [each.state for each in operations.list_operations(job.coordinator, PATHS)] == [OperationState.COMPLETED]


def test_a_death_during_the_savepoint_of_a_cancel_ends_no_run(job: JobRecords) -> None:
    cancel_is_open(job, OperationKind.CANCEL_WITH_SAVEPOINT)

    after_death.carry_out_cancel(SPEC)

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

    after_death.carry_out_cancel(SPEC)

    ended = job.runs.result(1)
    assert ended is not None
    assert ended.state is JobState.CANCELED
    [answer] = operations.list_operations(job.coordinator, PATHS)
    assert answer.state is OperationState.COMPLETED
    assert answer.result == {"savepoint_id": "s1", "path": "/savepoints/s1", "checkpoint": None}


def test_a_canceled_run_keeps_where_its_queries_stood(job: JobRecords) -> None:
    """The driver knew; the supervisor has no queries to look at."""
    stood = {"counts": QueryStatus(planned=7, committed=6, sink="noop")}
    cancel_is_open(job)
    job.coordinator.commit(Create(PATHS.status, a_status().model_copy(update={"queries": stood}).to_bytes()))

    after_death.carry_out_cancel(SPEC)

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
    monkeypatch.setattr(after_death, "_cancel", failing(error))

    if raised is None:
        after_death.carry_out_cancel(SPEC)
        assert "it stays open for the next leader" in caplog.text
    else:
        with pytest.raises(raised) as caught:
            after_death.carry_out_cancel(SPEC)
        assert caught.value.retryable


def test_a_clean_up_that_fails_is_left_to_the_next_leader(
    job: JobRecords, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(after_death, "_clean", failing(NotConnectedError("no server answers")))

    after_death.clean_up(SPEC, on_lost=lambda reason: None)

    assert "run 1 is not cleaned up; the next leader does it: no server answers" in caplog.text


# After the death: the next attempt


def of_run(job: JobRecords, directory: Path) -> DriverSpec:
    """Return the spec of submission 1 of run 1."""
    graph = job.runs.get(1).run.graph
    ticket = Ticket(job_id="flights", run=1, attempt=1, submission_id="s-1", graph=graph)
    return DriverSpec(config=CONFIG, ticket=ticket, directory=directory)


def exit_record(job: JobRecords, *, ran: bool = True) -> SubmissionExit:
    return SubmissionExit(code=-9, reason="killed", ran=ran, at=job.clock.now())


def test_a_claim_whose_answer_is_unknown_is_asked_again(
    job: JobRecords, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    restart = in_place.RestartInPlace(of_run(job, tmp_path))
    monkeypatch.setattr(in_place, "claim", failing(OutcomeUnknownError("no answer")))

    with pytest.raises(OutcomeUnknownError):
        restart.claim_with_exit(job, exit_record(job))

    monkeypatch.undo()
    wanted = restart._wanted
    assert wanted is not None
    assert restart.claim_with_exit(job, exit_record(job)) == wanted


@pytest.mark.parametrize(
    "error", [StorageUnavailableError("the disk fails"), RecordCorruptError("the graph is damaged")]
)
def test_what_keeps_a_restart_from_being_planned_keeps_no_exit_from_being_written(
    job: JobRecords, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path, error: HaError
) -> None:
    restart = in_place.RestartInPlace(of_run(job, tmp_path))
    monkeypatch.setattr(restart, "_decide", failing(error))

    assert restart.claim_with_exit(job, exit_record(job)) is None

    assert "no restart together with the exit" in caplog.text


def test_an_exit_of_a_submission_that_has_a_successor_restarts_nothing(job: JobRecords, tmp_path: Path) -> None:
    spec = of_run(job, tmp_path)
    other = spec.of_next(9, "s-9")

    assert in_place.with_exit(job.snapshot(), other, exit_record(job)) is None


def test_a_run_whose_driver_is_not_dead_has_no_turn_to_leave(job: JobRecords) -> None:
    assert in_place.leaves_first_turn(job.snapshot()) is False


def test_a_host_that_lacks_something_leaves_the_first_turn_to_others(job: JobRecords, tmp_path: Path) -> None:
    """Also when another process had placed the driver there."""
    unfit = exit_record(job).model_copy(update={"unfit": True})

    seen = in_place.with_exit(job.snapshot(), of_run(job, tmp_path), unfit)

    assert seen is not None
    assert in_place.leaves_first_turn(seen) is True


@pytest.mark.parametrize(
    ("errors", "tries"),
    [
        ([NotConnectedError("no server answers"), NotConnectedError("no server answers")], 3),
        ([RecordCorruptError("the graph is damaged")], 1),
    ],
    ids=["outage", "no retry can help"],
)
def test_a_turn_is_awaited_through_outages_and_given_up_for_good_errors(
    job: JobRecords, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, errors: list[HaError], tries: int
) -> None:
    restart = in_place.RestartInPlace(of_run(job, tmp_path))
    turns = MagicMock(side_effect=[*errors, None])
    monkeypatch.setattr(restart, "_await_turn", turns)

    assert restart.await_turn(stopped=lambda: False) is None

    assert turns.call_count == tries


def test_a_turn_is_not_awaited_by_a_supervisor_that_was_asked_to_end(job: JobRecords, tmp_path: Path) -> None:
    assert in_place.RestartInPlace(of_run(job, tmp_path)).await_turn(stopped=lambda: True) is None


def test_a_run_that_is_given_up_while_another_process_leads_ends_later(
    world: World, job: JobRecords, caplog: pytest.LogCaptureFixture
) -> None:
    cancel_is_open(job)
    caplog.set_level("INFO")
    (canceled,) = operations.open_cancels(job.coordinator, PATHS, 1)
    leadership = world.lead(world.job(world.session("driver")), run=1, attempt=1)

    in_place._conclude(job, canceled)
    assert job.runs.result(1) is None
    assert "the run does not end yet" in caplog.text

    leadership.release()
    in_place._conclude(job, canceled)
    ended = job.runs.result(1)
    assert ended is not None
    assert ended.state is JobState.CANCELED


class Claimed:
    """The next attempt of a run, which is claimed already."""

    attempt, submission_id = 2, "s-2"


def test_an_attempt_that_was_claimed_by_a_supervisor_that_has_to_end_is_closed(
    world: World, job: JobRecords, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Else the next process would wait until its launch is overdue."""
    closed = MagicMock()
    monkeypatch.setattr(next_attempt, "note_not_launched", closed)
    claimed: Any = Claimed()

    next_attempt.follow(MagicMock(), of_run(job, tmp_path), claimed, stopped=lambda: True)

    ((_, run, attempt, reason),) = [call.args for call in closed.call_args_list]
    assert (run, attempt, closed.call_args.kwargs) == (1, 2, {"outage": True})
    assert "asked to end before it was started" in reason


def test_an_attempt_whose_end_cannot_be_written_is_not_followed_by_another_one(
    job: JobRecords, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setattr(next_attempt, "become", failing(OSError(28, "No space left on device")))
    monkeypatch.setattr(next_attempt, "note_not_launched", failing(NotConnectedError("no server answers")))
    claimed: Any = Claimed()
    restart = MagicMock()

    next_attempt.follow(restart, of_run(job, tmp_path), claimed, stopped=lambda: False)

    assert "the exit of attempt 2 could not be written" in caplog.text
    restart.await_turn.assert_not_called()


@pytest.mark.parametrize("canceled", [True, False], ids=["an open cancel", "no attempt is left"])
def test_a_turn_that_comes_to_nothing_ends_the_run(
    job: JobRecords, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, canceled: bool
) -> None:
    job.coordinator.commit(Create(PATHS.submission_exit(1, 1), exit_record(job).to_bytes()))
    if canceled:
        cancel_is_open(job)
    restart = in_place.RestartInPlace(of_run(job, tmp_path))
    decision = Resubmit(attempt=2, lost_epoch=1, after=0.0) if canceled else GiveUp("3 attempts were lost")
    monkeypatch.setattr(restart, "_decide", lambda job, seen: None if seen.run.result else decision)

    assert restart.await_turn(stopped=lambda: False) is None

    ended = job.runs.result(1)
    assert ended is not None
    assert ended.state is (JobState.CANCELED if canceled else JobState.FAILED)
    assert [each.submission.attempt for each in job.runs.get(1).submissions] == [1]
