"""What a leader of the cluster does about a job, decided from one sight of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_ha.fleet.decide import JobObservation, ReconcileAction, judge
from airflow_provider_ha.jobs.job_graph import GraphPointer
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.runs.run_store import RunView, SubmissionView
from airflow_provider_ha.jobs.status import JobStatus
from tests.support.clusters.jobs_helpers import (
    BLOB,
    a_leader,
    a_result,
    a_run,
    a_start,
    a_status,
    a_submission,
    an_exit,
)


SUBMITTED = SubmissionView(submission=a_submission(), created_zxid=10)
STARTED = replace(SUBMITTED, started=a_start())
EXITED = replace(STARTED, exit=an_exit())
POINTER = GraphPointer(graph=BLOB, run=1)
LED_ONCE = {"epoch": 1, "epoch_zxid": 20}


def live(submission: SubmissionView, **more: object) -> JobStatus:
    run = RunView(run=a_run(), submissions=(submission,))
    return JobStatus(**({"job_id": "flights", "run": run, "graph": POINTER} | more))  # type: ignore[arg-type]


def ended(**more: object) -> JobStatus:
    run = RunView(run=a_run(), submissions=(EXITED,), result=a_result())
    return live(EXITED, **({"run": run, "graph": None} | more))


@pytest.mark.parametrize(
    ("snapshot", "action"),
    [
        (live(EXITED), ReconcileAction.RECOVER),
        (live(EXITED, leader=a_leader(), status=a_status()), ReconcileAction.RECOVER),
        (live(STARTED, **LED_ONCE), ReconcileAction.RECOVER),
        (live(STARTED, leader=a_leader(), status=a_status(), **LED_ONCE), ReconcileAction.LEAVE),
        (live(STARTED), ReconcileAction.WAIT),
        (live(SUBMITTED), ReconcileAction.WAIT),
        (live(EXITED, graph=None), ReconcileAction.LEAVE),
        (live(EXITED, graph=GraphPointer(graph=BLOB, run=2)), ReconcileAction.QUARANTINE),
        (JobStatus(job_id="flights"), ReconcileAction.LEAVE),
        (JobStatus(job_id="flights", graph=POINTER), ReconcileAction.QUARANTINE),
    ],
    ids=[
        "its driver is proven dead",
        "and the leader node outlives it",
        "its leadership has ended",
        "it is led",
        "it is starting",
        "it is submitted",
        "no leader has to recover it",
        "its pointer is of another run",
        "it has no run",
        "it has a pointer and no run",
    ],
)
def test_a_run_without_a_result_is_recovered_if_it_has_to_be(snapshot: JobStatus, action: ReconcileAction) -> None:
    sight = JobObservation(job_id="flights", led=snapshot.leader is not None, snapshot=snapshot)

    assert judge(sight).action is action


@pytest.mark.parametrize("state", [JobState.FINISHED, JobState.CANCELED, JobState.FAILED])
@pytest.mark.parametrize(
    ("led", "dirty", "pointer", "action"),
    [
        (False, (), None, ReconcileAction.LEAVE),
        (False, (1,), None, ReconcileAction.CLEAN_UP),
        (False, (), POINTER, ReconcileAction.CLEAN_UP),
        (True, (1,), POINTER, ReconcileAction.LEAVE),
    ],
    ids=["clean", "dirty", "with a pointer that was left", "its driver is still there"],
)
def test_a_run_with_a_result_is_never_run_again(
    state: JobState, led: bool, dirty: tuple[int, ...], pointer: GraphPointer | None, action: ReconcileAction
) -> None:
    run = RunView(run=a_run(), submissions=(EXITED,), result=a_result(state))
    snapshot = ended(run=run, graph=pointer, leader=a_leader() if led else None)

    assert judge(JobObservation(job_id="flights", led=led, snapshot=snapshot, dirty=dirty)).action is action


def test_quarantine_and_what_is_broken_come_before_everything_else() -> None:
    lost = live(EXITED)

    assert judge(JobObservation(job_id="flights", snapshot=lost, quarantined="garbage")).action is ReconcileAction.LEAVE
    assert judge(JobObservation(job_id="flights", broken="garbage")).action is ReconcileAction.QUARANTINE
    assert judge(JobObservation(job_id="flights", led=True, broken="garbage")).action is ReconcileAction.LEAVE
