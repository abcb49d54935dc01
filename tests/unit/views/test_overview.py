"""The list of jobs knows every state, and puts what a person should look at first."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest

from airflow_provider_ha.api.documents.overview import (
    PAGE,
    STATES,
    OverviewQuery,
    SortKey,
    choose,
    on_page,
    overview,
    overview_row,
    pages_of,
)
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.fleet.fleet_overview import JobDetail, restart_steps
from airflow_provider_ha.jobs.condition import decide
from airflow_provider_ha.jobs.model import JobState, QueryStatus
from airflow_provider_ha.jobs.runs.run_store import RunView, SubmissionView
from airflow_provider_ha.jobs.runs.submissions import Failure, FailureKind, LastFailure, SubmissionExit
from airflow_provider_ha.jobs.status import JobStatus, NewestRun, RunDepth
from tests.support.clusters.jobs_helpers import NOON, a_leader, a_result, a_run, a_start, a_status, a_submission


FLIGHTS = ClusterPaths("root", "default").job("flights")


LOOP = LastFailure(
    attempt=1, at=NOON, reason="killed", failure=None, times=0, since=None, in_a_row=2, log="/driver.log"
)


def listed(state: JobState, job_id: str = "flights", *, loops: bool = False) -> JobStatus[RunDepth]:
    """Return a job of a list in a state."""
    queued = state in (JobState.SUBMITTED, JobState.LOST)
    written = a_status(JobState.RUNNING if state is JobState.STALLED else state)
    hangs = "it hangs" if state is JobState.STALLED else ""
    facts = NewestRun(
        number=1, attempt=1, ended=state is JobState.LOST, result=a_result(state) if state.terminal else None
    )
    return JobStatus(
        job_id=job_id,
        facts=facts,
        leader=None if queued else a_leader(),
        status=None if queued else written.model_copy(update={"stalled": hangs}),
        loop=LOOP if loops else None,
    )


def test_every_state_has_its_place_in_the_order() -> None:
    assert {state.value for state in JobState} <= set(STATES)


@pytest.mark.parametrize("state", JobState)
def test_a_job_that_a_person_should_look_at_comes_before_those_that_run(state: JobState) -> None:
    wanted = state in (JobState.LOST, JobState.FAILED, JobState.STALLED)

    assert (listed(state).state, decide(listed(state), None, NOON).needs_person) == (state, wanted)
    assert not wanted or STATES.index(state.value) < STATES.index("RUNNING")


def test_a_stalled_job_is_shown_with_what_hangs() -> None:
    reason = "query 'hourly' has been in one trigger after batch 7 for 600 s"
    snapshot = JobStatus(
        job_id="flights",
        leader=a_leader(),
        epoch=1,
        run=RunView(run=a_run(), submissions=(SubmissionView(submission=a_submission(), started=a_start()),)),
        status=a_status().model_copy(update={"stalled": reason}),
    )

    row = overview_row(JobDetail(job_id="flights", snapshot=snapshot), now=NOON)

    assert (row.state, row.needs_attention, row.problem) == ("STALLED", True, reason)


@pytest.mark.parametrize(
    ("lags", "told"), [((3, 4), 7), ((3, None), 3), ((0,), 0), ((None, None), None), ((), None)], ids=repr
)
def test_the_lag_of_a_job_is_that_of_its_queries_that_tell_it(lags: tuple[int | None, ...], told: int | None) -> None:
    queries = {f"q{number}": QueryStatus(planned=1, committed=1, lag=lag) for number, lag in enumerate(lags)}

    status = a_status().model_copy(update={"queries": queries})

    assert JobStatus(job_id="flights", leader=a_leader(), status=status).lag == told


def test_a_leader_that_has_written_no_status_yet_has_no_lag_of_the_one_before_it() -> None:
    status = a_status(epoch=1).model_copy(update={"queries": {"q": QueryStatus(planned=1, committed=1, lag=5)}})

    assert JobStatus(job_id="flights", leader=a_leader(2), status=status).lag is None
    assert JobStatus(job_id="flights", status=status).lag is None


def test_restarts_of_a_job_whose_run_began_before_that_time_cost_no_read() -> None:
    began = a_run().model_copy(update={"created_at": NOON - timedelta(hours=30)})
    submissions = tuple(SubmissionView(submission=a_submission(attempt)) for attempt in (1, 2))
    steps = restart_steps(FLIGHTS, NOON - timedelta(hours=24), RunView(run=began, submissions=submissions))

    with pytest.raises(StopIteration) as done:
        next(steps)

    assert done.value.value == 1


def test_the_first_job_that_a_page_has_no_room_for_is_on_the_next_one() -> None:
    jobs = [listed(JobState.RUNNING, f"job-{number:03d}") for number in range(PAGE + 1)]

    found = choose(jobs, OverviewQuery(sort=SortKey.JOB), now=NOON)

    assert [found[on_page(page)][:1] for page in (1, 2, 3)] == [["job-000"], [f"job-{PAGE}"], []]
    assert [len(found[on_page(page)]) for page in (1, 2)] == [PAGE, 1]


@pytest.mark.parametrize(("found", "pages"), [(0, 1), (1, 1), (PAGE, 1), (PAGE + 1, 2), (2 * PAGE, 2)])
def test_a_list_has_as_many_pages_as_its_jobs_fill_and_one_for_none(found: int, pages: int) -> None:
    assert pages_of(found) == pages


def test_a_page_counts_all_jobs_of_the_cluster() -> None:
    jobs = [listed(JobState.LOST, f"job-{number:03d}") for number in range(PAGE + 1)]

    shown = overview(jobs, found=PAGE + 1, rows=(), page=2, now=NOON)

    assert (shown.jobs, shown.found, shown.page, shown.pages) == (PAGE + 1, PAGE + 1, 2, 2)
    assert (shown.states, shown.attention) == ({"LOST": PAGE + 1}, PAGE + 1)


MISTAKE = Failure(
    kind=FailureKind.UNKNOWN, error_class="SystemExit", message="2", query="orders", batches={"orders": 4}
)
MINUTE = timedelta(minutes=1)


def attempts(*failures: Failure | None, reason: str = "the JVM ended with code 1") -> tuple[SubmissionView, ...]:
    """Attempts that lived for 30 s each, a minute apart, the newest one a minute ago; and one that has not ended."""
    made = []
    for number, failure in enumerate(failures, start=1):
        begin = NOON - (len(failures) - number + 2) * MINUTE
        left = SubmissionExit(code=1, reason=reason, failure=failure, at=begin + MINUTE / 2)
        submission = a_submission(number).model_copy(update={"created_at": begin})
        made.append(SubmissionView(submission=submission, started=a_start(), exit=left, created_zxid=number))
    newest = a_submission(len(made) + 1).model_copy(update={"created_at": NOON - MINUTE})
    return (*made, SubmissionView(submission=newest, started=a_start(), created_zxid=100))


def looping(state: JobState, submissions: tuple[SubmissionView, ...], *, led: timedelta = MINUTE) -> JobStatus:
    """A job between two attempts, in one of the states that it goes through."""
    run, newest = a_run(), submissions[-1]
    if state is JobState.LOST:
        submissions = submissions[:-1]
    if state is JobState.SUBMITTED:
        submissions = (*submissions[:-1], dataclasses.replace(newest, started=None))
    leader = None
    if state in (JobState.RUNNING, JobState.STOPPING):
        leader = a_leader(7, attempt=newest.submission.attempt).model_copy(update={"since": NOON - led})
    return JobStatus(
        job_id="flights",
        leader=leader,
        epoch=7 if leader is not None else 6,
        epoch_zxid=50,
        run=RunView(run=run, submissions=submissions),
        status=a_status(state, epoch=7),
    )


@pytest.mark.parametrize(
    "state", [JobState.SUBMITTED, JobState.STARTING, JobState.LOST, JobState.RUNNING, JobState.STOPPING]
)
def test_a_crash_loop_needs_attention_in_each_of_its_states_and_says_why(state: JobState) -> None:
    snapshot = looping(state, attempts(MISTAKE, MISTAKE, MISTAKE))
    assert snapshot.state is state

    row = overview_row(JobDetail(job_id="flights", snapshot=snapshot), now=NOON)

    assert (row.state, row.needs_attention) == (state.value, True)
    assert row.problem == (
        "attempt 3: UNKNOWN SystemExit: 2 in query 'orders' after batch 4, 3 times since 2013-01-01 11:56:30 UTC; "
        "3 attempts in a row have failed"
    )


@pytest.mark.parametrize("state", [JobState.SUBMITTED, JobState.STARTING, JobState.RUNNING])
def test_the_first_failure_of_a_job_that_comes_back_needs_no_attention(state: JobState) -> None:
    row = overview_row(JobDetail(job_id="flights", snapshot=looping(state, attempts(MISTAKE))), now=NOON)

    assert not row.needs_attention
    assert bool(row.problem) == (state is not JobState.RUNNING)


def test_drivers_that_are_killed_again_and_again_are_a_crash_loop_as_well() -> None:
    snapshot = looping(JobState.STARTING, attempts(None, None))

    row = overview_row(JobDetail(job_id="flights", snapshot=snapshot), now=NOON)

    assert row.needs_attention
    assert row.problem == "attempt 2: the JVM ended with code 1; 2 attempts in a row have failed"


def test_a_job_whose_driver_has_led_for_long_since_its_failures_is_well() -> None:
    snapshot = looping(JobState.RUNNING, attempts(MISTAKE, MISTAKE), led=timedelta(hours=1))

    row = overview_row(JobDetail(job_id="flights", snapshot=snapshot), now=NOON)

    assert (row.needs_attention, row.problem) == (False, "")


def test_a_driver_that_hangs_at_its_start_does_not_end_a_crash_loop() -> None:
    late = NOON + timedelta(hours=1)

    row = overview_row(JobDetail(job_id="flights", snapshot=looping(JobState.STARTING, attempts(None, None))), now=late)

    assert row.needs_attention


def test_of_jobs_that_run_the_one_in_a_crash_loop_comes_first() -> None:
    jobs = [
        listed(JobState.RUNNING, "a"),
        listed(JobState.STARTING, "b", loops=True),
        listed(JobState.STOPPING, "c"),
    ]

    assert choose(jobs, OverviewQuery(), now=NOON) == ["b", "c", "a"]
    assert choose(jobs, OverviewQuery(state="attention"), now=NOON) == ["b"]
