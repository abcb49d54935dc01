"""When a wait in a shell is over. Pure."""

from __future__ import annotations

import pytest

from airflow_provider_ha.cli.follow_run import WaitFor, phase_of, reached
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.runs import RunView, SubmissionView
from airflow_provider_ha.jobs.snapshot import JobSnapshot
from tests.support.clusters.jobs_helpers import a_leader, a_result, a_run, a_status, a_submission


LIVE = RunView(run=a_run(), submissions=(SubmissionView(submission=a_submission()),))
OVER = RunView(run=a_run(), result=a_result(JobState.FAILED), submissions=LIVE.submissions)


def led(state: JobState, *, run: int = 1) -> JobSnapshot:
    return JobSnapshot(
        job_id="flights", run=LIVE, leader=a_leader(run=run), epoch=1, epoch_zxid=1, status=a_status(state, run=run)
    )


@pytest.mark.parametrize(
    ("snapshot", "wait_for", "over"),
    [
        (led(JobState.RUNNING), WaitFor.RUNNING, True),
        (led(JobState.RUNNING), WaitFor.FINISHED, False),
        (led(JobState.STARTING), WaitFor.RUNNING, False),
        (led(JobState.RUNNING, run=2), WaitFor.RUNNING, False),
        (JobSnapshot(job_id="flights", run=LIVE), WaitFor.RUNNING, False),
        (JobSnapshot(job_id="flights", run=OVER), WaitFor.RUNNING, True),
        (JobSnapshot(job_id="flights", run=OVER), WaitFor.FINISHED, True),
    ],
)
def test_a_wait_is_over_when_the_run_is_up_or_has_a_result(
    snapshot: JobSnapshot, wait_for: WaitFor, over: bool
) -> None:
    assert reached(snapshot, 1, wait_for) is over


def test_a_newer_run_ends_the_wait() -> None:
    with pytest.raises(JobStateError, match="not the newest run any more"):
        reached(JobSnapshot(job_id="flights", run=LIVE), 2, WaitFor.RUNNING)


def test_progress_names_epoch_and_host() -> None:
    assert phase_of(led(JobState.STARTING)).startswith("STARTING: epoch 1 on host")
    assert phase_of(JobSnapshot(job_id="flights", run=LIVE)) == "SUBMITTED: attempt 1 has no leader yet"
