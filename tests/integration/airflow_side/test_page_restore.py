"""Bringing a job back from its page: the plan first, then one run of the DAG that we ship, then its outcome.

The DAGs are those of ``dags/``, in the database of the tests' Airflow. No scheduler runs: what its tasks ask the job
for is asked here under the ids that they would use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import httpx
import pytest
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

from airflow_provider_ha.airflow_side.page.job_data import SHOWN
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Create, SetData
from airflow_provider_ha.fleet.observations import Quarantine, quarantine_op
from airflow_provider_ha.jobs.job_context import CallerIdentity, JobContext
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.jobs.run_history import RUNS
from airflow_provider_ha.jobs.submit.requests import LostRunPolicy, SubmittedRun
from airflow_provider_ha.names import task_request
from tests.support import airflow_auth, shipped_dags
from tests.support.airflow_exceptions import AirflowFailException
from tests.support.clusters.airflow_helpers import context
from tests.support.clusters.cluster_helpers import Cluster
from tests.support.clusters.jobs_helpers import NOON, a_result, a_run, a_submission, an_exit
from tests.support.clusters.lost_jobs import lose
from tests.support.clusters.shown_cluster import ShownJob, now
from tests.support.mounted_page import Page, served_page_of, token_of
from tests.support.shipped_dags import RECOVER, RESTORE


pytestmark = [pytest.mark.airflow, pytest.mark.timeout(300), pytest.mark.usefixtures("engine_remembers")]


class NoTriggers(SimpleAuthManager):
    """Airflow's auth manager; a user called ``nora`` may do everything but trigger a DAG."""

    def is_authorized_dag(self, *, method: Any, user: Any, access_entity: Any = None, details: Any = None) -> bool:
        if user.username == "nora" and method == "POST":
            return False
        if user.username == "bert" and details is not None and details.id == RESTORE:
            return False
        return super().is_authorized_dag(method=method, user=user, access_entity=access_entity, details=details)


@pytest.fixture(scope="module", autouse=True)
def dags() -> Iterator[None]:
    airflow_auth.make_database()
    with shipped_dags.shipped(RESTORE, RECOVER):
        yield


@pytest.fixture(autouse=True)
def no_runs() -> Iterator[None]:
    yield
    shipped_dags.forget_runs([RESTORE, RECOVER])
    shipped_dags.set_paused([RESTORE, RECOVER], paused=False)
    shipped_dags.set_stale([RESTORE, RECOVER], stale=False)


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Any:
    return airflow_auth.auth_manager(monkeypatch, NoTriggers)


@pytest.fixture
def erin(manager: Any) -> dict[str, str]:
    """An editor."""
    return airflow_auth.headers_of(manager, "erin", "user")


@pytest.fixture
def lost(cluster: Cluster) -> JobContext:
    """A job that has lost its driver, with a checkpoint that can be restored."""
    return lose(cluster)


def confirm(page: Page, user: dict[str, str], way: str, **params: Any) -> str:
    """Load the page and press its button; return the address that it leads to."""
    shown = page.get(f"/jobs/flights/{way}", headers=user, params=params)
    answer = page.request("POST", f"/jobs/flights/{way}", headers=user, data=token_of(shown.text))
    assert answer.status_code == 303, answer.text
    return f"/jobs/flights/{answer.headers['location']}"


def run_id(address: str) -> str:
    return address.rpartition("/")[2].partition("?")[0]


def carry_out(cluster: Cluster, at: str, *, seen: int | None = None) -> SubmittedRun:
    """Restore, as the task of the DAG run does that an address belongs to."""
    return cluster.client.job("flights", acting=CallerIdentity(run=seen)).restore(
        RestoreRequest(
            job_id="flights",
            request_id=task_request(RESTORE, run_id(at), "restore"),
            start_from="checkpoint-1",
            accept_verdicts=frozenset({Verdict.SAFE}),
            if_lost=LostRunPolicy.RESTART,
        )
    )


def test_a_restore_begins_with_its_plan_and_asks_for_nothing(page: Page, lost: JobContext, erin: Any) -> None:
    shown = page.get("/jobs/flights/restore", headers=erin).text

    assert "checkpoint-1" in shown
    assert "The lost run 1 ends." in shown
    assert "spark-ha job restore flights --start-from checkpoint-1 --if-lost restart" in shown
    assert "DUPLICATES_POSSIBLE: rows may be written again" in shown
    assert re.search(r"SAFE</span> from <strong>checkpoint-1</strong>", shown)
    assert shipped_dags.runs_of(RESTORE) == []
    assert lost.runs.numbers() == [1]


def test_a_damaged_checkpoint_is_named_beside_the_verdict_with_what_is_taken_in_its_place(
    page: Page, lost: JobContext, erin: Any
) -> None:
    """Its pointer is there, and its files are not."""
    ShownJob(lost.coordinator, lost.store, lost.paths.cluster, "flights", checkpoint=1).take_checkpoint(now())

    shown = page.get("/jobs/flights/restore", headers=erin).text

    beside = shown.partition("SAFE</span> from <strong>checkpoint-1")[2].partition(
        'aria-label="Effects of the restore"'
    )[0]
    assert re.search(r"<strong>checkpoint-2</strong>, taken .* cannot be restored: .*; so checkpoint-1\.", beside)
    assert "<details" not in beside


def test_a_restore_offers_the_newest_states_and_takes_an_older_one_by_its_name(
    page: Page, lost: JobContext, erin: Any
) -> None:
    job = ShownJob(lost.coordinator, lost.store, lost.paths.cluster, "flights")
    for number in range(SHOWN):
        job.take_savepoint(f"s{number:02d}", now() + timedelta(minutes=number + 1))

    latest, older = (
        page.get("/jobs/flights/restore", headers=erin, params=params).text
        for params in ({}, {"start_from": "checkpoint-1"})
    )

    newest = [f"savepoint-s{number:02d}" for number in range(SHOWN - 1, -1, -1)]
    assert offered(latest) == ["latest", *newest]
    assert "1 older one is not in the list" in latest
    assert offered(older) == ["latest", *newest, "checkpoint-1"]
    assert '<option value="checkpoint-1" selected>' in older
    assert re.search(r"SAFE</span> from <strong>checkpoint-1</strong>", older)


def offered(shown: str) -> list[str]:
    """Return what can be chosen to start from."""
    choice = shown.partition('<select name="start_from">')[2].partition("</select>")[0]
    return re.findall(r'<option value="([^"]+)"', choice)


def test_what_was_shown_is_asked_of_the_dag_once(page: Page, lost: JobContext, erin: Any) -> None:
    form = token_of(page.get("/jobs/flights/restore?accept=DUPLICATES_POSSIBLE", headers=erin).text)

    answers = [page.request("POST", "/jobs/flights/restore", headers=erin, data=form) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [303, 303]
    assert answers[0].headers["location"] == answers[1].headers["location"]
    [run] = shipped_dags.runs_of(RESTORE)
    assert run.conf == {
        "source_job": "flights",
        "job_id": "flights",
        "start_from": "checkpoint-1",
        "fallback": False,
        "accept_verdicts": ["SAFE", "DUPLICATES_POSSIBLE"],
        "if_lost": "restart",
        "force": False,
        "seen_run": 1,
        "spark_ha_conn_id": "spark_ha_default",
    }
    assert run.run_id == run_id(answers[0].headers["location"])
    assert run.triggering_user_name == "erin"
    assert lost.runs.numbers() == [1], "the page starts no driver"


def test_a_restore_that_is_refused_has_its_plan_and_the_reason_and_no_button(
    page: Page, lost: JobContext, erin: Any
) -> None:
    shown = page.get("/jobs/flights/restore?if_lost=", headers=erin).text

    assert "This restore is refused" in shown
    assert "has lost the driver of run 1" in shown
    assert "SAFE" in shown
    assert 'name="token"' not in shown
    assert lost.job_id == "flights"


def test_a_checkpoint_that_is_not_there_has_no_plan(page: Page, lost: JobContext, erin: Any) -> None:
    shown = page.get("/jobs/flights/restore?start_from=checkpoint-7", headers=erin)

    assert shown.status_code == 200
    assert "No plan" in shown.text
    assert "has no checkpoint 7" in shown.text
    assert 'name="token"' not in shown.text
    assert lost.job_id == "flights"


@pytest.mark.parametrize("wrong", ["accept=COLOUR", "if_lost=perhaps", f"start_from={'x' * 300}"])
def test_a_choice_that_does_not_exist_is_a_page_that_says_so(
    page: Page, lost: JobContext, erin: Any, wrong: str
) -> None:
    answer = page.get(f"/jobs/flights/restore?{wrong}", headers=erin)

    assert answer.status_code == 400
    assert "This address cannot be used" in answer.text
    assert lost.job_id == "flights"


REFUSALS = [
    ("restore", "paused", "DAG disaster_recovery is paused", "airflow dags unpause disaster_recovery"),
    ("restore", "stale", "Airflow has no DAG disaster_recovery", "spark-ha examples DIR"),
    ("restore", "unknown", "Airflow has no DAG ours", "AIRFLOW__SPARK_HA__RESTORE_DAG"),
    ("restore", "another", "DAG recover_jobs has no parameter accept_verdicts", "[spark_ha] restore_dag"),
    ("recover", "paused", "DAG recover_jobs is paused", "airflow dags unpause recover_jobs"),
    ("recover", "unknown", "Airflow has no DAG ours", "AIRFLOW__SPARK_HA__RECOVER_DAG"),
]


@pytest.mark.parametrize(("way", "trouble", "reason", "step"), REFUSALS)
def test_without_its_dag_a_page_names_reason_and_command_and_asks_for_nothing(  # noqa: PLR0917  # four are parameters
    page: Page,
    lost: JobContext,
    erin: Any,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    trouble: str,
    reason: str,
    step: str,
) -> None:
    form = token_of(page.get(f"/jobs/flights/{way}", headers=erin).text)
    shipped_dags.take_away(trouble, monkeypatch)

    shown = page.get(f"/jobs/flights/{way}", headers=erin).text
    answer = page.request("POST", f"/jobs/flights/{way}", headers=erin, data=form)

    assert reason in shown
    assert step in shown
    assert (f'/dags/{RECOVER if way == "recover" else RESTORE}" target="_top"' in shown) == (trouble == "paused")
    assert "The same in a shell" in shown
    assert 'name="token"' not in shown
    assert answer.status_code == 409
    assert reason in answer.text
    assert shipped_dags.runs_of(RESTORE) + shipped_dags.runs_of(RECOVER) == []
    assert lost.job_id == "flights"


@pytest.mark.parametrize(("way", "dag_id"), [("restore", RESTORE), ("recover", RECOVER)])
def test_who_may_not_trigger_the_dag_is_told_so_although_the_job_is_theirs(
    page: Page, lost: JobContext, manager: Any, way: str, dag_id: str
) -> None:
    nora = airflow_auth.headers_of(manager, "nora", "user")

    shown = page.get(f"/jobs/flights/{way}", headers=nora).text

    assert f"You may not trigger the DAG {dag_id}" in shown
    assert 'name="token"' not in shown
    assert "/actions/cancel" in page.get("/jobs/flights", headers=nora).text
    assert lost.job_id == "flights"


def test_the_outcome_follows_the_dag_run_then_the_restored_run(
    page: Page, cluster: Cluster, lost: JobContext, erin: Any
) -> None:
    at = confirm(page, erin, "restore")
    queued = page.get(at, headers=erin)

    restored = carry_out(cluster, at)
    submitted = page.get(at, headers=erin)

    assert "The DAG run is queued. The job has not been started yet." in queued.text
    assert f"/dags/{RESTORE}/runs/{run_id(at)}" in queued.text
    assert queued.headers["refresh"] == "2"
    assert (restored.run, lost.runs.numbers()) == (2, [1, 2])
    assert "Run 2 is submitted, and waits for its leader." in submitted.text
    assert submitted.headers["refresh"] == "2"


def test_a_recovery_that_waits_for_a_slot_names_the_pool(page: Page, lost: JobContext, erin: Any) -> None:
    at = confirm(page, erin, "recover")
    queued = page.get(at, headers=erin).text
    shipped_dags.set_waiting(RECOVER, run_id(at))

    waiting = page.get(at, headers=erin).text
    assert re.search(r"The scheduler has not started this run of recover_jobs yet, since .*\d", queued)
    assert re.search(r"waits for a free slot of pool default_pool \(\d+ of 128 slots are free\)", waiting)
    assert lost.job_id == "flights"


def test_a_dag_run_that_fails_is_a_final_outcome_with_its_task(page: Page, lost: JobContext, erin: Any) -> None:
    at = confirm(page, erin, "restore")

    shipped_dags.set_run_state(RESTORE, run_id(at), "failed", failed_task="restore")
    shown = page.get(at, headers=erin)

    assert "The DAG run has failed: task restore did." in shown.text
    assert f"/dags/{RESTORE}/runs/{run_id(at)}/tasks/restore" in shown.text
    assert "refresh" not in shown.headers
    assert lost.job_id == "flights"


def test_a_dag_run_that_fails_after_its_restore_is_shown_with_the_run_of_the_job(
    page: Page, cluster: Cluster, lost: JobContext, erin: Any
) -> None:
    at = confirm(page, erin, "restore")
    carry_out(cluster, at)
    lost.coordinator.commit(lost.runs.result_op(2, a_result(JobState.CANCELED)))

    shipped_dags.set_run_state(RESTORE, run_id(at), "failed", failed_task="restore")
    shown = page.get(at, headers=erin)

    assert "Run 2 has ended: CANCELED." in shown.text
    assert "The DAG run has failed since: task restore; the restore itself worked." in shown.text
    assert re.search(r"Run of the job</th><td>2, attempt 1<", shown.text)
    assert "Next step" not in shown.text
    assert "refresh" not in shown.headers


def test_an_outcome_that_is_older_than_the_runs_that_are_read_is_not_that_of_the_newest_run(
    page: Page, lost: JobContext, erin: Any
) -> None:
    at = confirm(page, erin, "restore")
    later = lost.clock.now() + timedelta(days=1)
    for number in range(2, RUNS + 3):
        run = a_run(number).model_copy(update={"created_at": later})
        lost.coordinator.commit(lost.runs.create_op(run), *lost.runs.submission_ops(number, a_submission()))

    shipped_dags.set_run_state(RESTORE, run_id(at), "success")
    shown = page.get(at, headers=erin)

    assert "It is no longer known whether it started a run of the job: run 3, the oldest" in shown.text
    assert "Run of the job" not in shown.text
    assert "refresh" not in shown.headers


def test_a_dag_run_is_shown_with_its_own_job_only_and_to_who_may_read_it(
    page: Page, cluster: Cluster, lost: JobContext, manager: Any, erin: Any
) -> None:
    cluster.lost("other")
    owned = lost.runs.get(1).run.model_copy(update={"owner": "flights_dag"})
    cluster.coordinator.commit(SetData(lost.paths.run(1), owned.to_bytes()))
    at = confirm(page, erin, "restore")
    [run] = shipped_dags.runs_of(RESTORE)
    assert run.conf["force"] is True, "the DAG is not the owner, whose permission the user has"

    assert page.get(at.replace("flights", "other"), headers=erin).status_code == 404
    assert page.get(at.replace("page-restore-", "page-restore-0"), headers=erin).status_code == 404
    assert page.get(at, headers=airflow_auth.headers_of(manager, "vera", "viewer")).status_code == 200
    refused = page.get(at, headers=airflow_auth.headers_of(manager, "bert", "admin"))
    assert refused.status_code == 403
    assert f"permission to read the runs of DAG {RESTORE}" in refused.text


def test_a_recovery_is_asked_of_the_dag_for_this_job_alone(
    page: Page, cluster: Cluster, lost: JobContext, erin: Any
) -> None:
    at = confirm(page, erin, "recover")

    [run] = shipped_dags.runs_of(RECOVER)
    assert run.conf == {"job_id": "flights", "seen_run": 1, "spark_ha_conn_id": "spark_ha_default"}
    assert run.run_id == run_id(at)
    cluster.client.job("flights").recover(by=task_request(RECOVER, run_id(at), RECOVER))
    assert "Run 1 is submitted, and waits for its leader." in page.get(at, headers=erin).text
    assert lost.runs.numbers() == [1]


@pytest.mark.parametrize("met", ["before either looks for the DAG run", "before either makes it"])
@pytest.mark.parametrize(("way", "dag_id"), [("restore", RESTORE), ("recover", RECOVER)])
def test_two_posts_of_one_form_at_once_make_one_dag_run(  # noqa: PLR0917  # two are parameters
    page: Page,
    config: HaConfig,
    lost: JobContext,
    erin: Any,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    dag_id: str,
    met: str,
) -> None:
    form = token_of(page.get(f"/jobs/flights/{way}", headers=erin).text)
    shipped_dags.meet(monkeypatch, met)

    with served_page_of(config) as url, ThreadPoolExecutor(2) as threads:
        sent = [threads.submit(httpx.post, f"{url}/jobs/flights/{way}", headers=erin, data=form) for _ in range(2)]
        answers = [each.result(timeout=60) for each in sent]

    [run] = shipped_dags.runs_of(dag_id)
    assert [answer.status_code for answer in answers] == [303, 303], [answer.text for answer in answers]
    assert {run_id(answer.headers["location"]) for answer in answers} == {run.run_id}
    shown = page.get(f"/jobs/flights/{answers[1].headers['location']}", headers=erin)
    assert "The DAG run is queued." in shown.text
    assert lost.runs.numbers() == [1]


def test_a_second_press_after_the_recovery_finds_the_first(
    page: Page, cluster: Cluster, lost: JobContext, erin: Any
) -> None:
    form = token_of(page.get("/jobs/flights/recover", headers=erin).text)
    other = token_of(page.get("/jobs/flights/recover", headers=erin).text)
    first = page.request("POST", "/jobs/flights/recover", headers=erin, data=form)
    cluster.client.job("flights").recover(by="another person")

    again = page.request("POST", "/jobs/flights/recover", headers=erin, data=form)
    late = page.request("POST", "/jobs/flights/recover", headers=erin, data=other)

    assert again.headers["location"] == first.headers["location"]
    assert late.status_code == 409
    assert "only a lost driver is recovered" in late.text
    assert len(shipped_dags.runs_of(RECOVER)) == 1
    assert lost.job_id == "flights"


@pytest.mark.parametrize(("way", "dag_id"), [("restore", RESTORE), ("recover", RECOVER)])
def test_a_form_of_a_run_that_is_over_brings_no_other_back(
    page: Page, lost: JobContext, erin: Any, way: str, dag_id: str
) -> None:
    form = token_of(page.get(f"/jobs/flights/{way}", headers=erin).text)
    begin_and_lose_run_2(lost)

    answer = page.request("POST", f"/jobs/flights/{way}", headers=erin, data=form)

    assert answer.status_code == 409
    assert "This form is for run 1 of job &#39;flights&#39;, and the newest is run 2" in answer.text
    assert shipped_dags.runs_of(dag_id) == []


@pytest.mark.usefixtures("airflow_connection")
@pytest.mark.parametrize(("way", "dag_id", "task_id"), [("restore", RESTORE, "restore"), ("recover", RECOVER, RECOVER)])
def test_what_was_asked_for_a_run_that_ended_before_the_dag_run_began_touches_no_later_run(  # noqa: PLR0917  # three are parameters
    page: Page, lost: JobContext, erin: Any, way: str, dag_id: str, task_id: str
) -> None:
    confirm(page, erin, way)
    [queued] = shipped_dags.runs_of(dag_id)
    chosen = {"chosen": {"source": "checkpoint-1"}}
    begin_and_lose_run_2(lost)
    task = shipped_dags.task_of(dag_id, task_id, queued.conf, select_checkpoint=chosen)

    with pytest.raises(AirflowFailException, match="is for run 1 of job 'flights', and the newest is run 2"):
        task.execute(context(run_id=queued.run_id))

    assert lost.runs.numbers() == [1, 2]
    assert lost.runs.result(2) is None
    assert [each.submission.attempt for each in lost.runs.get(2).submissions] == [1]


def begin_and_lose_run_2(job: JobContext) -> None:
    """Have run 1 over, and a run 2 that has lost its driver."""
    again = a_run(2).model_copy(update={"graph": job.runs.get(1).run.graph})
    made = (job.runs.create_op(again), *job.runs.submission_ops(2, a_submission()))
    job.coordinator.commit(job.runs.result_op(1, a_result()), *made)
    job.coordinator.commit(Create(job.paths.submission_exit(2, 1), an_exit().to_bytes()))


def test_a_restore_that_failed_is_made_again_by_its_own_request_although_its_run_is_the_newest(
    page: Page, cluster: Cluster, lost: JobContext, erin: Any
) -> None:
    at = confirm(page, erin, "restore")
    first = carry_out(cluster, at, seen=1)
    lost.coordinator.commit(lost.runs.result_op(first.run, a_result(JobState.FAILED)))

    assert carry_out(cluster, at, seen=1).run == 3


def test_a_job_in_quarantine_is_not_recovered_from_the_page(
    page: Page, cluster: Cluster, lost: JobContext, erin: Any
) -> None:
    cluster.coordinator.ensure(cluster.client.paths.quarantine)
    record = Quarantine(job_id="flights", reason="the graph is gone", by="leader", cluster_epoch=1, at=NOON)
    cluster.coordinator.commit(quarantine_op(cluster.client.paths, record))

    shown = page.get("/jobs/flights/recover", headers=erin).text

    assert "The job is in quarantine: release it first." in shown
    assert 'name="token"' not in shown
    assert lost.job_id == "flights"


def test_the_page_of_a_lost_job_has_both_buttons_and_a_viewers_none(
    page: Page, lost: JobContext, manager: Any, erin: Any
) -> None:
    editor = page.get("/jobs/flights", headers=erin).text
    viewer = page.get("/jobs/flights", headers=airflow_auth.headers_of(manager, "vera", "viewer")).text

    for way in ("restore", "recover"):
        assert f"jobs/flights/{way}" in editor
        assert f"jobs/flights/{way}" not in viewer
    assert lost.job_id == "flights"
