"""Actions on the page of a job are those that the page has shown: the way to cancel, and the run that ends."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Delete, SetData
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.jobs.model import JobState, OperationKind
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.runs.run_store import RunStore
from tests.support import airflow_auth
from tests.support.clusters.jobs_helpers import a_result, a_run, a_status, a_submission, an_exit, lead
from tests.support.clusters.paged_job import job_maker
from tests.support.mounted_page import Page, token_of
from tests.support.spark.driver_helpers import Stream
from tests.support.spark.supervised_job import SupervisedJob


pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("database")]
AT_ONCE = "/jobs/flights/actions/cancel"
SAVED_CANCEL = f"{AT_ONCE}?savepoint=yes"


@pytest.fixture
def job(coordinator: Coordinator, cluster_paths: ClusterPaths, config: HaConfig) -> Callable[..., JobPaths]:
    """Makes a job with a live run, and a leader if wanted."""
    return job_maker(coordinator, cluster_paths, config)


def test_a_cancel_takes_the_savepoint_first_when_that_was_shown_and_its_outcome_is_followed(
    page: Page, manager: Any, job: Any, coordinator: Coordinator, config: HaConfig
) -> None:
    paths, user = job(led=False), airflow_auth.headers_of(manager, "erin", "user")
    leadership = lead(coordinator, paths, config)
    leadership.commit(Create(paths.status, a_status(epoch=leadership.epoch).to_bytes()))
    shown = page.get(SAVED_CANCEL, headers=user).text
    form = token_of(shown)

    first, again = (page.request("POST", SAVED_CANCEL, headers=user, data=form) for _ in range(2))

    assert "spark-ha job cancel flights --savepoint" in shown
    assert "When the savepoint fails, the run does not end" in shown
    assert (first.status_code, again.headers["location"]) == (303, first.headers["location"])
    [asked] = operations.list_operations(coordinator, paths)
    assert (asked.operation, asked.requested_by) == (OperationKind.CANCEL_WITH_SAVEPOINT, "Airflow user erin")
    # What a driver does: the savepoint, the answer, the end of the run.
    at = f"/jobs/flights/actions/{first.headers['location']}"
    taken = {"savepoint_id": "s1", "path": "/savepoints/s1"}
    operations.complete(leadership, paths, asked, result=taken, clock=SystemClock())
    saved = page.get(at, headers=user)
    coordinator.commit(RunStore(coordinator, paths).result_op(1, a_result(JobState.CANCELED)))
    ended = page.get(at, headers=user)

    assert "/savepoints/s1" in saved.text
    assert saved.headers["refresh"] == "2", "the run has not ended yet"
    assert re.search(r"The run is</th><td>CANCELED", ended.text)
    assert "refresh" not in ended.headers


@pytest.mark.parametrize("at", [AT_ONCE, SAVED_CANCEL])
def test_only_the_form_says_how_a_job_is_cancelled(
    page: Page, manager: Any, job: Any, coordinator: Coordinator, at: str
) -> None:
    paths, user = job(), airflow_auth.headers_of(manager, "erin", "user")
    form = token_of(page.get(AT_ONCE, headers=user).text)

    answer = page.request("POST", at, headers=user, data=form | {"savepoint": "yes"})

    assert answer.status_code == 303
    [asked] = operations.list_operations(coordinator, paths)
    assert asked.operation is OperationKind.CANCEL


def test_a_cancel_with_a_savepoint_is_for_who_may_act(
    page: Page, manager: Any, job: Any, coordinator: Coordinator
) -> None:
    paths, vera = job(), airflow_auth.headers_of(manager, "vera", "viewer")
    form = token_of(page.get(SAVED_CANCEL, headers=airflow_auth.headers_of(manager, "erin", "user")).text)

    for method in ("GET", "POST"):
        sent = {"data": form} if method == "POST" else {}
        assert page.request(method, SAVED_CANCEL, **sent).status_code == 401
        assert page.request(method, SAVED_CANCEL, headers=vera, **sent).status_code == 403
    assert operations.list_operations(coordinator, paths) == []


def test_a_job_that_lost_its_driver_is_cancelled_at_once_only(
    page: Page, manager: Any, job: Any, coordinator: Coordinator
) -> None:
    paths, user = job(), airflow_auth.headers_of(manager, "erin", "user")
    form = token_of(page.get(SAVED_CANCEL, headers=user).text)
    coordinator.commit(Delete(paths.leader), Create(paths.submission_exit(1, 1), an_exit().to_bytes()))

    shown = page.get(SAVED_CANCEL, headers=user).text
    answer = page.request("POST", SAVED_CANCEL, headers=user, data=form)

    assert "The driver is lost. This needs a driver" in shown
    assert 'name="token"' not in shown
    assert 'name="token"' in page.get(AT_ONCE, headers=user).text
    assert answer.status_code == 409
    assert operations.list_operations(coordinator, paths) == []


def begin_run_2(coordinator: Coordinator, paths: JobPaths, config: HaConfig) -> None:
    """Have run 1 over, and run 2 led."""
    runs = RunStore(coordinator, paths)
    coordinator.commit(runs.result_op(1, a_result()), Delete(paths.leader))
    coordinator.commit(runs.create_op(a_run(2)), *runs.submission_ops(2, a_submission(1)))
    leadership = lead(coordinator, paths, config, run=2)
    leadership.commit(SetData(paths.status, a_status(run=2, epoch=leadership.epoch).to_bytes(), -1))


@pytest.mark.parametrize("action", ["savepoint", "stop", "drain", "cancel", "cancel?savepoint=yes"])
def test_a_form_of_a_run_that_is_over_ends_no_other(  # noqa: PLR0917  # one of them is the parameter of the test
    page: Page, manager: Any, job: Any, coordinator: Coordinator, config: HaConfig, action: str
) -> None:
    paths, user = job(), airflow_auth.headers_of(manager, "erin", "user")
    at = f"/jobs/flights/actions/{action}"
    form = token_of(page.get(at, headers=user).text)
    begin_run_2(coordinator, paths, config)

    answer = page.request("POST", at, headers=user, data=form)

    assert answer.status_code == 409
    assert "is for run 1 of job &#39;flights&#39;, and the newest is run 2" in answer.text
    assert operations.list_operations(coordinator, paths) == []
    form = token_of(page.get(at, headers=user).text)
    assert page.request("POST", at, headers=user, data=form).status_code == 303
    assert [each.run for each in operations.list_operations(coordinator, paths)] == [2]


@pytest.mark.hours
@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_form_of_run_1_leaves_the_driver_of_run_2_at_work(
    page: Page, manager: Any, client: HaClient, tmp_path: Path
) -> None:
    job, user = SupervisedJob(client, Stream(tmp_path), ("rows",)), airflow_auth.headers_of(manager, "erin", "user")
    at = f"/jobs/{job.job_id}/actions/cancel"
    job.stream.feed(1)
    job.submit()
    job.await_committed(1, 0)
    form = token_of(page.get(at, headers=user).text)
    job.stop("suspend")
    job.await_result()
    job.stream.feed(1)
    job.submit()
    job.await_committed(2, 1)

    answer = page.request("POST", at, headers=user, data=form)

    assert answer.status_code == 409
    job.stream.feed(1)
    job.await_read(2)
    assert page.request("POST", at, headers=user, data=token_of(page.get(at, headers=user).text)).status_code == 303
    assert job.await_result().state is JobState.CANCELED


def test_a_form_that_is_sent_again_when_its_run_is_over_leads_to_what_it_has_asked_for(
    page: Page, manager: Any, job: Any, coordinator: Coordinator, config: HaConfig
) -> None:
    paths, user = job(), airflow_auth.headers_of(manager, "erin", "user")
    at = "/jobs/flights/actions/stop"
    form = token_of(page.get(at, headers=user).text)
    first = page.request("POST", at, headers=user, data=form)
    begin_run_2(coordinator, paths, config)

    again = page.request("POST", at, headers=user, data=form)

    assert (again.status_code, again.headers["location"]) == (303, first.headers["location"])
    assert [each.run for each in operations.list_operations(coordinator, paths)] == [1]
