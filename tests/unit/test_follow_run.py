"""When a wait in a shell is over, and what it says until then. Pure."""

from __future__ import annotations

import pytest

from airflow_provider_ha.cli.job_requests import WaitFor, reached, run_phase, with_failure
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.runs.run_store import RunView, SubmissionView
from airflow_provider_ha.jobs.runs.submissions import Failure, SubmissionExit
from airflow_provider_ha.jobs.status import JobStatus
from tests.support.clusters.jobs_helpers import NOON, a_leader, a_result, a_run, a_start, a_status, a_submission


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
