"""The tabs on a DAG run and a task instance: which job they lead to, what they say without one, and to whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.jobs.observe import create_job
from airflow_provider_ha.jobs.runs.run_store import RunStore
from tests.support import airflow_auth
from tests.support.clusters.jobs_helpers import a_run, a_submission
from tests.support.mounted_page import Page


pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("database")]
RUN_ID = "manual__2026-11-24T03:00:00+00:00"
RUN, LINK = "spark_ha_run", "_link_SparkHaJobLink"
CLUSTER = {"conn_id": "spark_ha_default"}


@pytest.fixture
def job(coordinator: Coordinator, cluster_paths: ClusterPaths) -> Callable[..., None]:
    """Makes a job with a run."""

    def make(job_id: str, *, owner: str | None = "alpha") -> None:
        paths = cluster_paths.job(job_id)
        create_job(coordinator, paths)
        runs = RunStore(coordinator, paths)
        run = a_run(1).model_copy(update={"owner": owner})
        coordinator.commit(runs.create_op(run), *runs.submission_ops(1, a_submission(1)))

    return make


@pytest.fixture
def look(page: Page, per_dag: Any) -> Callable[..., Any]:
    """Load a tab, as Airflow's UI does it."""

    def load(path: str = "", *, user: str = "alpha", role: str = "viewer", run_id: str = RUN_ID) -> Any:
        return page.get(f"/dag-runs/alpha/{run_id}{path}", headers=airflow_auth.headers_of(per_dag, user, role))

    return load


def test_a_run_with_one_job_leads_to_its_page_and_says_which_run_it_was(look: Any, page: Page, per_dag: Any) -> None:
    told = {RUN: {"job_id": "flights", "run": 3, **CLUSTER}}
    with airflow_auth.dag_run("alpha", RUN_ID, {"submit": told, "savepoint": told, "other": {"return_value": 1}}):
        answer = look()

    assert answer.status_code == 303
    assert answer.headers["location"] == "../../jobs/flights?cluster=spark_ha_default&run=3"


def test_the_page_of_the_job_says_when_the_task_has_an_older_run(look: Any, page: Page, per_dag: Any, job: Any) -> None:
    job("flights")
    user = airflow_auth.headers_of(per_dag, "alpha", "viewer")

    older = page.get("/jobs/flights", params={"run": 3}, headers=user).text
    same = page.get("/jobs/flights", params={"run": 1}, headers=user).text

    assert "The task that led here has run 3. This page shows the job as it is now, in run 1." in older
    assert "The task that led here" not in same


@pytest.mark.parametrize("encoded", [False, True], ids=["as Airflow 3.1", "as Airflow 3.2"])
@pytest.mark.parametrize(
    ("path", "job_id"), [("/tasks/submit/{MAP_INDEX}", "flights"), ("/tasks/many/0", "a"), ("/tasks/many/1", "b")]
)
def test_a_task_leads_to_its_own_job(look: Any, path: str, job_id: str, encoded: bool) -> None:
    xcoms = {"submit": {RUN: {"job_id": "flights", "run": 1, **CLUSTER}}}
    xcoms |= {f"many[{index}]": {RUN: {"job_id": name, "run": 1, **CLUSTER}} for index, name in enumerate("ab")}
    run_id = RUN_ID.replace(":", "%3A").replace("+", "%2B") if encoded else RUN_ID

    with airflow_auth.dag_run("alpha", RUN_ID, xcoms):
        location = look(path, run_id=run_id).headers["location"]

    assert location == f"../../../../../jobs/{job_id}?cluster=spark_ha_default&run=1"


def test_a_task_that_has_no_run_leads_by_its_link(look: Any) -> None:
    link = "https://air.example/flow/spark-ha/jobs/flights?cluster=prod"

    with airflow_auth.dag_run("alpha", RUN_ID, {"verify": {LINK: link}}):
        by_link = look("/tasks/verify/-1")

    assert by_link.headers["location"].endswith("/jobs/flights?cluster=prod")


def test_a_run_with_several_jobs_lists_those_that_its_user_may_see(look: Any, job: Any) -> None:
    job("flights")
    job("trains")
    job("secret", owner="beta")
    names = ("flights", "trains", "secret", "gone")
    xcoms = {f"run_{name}": {RUN: {"job_id": name, "run": 1, **CLUSTER}} for name in names}

    with airflow_auth.dag_run("alpha", RUN_ID, xcoms):
        some, every = look().text, look(user="erin", role="admin").text

    assert 'href="../../jobs/flights?cluster=spark_ha_default&amp;run=1"' in some
    assert "run_trains" in some
    assert "secret" not in some
    assert "gone" not in some
    assert "2 more jobs are not shown" in some
    assert all(f"run_{name}" in every for name in names)
    assert "It was removed from the cluster since" in every
    assert "UNREADABLE" not in every
    assert "None" not in every
    assert "jobs/gone" not in every


def test_jobs_of_a_cluster_that_cannot_be_asked_are_shown_to_who_may_see_all(
    page: Page, look: Any, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    job("flights")
    told = {"run": 1, "conn_id": "nowhere"}
    xcoms = {"a": {RUN: {"job_id": "flights", "run": 1, **CLUSTER}}, "b": {RUN: {"job_id": "trains", **told}}}
    app: Any = page._app.routes[-1]
    clusters = app.app.state.clusters
    known = clusters._config_of

    def config_of(name: str) -> HaConfig:
        from airflow_provider_ha.errors import ConfigurationError

        if name == "nowhere":
            raise ConfigurationError("Airflow has no connection 'nowhere'", next_step="Create a connection")
        found: HaConfig = known(name)
        return found

    monkeypatch.setattr(clusters, "_config_of", config_of)
    with airflow_auth.dag_run("alpha", RUN_ID, xcoms):
        some, every = look().text, look(user="erin", role="admin").text

    assert "flights" in some
    assert "trains" not in some
    assert "Airflow has no connection &#39;nowhere&#39;" in every


@pytest.mark.parametrize(
    ("state", "waits"), [("queued", True), ("running", True), ("success", False), ("failed", False)]
)
def test_without_a_job_the_tab_says_why_and_waits_while_one_may_come(look: Any, state: str, waits: bool) -> None:
    with airflow_auth.dag_run("alpha", RUN_ID, {"a": {}}, state=state):
        run, task = look(), look("/tasks/a/{MAP_INDEX}")

    assert (run.status_code, task.status_code) == (200, 200)
    assert "No task of this DAG run has reported a Spark job to Airflow" in run.text
    assert "This task has reported no Spark job to Airflow" in task.text
    assert ("refresh" in run.headers) is ("reloads" in run.text) is waits


@pytest.mark.parametrize(
    "value",
    ["text", ["job"], {"job_id": 7}, {"job_id": "../../actions"}, {"job_id": "<script>"}, {"run": 1}, None],
    ids=repr,
)
def test_what_no_task_of_ours_has_told_is_no_job(look: Any, value: Any) -> None:
    with airflow_auth.dag_run("alpha", RUN_ID, {"a": {RUN: value, LINK: "https://evil.example/jobs/x?cluster=c"}}):
        answer = look()

    assert answer.status_code == 200
    assert "No job yet" in answer.text


@pytest.mark.parametrize(
    "text",
    [
        '{"__classname__": "no.such.Class", "__version__": 1, "__data__": {}}',
        '{"__classname__": "airflow.models.dag.DagModel", "__version__": 1, "__data__": {}}',
        "[" * 100_000,
    ],
    ids=["unknown class", "class of Airflow", "deep"],
)
def test_a_text_that_names_a_class_is_a_text(look: Any, text: str) -> None:
    with airflow_auth.dag_run("alpha", RUN_ID, {"a": {RUN: text}}, raw=True):
        answer = look()

    assert answer.status_code == 200
    assert "No job yet" in answer.text


def test_a_run_that_is_stored_as_it_is_leads_to_its_job_too(look: Any) -> None:
    with airflow_auth.dag_run("alpha", RUN_ID, {"a": {RUN: {"job_id": "flights", "run": 3, **CLUSTER}}}, raw=True):
        answer = look()

    assert answer.headers["location"] == "../../jobs/flights?cluster=spark_ha_default&run=3"


def test_a_tab_is_for_who_may_see_the_runs_of_its_dag(look: Any, page: Page) -> None:
    with airflow_auth.dag_run("alpha", RUN_ID, {"a": {RUN: {"job_id": "flights", "run": 1, **CLUSTER}}}):
        stranger, task = look(user="beta"), look("/tasks/a/-1", user="beta")
        without = page.get(f"/dag-runs/alpha/{RUN_ID}")

    assert (stranger.status_code, task.status_code, without.status_code) == (403, 403, 401)
    assert "flights" not in stranger.text


def test_a_run_that_airflow_does_not_have_is_named(look: Any) -> None:
    answer = look(run_id="nothing")

    assert answer.status_code == 404
    assert "Airflow has no run nothing of DAG alpha" in answer.text


def test_the_tab_of_a_dag_lists_its_jobs(page: Page, per_dag: Any, job: Any) -> None:
    for name, owner in (("flights", "alpha"), ("secret", "beta"), ("free", None)):
        job(name, owner=owner)
    alpha, beta, erin = (airflow_auth.headers_of(per_dag, name, "viewer") for name in ("alpha", "beta", "erin"))

    def jobs(dag: str, user: dict[str, str]) -> list[str]:
        shown = page.get("/", params={"dag": dag}, headers=user).text
        return [name for name in ("flights", "secret", "free") if f'data-key="job-{name}"' in shown]

    assert jobs("alpha", alpha) == jobs("alpha", erin) == ["flights"]
    assert jobs("alpha", beta) == []
    assert jobs("beta", erin) == ["secret"]
    assert (
        "No job of this cluster has DAG gamma as its owner" in page.get("/", params={"dag": "gamma"}, headers=erin).text
    )
