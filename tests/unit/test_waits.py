"""Waits in a shell: what they show, and when they end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.cli import console, job_requests, session
from airflow_provider_ha.cli.job_requests import WaitFor, operation_phase, reached, run_phase, with_failure
from airflow_provider_ha.cli.session import repeated
from airflow_provider_ha.errors import HaError, JobStateError, NotConnectedError, UnknownJobError
from airflow_provider_ha.jobs.model import JobState, Operation, OperationKind, OperationState, Status
from airflow_provider_ha.jobs.runs.run_store import RunView, SubmissionView
from airflow_provider_ha.jobs.runs.submissions import Failure, SubmissionExit
from airflow_provider_ha.jobs.status import JobStatus
from tests.support.clusters.jobs_helpers import NOON, TAKEN, a_leader, a_result, a_run, a_start, a_status, a_submission


LIVE = RunView(run=a_run(), submissions=(SubmissionView(submission=a_submission()),))
OVER = RunView(run=a_run(), result=a_result(JobState.FAILED), submissions=LIVE.submissions)


def led(state: JobState, *, run: int = 1) -> JobStatus:
    return JobStatus(
        job_id="flights", run=LIVE, leader=a_leader(run=run), epoch=1, epoch_zxid=1, status=a_status(state, run=run)
    )


@pytest.mark.parametrize(
    ("snapshot", "wait_for", "over"),
    [
        (led(JobState.RUNNING), WaitFor.RUNNING, True),
        (led(JobState.RUNNING), WaitFor.FINISHED, False),
        (led(JobState.STARTING), WaitFor.RUNNING, False),
        (led(JobState.RUNNING, run=2), WaitFor.RUNNING, False),
        (JobStatus(job_id="flights", run=LIVE), WaitFor.RUNNING, False),
        (JobStatus(job_id="flights", run=OVER), WaitFor.RUNNING, True),
        (JobStatus(job_id="flights", run=OVER), WaitFor.FINISHED, True),
    ],
)
def test_a_wait_is_over_when_the_run_is_up_or_has_a_result(snapshot: JobStatus, wait_for: WaitFor, over: bool) -> None:
    assert reached(snapshot, 1, wait_for) is over


def test_a_newer_run_ends_the_wait() -> None:
    with pytest.raises(JobStateError, match="no longer the newest run"):
        reached(JobStatus(job_id="flights", run=LIVE), 2, WaitFor.RUNNING)


def test_progress_names_epoch_and_host() -> None:
    assert run_phase(led(JobState.STARTING)).startswith("STARTING: epoch 1 on host")
    assert run_phase(JobStatus(job_id="flights", run=LIVE)) == "SUBMITTED: attempt 1 has no leader yet"


def test_progress_says_why_a_supervisor_has_started_no_driver() -> None:
    started = a_start().model_copy(update={"refused": "the driver was started before"})
    run = RunView(run=a_run(), submissions=(SubmissionView(submission=a_submission(), started=started),))

    said = run_phase(JobStatus(job_id="flights", run=run))

    assert said.endswith("attempt 1 has no leader yet, the driver was started before")


def test_each_line_of_a_wait_has_the_last_failure() -> None:
    failure = Failure(error_class="SystemExit", message="2", batches={})
    ended = SubmissionView(a_submission(1), exit=SubmissionExit(code=2, reason="code 2", failure=failure, at=NOON))
    refused = SubmissionView(a_submission(2), exit=SubmissionExit(code=70, reason="there is no Java", at=NOON))
    newest = SubmissionView(a_submission(3))

    first, second = (
        with_failure("STARTING", JobStatus(job_id="flights", run=RunView(a_run(), submissions=views)), NOON)
        for views in ((ended, newest), (ended, refused, newest))
    )

    assert first == "STARTING (last failure: attempt 1: UNKNOWN SystemExit: 2 in the script before any batch)"
    assert second == "STARTING (last failure: attempt 2: there is no Java; 2 attempts in a row have failed)"
    assert with_failure("SUBMITTED", JobStatus(job_id="flights", run=LIVE), NOON) == "SUBMITTED"


def operation(state: OperationState) -> Operation:
    return Operation(
        operation_id="o",
        operation=OperationKind.STOP,
        run=1,
        requested_by="test",
        requested_at=a_status().at,
        state=state,
    )


def snapshot(*, led: bool = True, status: Status | None = None) -> JobStatus:
    run = RunView(run=a_run(), result=None, submissions=(TAKEN,))
    return JobStatus(
        job_id="flights", leader=a_leader() if led else None, epoch=1, epoch_zxid=11, run=run, status=status
    )


def test_a_request_that_is_not_taken_up_names_whom_it_waits_for() -> None:
    leader = a_leader()

    phase = operation_phase(snapshot(status=a_status()), operation(OperationState.REQUESTED))

    assert phase == f"RUNNING: request sent to the driver on {leader.host} (epoch {leader.epoch})"


def test_a_job_that_nobody_leads_says_so() -> None:
    phase = operation_phase(snapshot(led=False), operation(OperationState.REQUESTED))

    assert phase == "LOST: the job has no leader, the next driver takes the request up"


def test_a_stop_shows_what_the_driver_does() -> None:
    status = a_status(JobState.STOPPING).model_copy(update={"message": "taking the checkpoint"})

    assert (
        operation_phase(snapshot(status=status), operation(OperationState.RUNNING)) == "STOPPING: taking the checkpoint"
    )


def test_what_an_earlier_epoch_said_is_not_shown() -> None:
    status = a_status(JobState.STOPPING, epoch=7).model_copy(update={"message": "taking the checkpoint"})

    assert "checkpoint" not in operation_phase(snapshot(status=status), operation(OperationState.RUNNING))


def test_a_pipe_gets_one_line_for_each_change(capsys: pytest.CaptureFixture[str]) -> None:
    with console.phases(quiet=False) as tell:
        for phase, seconds in (("asked", 0.2), ("asked", 1.2), ("STOPPING: [x]", 2.4), ("STOPPING: [x]", 4.4)):
            tell(phase, seconds)

    shown = capsys.readouterr()
    assert (shown.out, shown.err.splitlines()) == ("", ["0 s  asked", "2 s  STOPPING: [x]"])


def test_a_program_gets_the_answer_only(capsys: pytest.CaptureFixture[str]) -> None:
    with console.phases(quiet=True) as tell:
        tell("asked", 0.0)

    assert capsys.readouterr() == ("", "")


class Looks:
    """Looks that fail as the test says; the time between two passes at once, and Ctrl-C comes after the last."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *failures: HaError | None) -> None:
        self.failures = list(failures)
        self.count = 0
        self.waits: list[float] = []
        monkeypatch.setattr(session, "sleep", self._wait)

    def __call__(self) -> None:
        failure = self.failures[self.count]
        self.count += 1
        if failure is not None:
            raise failure

    def _wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        if self.count == len(self.failures):
            raise KeyboardInterrupt


def test_without_a_watch_it_is_shown_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch, None, None)

    repeated(looks, None)

    assert (looks.count, looks.waits) == (1, [])


def test_it_is_shown_again_until_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch, None, None, None)

    repeated(looks, 2.0)

    assert (looks.count, looks.waits) == (3, [2.0, 2.0, 2.0])


def test_an_outage_is_shown_and_waited_out(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    looks = Looks(monkeypatch, None, NotConnectedError("no server answers"), None)

    repeated(looks, 2.0)

    assert looks.count == 3
    assert "no server answers" in capsys.readouterr().err


@pytest.mark.parametrize(
    "failures",
    [(NotConnectedError("no server answers"), None), (None, UnknownJobError("there is no such job"), None)],
    ids=["at the first look", "what waiting does not resolve"],
)
def test_other_failures_end_it(monkeypatch: pytest.MonkeyPatch, failures: tuple[HaError | None, ...]) -> None:
    looks = Looks(monkeypatch, *failures)

    with pytest.raises(HaError):
        repeated(looks, 2.0)

    assert looks.count < len(failures)


def test_the_phases_of_a_takeover_are_one_line() -> None:
    phases = {"submit": 0.07, "lead": 0.0, "commit": 2.11, "total": 2.18}
    taken: Any = SimpleNamespace(epoch=3, attempt=3, host="h", standby=True, phases=phases)

    assert job_requests._fields_of(taken) == {
        "epoch": 3,
        "attempt": "3, promoted standby driver",
        "host": "h",
        "recovered in": "2.18 s",
        "phases": "submit 0.07 s, lead 0.00 s, commit 2.11 s",
    }
