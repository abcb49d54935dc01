"""The list of jobs knows every state, and puts what a person should look at first."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_provider_ha.control.administration.overview import Brief, Detail, restart_steps
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.jobs.model import JobState, QueryStatus
from airflow_provider_ha.jobs.runs import RunView, SubmissionView
from airflow_provider_ha.jobs.snapshot import JobSnapshot, led_lag
from airflow_provider_ha.views.overview import (
    PAGE,
    STATES,
    Asked,
    SortKey,
    choose,
    on_page,
    overview,
    overview_row,
    pages_of,
)
from tests.support.clusters.jobs_helpers import NOON, a_leader, a_run, a_start, a_status, a_submission


FLIGHTS = ClusterPaths("root", "default").job("flights")


def test_every_state_has_its_place_in_the_order() -> None:
    assert {state.value for state in JobState} <= set(STATES)


@pytest.mark.parametrize("state", JobState)
def test_a_job_that_a_person_should_look_at_comes_before_those_that_run(state: JobState) -> None:
    wanted = state in (JobState.LOST, JobState.FAILED, JobState.STALLED)

    assert Brief(job_id="flights", state=state).needs_attention == wanted
    assert not wanted or STATES.index(state.value) < STATES.index("RUNNING")


def test_a_stalled_job_is_shown_with_what_hangs() -> None:
    reason = "query 'hourly' has been in one trigger after batch 7 for 600 s"
    snapshot = JobSnapshot(
        job_id="flights",
        leader=a_leader(),
        epoch=1,
        run=RunView(run=a_run(), submissions=(SubmissionView(submission=a_submission(), started=a_start()),)),
        status=a_status().model_copy(update={"stalled": reason}),
    )

    row = overview_row(Detail(job_id="flights", snapshot=snapshot))

    assert (row.state, row.needs_attention, row.problem) == ("STALLED", True, reason)


@pytest.mark.parametrize(
    ("lags", "told"), [((3, 4), 7), ((3, None), 3), ((0,), 0), ((None, None), None), ((), None)], ids=repr
)
def test_the_lag_of_a_job_is_that_of_its_queries_that_tell_it(lags: tuple[int | None, ...], told: int | None) -> None:
    queries = {f"q{number}": QueryStatus(planned=1, committed=1, lag=lag) for number, lag in enumerate(lags)}

    assert led_lag(a_leader(), a_status().model_copy(update={"queries": queries})) == told


def test_a_leader_that_has_written_no_status_yet_has_no_lag_of_the_one_before_it() -> None:
    status = a_status(epoch=1).model_copy(update={"queries": {"q": QueryStatus(planned=1, committed=1, lag=5)}})

    assert led_lag(a_leader(2), status) is None
    assert led_lag(None, status) is None


def test_restarts_of_a_job_whose_run_began_before_that_time_cost_no_read() -> None:
    began = a_run().model_copy(update={"created_at": NOON - timedelta(hours=30)})
    submissions = tuple(SubmissionView(submission=a_submission(attempt)) for attempt in (1, 2))
    steps = restart_steps(FLIGHTS, NOON - timedelta(hours=24), RunView(run=began, submissions=submissions))

    with pytest.raises(StopIteration) as done:
        next(steps)

    assert done.value.value == 1


def test_the_first_job_that_a_page_has_no_room_for_is_on_the_next_one() -> None:
    briefs = [Brief(job_id=f"job-{number:03d}", state=JobState.RUNNING) for number in range(PAGE + 1)]

    found = choose(briefs, Asked(sort=SortKey.JOB))

    assert [found[on_page(page)][:1] for page in (1, 2, 3)] == [["job-000"], [f"job-{PAGE}"], []]
    assert [len(found[on_page(page)]) for page in (1, 2)] == [PAGE, 1]


@pytest.mark.parametrize(("found", "pages"), [(0, 1), (1, 1), (PAGE, 1), (PAGE + 1, 2), (2 * PAGE, 2)])
def test_a_list_has_as_many_pages_as_its_jobs_fill_and_one_for_none(found: int, pages: int) -> None:
    assert pages_of(found) == pages


def test_a_page_counts_all_jobs_of_the_cluster() -> None:
    briefs = [Brief(job_id=f"job-{number:03d}", state=JobState.LOST) for number in range(PAGE + 1)]

    shown = overview(briefs, found=PAGE + 1, rows=(), page=2)

    assert (shown.jobs, shown.found, shown.page, shown.pages) == (PAGE + 1, PAGE + 1, 2, 2)
    assert (shown.states, shown.attention) == ({"LOST": PAGE + 1}, PAGE + 1)
