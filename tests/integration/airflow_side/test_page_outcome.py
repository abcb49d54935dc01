"""The page of an operation: its own run's result, however the job went on, and what it says while nothing is known."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from threading import Event, Timer
from typing import Any

import httpx
import pytest

from airflow_provider_ha.airflow_side.page import actions
from airflow_provider_ha.airflow_side.page.clusters import SECONDS
from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Delete, Op
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.fleet import observations
from airflow_provider_ha.fleet.observations import Quarantine, quarantine_op, quarantine_reason
from airflow_provider_ha.jobs.model import JobState, RunEnd
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.runs.run_store import RunStore
from airflow_provider_ha.testing.waiting import wait_until
from tests.support import airflow_auth
from tests.support.clusters.jobs_helpers import NOON, a_result, a_run, a_submission, an_exit, lead, submit
from tests.support.clusters.paged_job import job_maker
from tests.support.mounted_page import Page, token_of


pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("database")]
STOP, RELEASE = "/jobs/flights/actions/stop", "/jobs/flights/actions/release"


@pytest.fixture
def erin(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An editor."""
    return airflow_auth.headers_of(airflow_auth.auth_manager(monkeypatch), "erin", "user")


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
    result = a_result(JobState.FINISHED, end=RunEnd.of(asked, {"checkpoint": 7}))
    answers = operations.ending_ops(coordinator, paths, 1, result)
    leadership.commit(RunStore(coordinator, paths).result_op(1, result), *answers)


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


@pytest.fixture
def dead_driver(job: Any, config: HaConfig, coordinator: Coordinator) -> Iterator[Coordinator]:
    """The session of a driver that is proven dead, which still has its leader node: that of a job with a checkpoint."""
    session = KazooCoordinator.connect(config)
    paths = job(led=False)
    lead(session, paths, config)
    coordinator.ensure(paths.checkpoints)
    coordinator.commit(Create(paths.checkpoint(1)), Create(paths.submission_exit(1, 1), an_exit().to_bytes()))
    yield session
    session.close()


def test_a_stop_that_waits_for_the_session_of_a_dead_driver_is_answered_with_its_end(
    page: Page, erin: Any, dead_driver: Coordinator
) -> None:
    waited = Timer(SECONDS + 0.5, dead_driver.close)
    waited.start()

    at = press(page, erin)

    waited.join()
    shown = page.get(at, headers=erin)
    assert re.search(r"The run is</th><td>FINISHED", shown.text)
    assert "refresh" not in shown.headers


def test_a_stop_that_takes_longer_than_its_form_waits_leads_to_its_outcome(
    page: Page, erin: Any, dead_driver: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "ACT_SECONDS", 1.0)

    at = press(page, erin)

    pending = wait_until(lambda: in_state("REQUESTED", page.get(at, headers=erin)), timeout=10, what="the request")
    assert pending.headers["refresh"] == "2"
    dead_driver.close()
    done = wait_until(lambda: in_state("COMPLETED", page.get(at, headers=erin)), timeout=30, what="the stop")
    assert re.search(r"The run is</th><td>FINISHED", done.text)


def in_state(state: str, shown: httpx.Response) -> httpx.Response | None:
    return shown if f"<strong>{state}</strong>" in shown.text else None


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Event]:
    """Requests of stops that begin late: when the event is set, which the form does not wait for."""
    go_on, request_stop = Event(), JobClient.request_stop

    def late(*args: Any, **kwargs: Any) -> Any:
        assert go_on.wait(60)
        return request_stop(*args, **kwargs)

    monkeypatch.setattr(JobClient, "request_stop", late)
    monkeypatch.setattr(actions, "ACT_SECONDS", 0.3)
    yield go_on
    go_on.set()


def test_while_a_request_has_no_answer_its_outcome_is_not_known_and_then_that_of_the_operation(
    page: Page, erin: Any, job: Any, coordinator: Coordinator, slow: Event
) -> None:
    paths = job()

    at = press(page, erin)
    pending = page.get(at, headers=erin)

    assert pending.status_code == 200
    assert "It is unknown yet whether the operation was requested." in pending.text
    assert pending.headers["refresh"] == "2"
    assert operations.list_operations(coordinator, paths) == []
    slow.set()
    wait_until(lambda: in_state("REQUESTED", page.get(at, headers=erin)), timeout=30, what="the operation")
    assert len(operations.list_operations(coordinator, paths)) == 1


@pytest.mark.parametrize("change", ["no mark", "another operation", "forged", "old"])
def test_an_operation_that_was_never_asked_for_is_not_found(  # noqa: PLR0917  # one of them is the parameter of the test
    page: Page, erin: Any, job: Any, slow: Event, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    job()
    at = press(page, erin)
    if change == "no mark":
        at = at.partition("&asked=")[0]
    elif change == "another operation":
        at = at.replace("page-stop-", "page-stop-0")
    elif change == "forged":
        at = f"{at[:-2]}xx"
    else:
        monkeypatch.setattr(actions, "LIFETIME", -1)

    assert page.get(at, headers=erin).status_code == 404
    assert not slow.is_set()


@pytest.fixture
def quarantined(job: Any, coordinator: Coordinator, cluster_paths: ClusterPaths) -> Callable[[str], None]:
    """Puts a job of DAG alpha into quarantine, for a reason."""
    job(led=False, owner="alpha")
    coordinator.ensure(cluster_paths.quarantine)

    def put(reason: str) -> None:
        record = Quarantine(job_id="flights", reason=reason, by="leader", cluster_epoch=1, at=NOON)
        coordinator.commit(quarantine_op(cluster_paths, record))

    return put


def test_a_release_is_of_the_quarantine_that_was_shown(
    page: Page, erin: Any, quarantined: Any, coordinator: Coordinator, cluster_paths: ClusterPaths
) -> None:
    quarantined("the graph is gone")
    form = token_of(page.get(RELEASE, headers=erin).text)
    coordinator.commit(Delete(cluster_paths.quarantined("flights")))
    quarantined("the disk is on fire")

    answer = page.request("POST", RELEASE, headers=erin, data=form)

    assert answer.status_code == 409
    assert "was put into quarantine again, because the disk is on fire" in answer.text
    assert quarantine_reason(coordinator, cluster_paths, "flights") == "the disk is on fire"


def test_a_release_of_a_job_that_has_another_owner_since_is_refused(  # noqa: PLR0917  # they are fixtures
    page: Page,
    erin: Any,
    quarantined: Any,
    coordinator: Coordinator,
    cluster_paths: ClusterPaths,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quarantined("the graph is gone")
    form = token_of(page.get(RELEASE, headers=erin).text)
    just_before_the_release(monkeypatch, lambda: submit_for("beta", coordinator, cluster_paths.job("flights")))

    answer = page.request("POST", RELEASE, headers=erin, data=form)

    assert answer.status_code == 409
    assert "has a newer run, possibly of another owner" in answer.text
    assert quarantine_reason(coordinator, cluster_paths, "flights") == "the graph is gone"
    assert RunStore(coordinator, cluster_paths.job("flights")).numbers() == [1, 2]


def test_a_release_that_was_shown_with_an_earlier_run_is_refused(
    page: Page, erin: Any, quarantined: Any, coordinator: Coordinator, cluster_paths: ClusterPaths
) -> None:
    quarantined("the graph is gone")
    form = token_of(page.get(RELEASE, headers=erin).text)
    submit_for("alpha", coordinator, cluster_paths.job("flights"))

    answer = page.request("POST", RELEASE, headers=erin, data=form)

    assert answer.status_code == 409
    assert quarantine_reason(coordinator, cluster_paths, "flights") == "the graph is gone"


def test_of_two_releases_at_once_both_lead_to_the_job(  # noqa: PLR0917  # they are fixtures
    page: Page,
    erin: Any,
    quarantined: Any,
    coordinator: Coordinator,
    cluster_paths: ClusterPaths,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quarantined("the graph is gone")
    form = token_of(page.get(RELEASE, headers=erin).text)
    just_before_the_release(monkeypatch, lambda: coordinator.commit(Delete(cluster_paths.quarantined("flights"))))

    answer = page.request("POST", RELEASE, headers=erin, data=form)

    assert answer.status_code == 303
    assert answer.headers["location"].startswith("../../flights?")
    assert RunStore(coordinator, cluster_paths.job("flights")).numbers() == [1]


def submit_for(owner: str, coordinator: Coordinator, paths: JobPaths) -> None:
    """Submit a second run of the job, which belongs to another DAG."""
    runs = RunStore(coordinator, paths)
    run = a_run(2).model_copy(update={"owner": owner})
    coordinator.commit(runs.create_op(run), *runs.submission_ops(2, a_submission()))


class BeforeCommit:
    """A session that lets something happen just before each of its transactions."""

    def __init__(self, inner: Coordinator, event: Callable[[], Any]) -> None:
        self._inner = inner
        self._event = event

    def commit(self, *ops: Op, timeout: float | None = None) -> list[int]:
        self._event()
        return self._inner.commit(*ops, timeout=timeout)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def just_before_the_release(monkeypatch: pytest.MonkeyPatch, event: Callable[[], Any]) -> None:
    """Let something happen after all that a release depends on was read, and before its transaction."""
    release = observations.release_shown_quarantine

    def interrupted(session: Coordinator, *args: Any, **kwargs: Any) -> bool:
        return release(BeforeCommit(session, event), *args, **kwargs)

    monkeypatch.setattr(observations, "release_shown_quarantine", interrupted)
