"""The next attempt of a run, from the death of a driver to its turn or its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from airflow_provider_ha.coordination.coordinator import Create
from airflow_provider_ha.errors import (
    HaError,
    NotConnectedError,
    OutcomeUnknownError,
    RecordCorruptError,
    StorageUnavailableError,
)
from airflow_provider_ha.host.supervisor import in_place
from airflow_provider_ha.jobs.drivers.driver_home import Ticket
from airflow_provider_ha.jobs.drivers.driver_spec import DriverSpec
from airflow_provider_ha.jobs.job_records import JobRecords
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.recovery.restart_policy import GiveUp, Resubmit
from airflow_provider_ha.jobs.recovery.transactions import claim, new_submission
from airflow_provider_ha.jobs.runs.submissions import SubmissionExit
from tests.fake.jobs import CONFIG, PATHS, World
from tests.support.clusters.dead_driver import cancel_is_open, failing


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


def test_a_claim_without_an_answer_is_lost_if_another_process_has_the_attempt(
    job: JobRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = (new_submission(job, 2, by=by, engine="local", lost_epoch=None) for by in ("me", "another"))
    commit = JobRecords.commit

    def unanswered(records: JobRecords, *ops: Any) -> None:
        monkeypatch.setattr(JobRecords, "commit", commit)
        assert claim(records, 1, other)
        raise OutcomeUnknownError("no answer")

    monkeypatch.setattr(JobRecords, "commit", unanswered)

    assert not claim(job, 1, mine)
    assert claim(job, 1, other), "a repetition finds what it has made"


@pytest.mark.parametrize("answer_lost", [False, True], ids=["the first claim", "a claim whose answer was lost"])
def test_no_claim_follows_an_open_cancel(
    job: JobRecords, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer_lost: bool
) -> None:
    """Neither with the exit nor after it: the run ends instead."""
    restart = in_place.RestartInPlace(of_run(job, tmp_path))
    monkeypatch.setattr(restart, "_decide", lambda job, seen: None if seen.run.result else Resubmit(2, 1, after=0.0))
    if answer_lost:
        with monkeypatch.context() as lost:
            lost.setattr(in_place, "claim", failing(OutcomeUnknownError("no answer")))
            with pytest.raises(OutcomeUnknownError):
                restart.claim_with_exit(job, exit_record(job))
    cancel_is_open(job)

    assert restart.claim_with_exit(job, exit_record(job)) is None
    job.coordinator.commit(Create(PATHS.submission_exit(1, 1), exit_record(job).to_bytes()))
    assert restart.await_turn(stopped=lambda: False) is None

    assert [each.submission.attempt for each in job.runs.get(1).submissions] == [1]
    ended = job.runs.result(1)
    assert ended is not None
    assert ended.state is JobState.CANCELED


def test_a_claim_that_was_made_before_a_cancel_is_found_again(job: JobRecords) -> None:
    """Its driver carries the cancel out: were it denied, the attempt would wait for a launch that no process makes."""
    wanted = new_submission(job, 2, by="test", engine="local")
    assert claim(job, 1, wanted) is True
    cancel_is_open(job)

    assert claim(job, 1, wanted) is True
    assert claim(job, 1, new_submission(job, 3, by="test", engine="local")) is False


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
    monkeypatch.setattr(in_place, "note_not_launched", closed)
    claimed: Any = Claimed()

    in_place.follow(MagicMock(), of_run(job, tmp_path), claimed, stopped=lambda: True)

    ((_, run, attempt, reason),) = [call.args for call in closed.call_args_list]
    assert (run, attempt, closed.call_args.kwargs) == (1, 2, {"outage": True})
    assert "request to end before it started the driver" in reason


def test_an_attempt_whose_end_cannot_be_written_is_not_followed_by_another_one(
    job: JobRecords, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setattr(in_place, "become", failing(OSError(28, "No space left on device")))
    monkeypatch.setattr(in_place, "note_not_launched", failing(NotConnectedError("no server answers")))
    claimed: Any = Claimed()
    restart = MagicMock()

    in_place.follow(restart, of_run(job, tmp_path), claimed, stopped=lambda: False)

    assert "the exit of attempt 2 could not be written" in caplog.text
    restart.await_turn.assert_not_called()


@pytest.mark.parametrize("canceled", [True, False], ids=["an open cancel", "no attempt is left"])
def test_a_turn_without_a_next_attempt_ends_the_run(
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
