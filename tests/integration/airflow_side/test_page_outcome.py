"""The page of an operation: its own run's result, however the job went on, and what it says while nothing is known."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Delete
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.jobs import operations
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.runs import RunStore
from tests.support import airflow_auth
from tests.support.clusters.jobs_helpers import NOON, a_result, lead, submit
from tests.support.clusters.paged_job import job_maker
from tests.support.mounted_page import Page, page_of, token_of


pytestmark = pytest.mark.airflow
STOP = "/jobs/flights/actions/stop"


@pytest.fixture(scope="module", autouse=True)
def database() -> Iterator[None]:
    airflow_auth.make_database()
    with airflow_auth.dags("alpha", "beta"):
        yield


@pytest.fixture
def erin(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An editor."""
    return airflow_auth.headers_of(airflow_auth.auth_manager(monkeypatch), "erin", "user")


@pytest.fixture
def page(config: HaConfig) -> Iterator[Page]:
    with page_of(config) as served:
        yield served


@pytest.fixture
def job(coordinator: Coordinator, cluster_paths: ClusterPaths, config: HaConfig) -> Callable[..., JobPaths]:
    """Makes a job with a live run, and a leader if wanted."""
    return job_maker(coordinator, cluster_paths, config)


def press(page: Page, user: dict[str, str], at: str = STOP) -> str:
    """Load the page and press its button; return the address that it leads to."""
    answer = page.request("POST", at, headers=user, data=token_of(page.get(at, headers=user).text))
    assert answer.status_code == 303, answer.text
    return f"/jobs/flights/actions/{answer.headers['location']}"


def carry_out(leadership: Leadership, coordinator: Coordinator, paths: JobPaths) -> None:
    """Do what a driver does with a stop: its answer and the result of its run, in one transaction."""
    [asked] = operations.list_operations(coordinator, paths)
    answer = operations.completed_op(paths, asked, result={"checkpoint": 7}, at=NOON)
    leadership.commit(RunStore(coordinator, paths).result_op(1, a_result(JobState.FINISHED)), answer)


def test_a_stop_that_is_done_shows_the_result_of_its_run_when_the_job_runs_again(
    page: Page, erin: Any, job: Any, coordinator: Coordinator, config: HaConfig
) -> None:
    paths = job(led=False)
    leadership = lead(coordinator, paths, config)
    at = press(page, erin)
    carry_out(leadership, coordinator, paths)
    submit(coordinator, paths, number=2)

    shown = page.get(at, headers=erin)

    assert re.search(r"Run</th><td>1<", shown.text)
    assert re.search(r"The run is</th><td>FINISHED", shown.text)
    assert "refresh" not in shown.headers


def test_a_stop_whose_run_was_removed_says_so_and_waits_for_nothing(
    page: Page, erin: Any, job: Any, coordinator: Coordinator, config: HaConfig
) -> None:
    paths = job(led=False)
    leadership = lead(coordinator, paths, config)
    at = press(page, erin)
    carry_out(leadership, coordinator, paths)
    submit(coordinator, paths, number=2)
    remove_run(coordinator, paths, 1)

    shown = page.get(at, headers=erin)

    assert "Its run 1 is over, and its record was removed" in shown.text
    assert "COMPLETED" in shown.text
    assert "refresh" not in shown.headers


def remove_run(coordinator: Coordinator, paths: JobPaths, number: int) -> None:
    """Remove the record of a run, as retention does."""

    def below(path: str) -> Iterator[str]:
        for name in coordinator.children(path):
            yield from below(f"{path}/{name}")
        yield path

    coordinator.commit(*map(Delete, below(paths.run(number))))
