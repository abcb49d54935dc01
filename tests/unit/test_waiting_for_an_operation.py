"""What `job stop` shows while it waits: the phase and the time, one line per change in a pipe, nothing with --json."""

from __future__ import annotations

import pytest

from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.job_requests import operation_phase
from airflow_provider_ha.jobs.model import JobState, Operation, OperationKind, OperationState, Status
from airflow_provider_ha.jobs.runs.run_store import RunView
from airflow_provider_ha.jobs.status import JobStatus
from tests.support.clusters.jobs_helpers import TAKEN, a_leader, a_run, a_status


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
