"""Who may see and do what on the pages: Airflow's own auth manager with real tokens, a real ZooKeeper, each route."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import get_user
from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import APIRoute
from itsdangerous import URLSafeTimedSerializer

from airflow_provider_ha.airflow_side.page.app import create_app
from airflow_provider_ha.airflow_side.page.clusters import Clusters
from airflow_provider_ha.airflow_side.page.security import (
    PermissionsDep,
    VisibleJobDep,
    acting_job,
    check_protection,
)
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, SetData
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.fleet.observations import Quarantine, quarantine_op, quarantine_reason
from airflow_provider_ha.jobs.drivers.driver_home import DriverHome
from airflow_provider_ha.jobs.drivers.driver_spec import write_secrets
from airflow_provider_ha.jobs.model import OperationState, Status
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.runs.run_store import RunStore
from airflow_provider_ha.jobs.runs.submissions import DriverHandle, SubmissionStarted
from airflow_provider_ha.storage.keys import JobKeys
from tests.support import airflow_auth
from tests.support.clusters.jobs_helpers import NOON, a_result, lead
from tests.support.clusters.paged_job import job_maker
from tests.support.mounted_page import Page, token_of


pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("database")]
WAYS = ("/restore", "/recover")
ROUTES = [
    (method, route.path)
    for route in create_app(Clusters(names=list)).routes
    if isinstance(route, APIRoute)
    for method in sorted(route.methods)
]
ACTING = [
    (method, path)
    for method, path in ROUTES
    if method not in {"GET", "HEAD"} or "/actions/" in path or path.endswith(WAYS)
]
ACTIONS = ["savepoint", "stop", "drain", "cancel", "release"]
HOST = "http://airflow.test"  # of the requests


@pytest.fixture
def no_dags() -> Iterator[None]:
    """An Airflow that knows no DAG, as a new one."""
    with airflow_auth.no_dags():
        yield


@pytest.fixture
def job(coordinator: Coordinator, cluster_paths: ClusterPaths, config: HaConfig) -> Callable[..., JobPaths]:
    """Makes a job with a live run, and a leader if wanted."""
    return job_maker(coordinator, cluster_paths, config)


def address(path: str, action: str = "stop") -> str:
    """Return an address of a route."""
    names = {"job_id": "flights", "action": action, "operation_id": "o", "way": "restore", "name": "page.css"}
    names |= {"dag_id": "alpha", "run_id": "r1", "task_id": "submit", "map_index": "{MAP_INDEX}"}
    return re.sub(r"{(\w+)}", lambda found: names[found[1]], path)


def confirmed(page: Page, user: dict[str, str], action: str, **fields: str) -> tuple[str, dict[str, str]]:
    """Load the page of an action; return its address and what its form sends."""
    at = f"/jobs/flights/actions/{action}"
    shown = page.get(at, headers=user)
    assert shown.status_code == 200, shown.text
    return at, token_of(shown.text) | fields


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_no_route_answers_without_a_user(page: Page, manager: Any, job: Any, method: str, path: str) -> None:
    job()

    assert page.request(method, address(path)).status_code == 401
    assert "/api/v2/auth/login?next=%2Fspark-ha%2F" in page.request("GET", address(path)).text or method != "GET"
    forged = {"Cookie": "_token=x.y.z"}
    assert page.request(method, address(path), headers=forged).status_code == 403


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_viewers_look_and_users_act(page: Page, manager: Any, job: Any, method: str, path: str) -> None:
    job()

    for role in ("viewer", "user", "op", "admin"):
        user = airflow_auth.headers_of(manager, "someone", role)
        status = page.request(method, address(path), headers=user).status_code

        if (method, path) in ACTING and role == "viewer":
            assert status == 403
        elif method not in {"GET", "HEAD"}:
            assert status in {403, 413}, f"no {role} acts without the form"
        else:
            assert status in {200, 307, 404}, f"{role}: 404: there is no operation o, and no run r1"


def test_a_viewer_cannot_act_with_the_form_of_an_editor(page: Page, manager: Any, job: Any) -> None:
    paths = job()
    at, form = confirmed(page, airflow_auth.headers_of(manager, "someone", "user"), "cancel")

    answer = page.request("POST", at, headers=airflow_auth.headers_of(manager, "someone", "viewer"), data=form)

    assert answer.status_code == 403
    assert "permission to edit" in answer.text
    assert paths.job_id == "flights"


@pytest.mark.parametrize("action", ["savepoint", "stop", "drain", "cancel"])
def test_an_editor_has_an_operation_made_once(
    page: Page, manager: Any, job: Any, coordinator: Coordinator, action: str
) -> None:
    paths, user = job(), airflow_auth.headers_of(manager, "erin", "user")
    at, form = confirmed(page, user, action)

    first = page.request("POST", at, headers=user, data=form)
    again = page.request("POST", at, headers=user, data=form)

    assert (first.status_code, again.status_code) == (303, 303)
    assert first.headers["location"] == again.headers["location"]
    made = operations.list_operations(coordinator, paths)
    assert [each.requested_by for each in made] == ["Airflow user erin"]
    shown = page.get(f"{at.rpartition('/')[0]}/{first.headers['location']}", headers=user)
    assert shown.status_code == 200
    assert made[0].operation_id in shown.text
    assert "REQUESTED" in shown.text
    assert shown.headers["refresh"] == "2"


def test_looking_at_an_action_asks_for_nothing(page: Page, manager: Any, job: Any, coordinator: Coordinator) -> None:
    paths, user = job(), airflow_auth.headers_of(manager, "erin", "user")

    for action in [*ACTIONS, "cancel?savepoint=yes"]:
        assert page.get(f"/jobs/flights/actions/{action}", headers=user).status_code == 200

    assert operations.list_operations(coordinator, paths) == []


def test_the_outcome_is_shown_until_it_is_final(
    page: Page, manager: Any, job: Any, coordinator: Coordinator, config: HaConfig
) -> None:
    paths, user = job(led=False), airflow_auth.headers_of(manager, "erin", "user")
    at, form = confirmed(page, user, "savepoint", label="before the upgrade")
    done = page.request("POST", at, headers=user, data=form).headers["location"]
    leadership = lead(coordinator, paths, config)
    asked = operations.list_operations(coordinator, paths)[0]
    assert asked.arguments["label"] == "before the upgrade"

    taken = operations.claim(leadership, paths, asked)
    operations.fail(leadership, paths, taken, error="the disk is <full>", clock=SystemClock())
    shown = page.get(f"/jobs/flights/actions/{done}", headers=user)

    assert OperationState.FAILED.value in shown.text
    assert "the disk is &lt;full&gt;" in shown.text
    assert "refresh" not in shown.headers


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": HOST},
    ],
)
def test_a_form_from_another_origin_is_refused(
    page: Page, manager: Any, job: Any, coordinator: Coordinator, headers: dict[str, str]
) -> None:
    paths, user = job(), airflow_auth.headers_of(manager, "erin", "user")
    at, form = confirmed(page, user, "cancel")

    answer = page.request("POST", at, headers=user | headers, data=form)

    assert answer.status_code == 403
    assert operations.list_operations(coordinator, paths) == []


@pytest.mark.parametrize("origin", [HOST, "https://air.example"])
def test_a_form_of_airflows_own_origin_is_taken(
    page: Page, manager: Any, job: Any, monkeypatch: pytest.MonkeyPatch, origin: str
) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://air.example/flow")
    job()
    user = airflow_auth.headers_of(manager, "erin", "user")
    at, form = confirmed(page, user, "cancel")

    answer = page.request("POST", at, headers=user | {"Origin": origin, "Sec-Fetch-Site": "same-origin"}, data=form)

    assert answer.status_code == 303


@pytest.mark.parametrize(
    "broken", ["missing", "forged", "of_another_key", "of_another_action", "of_another_user", "old"]
)
def test_a_form_without_its_own_token_is_refused(  # noqa: PLR0917  # one of them is the parameter of the test
    page: Page, manager: Any, job: Any, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    paths, user = job(), airflow_auth.headers_of(manager, "erin", "user")
    at, form = confirmed(page, user, "cancel")
    if broken == "missing":
        form = {"label": "x"}
    elif broken == "forged":
        form["token"] = form["token"][:-2] + "xx"
    elif broken == "of_another_key":
        intent = {"cluster": "spark_ha_default", "job_id": "flights", "action": "cancel", "operation_id": "o"}
        form["token"] = URLSafeTimedSerializer("guess", salt="spark-ha-action").dumps({"user": "erin", **intent})
    elif broken == "of_another_action":
        at = "/jobs/flights/actions/stop"
    elif broken == "of_another_user":
        user = airflow_auth.headers_of(manager, "mallory", "admin")
    else:
        monkeypatch.setattr("airflow_provider_ha.airflow_side.page.security.LIFETIME", -1)

    answer = page.request("POST", at, headers=user, data=form)

    assert answer.status_code == 403
    assert "Nothing was done" in answer.text
    assert operations.list_operations(coordinator, paths) == []


def test_a_form_that_is_too_large_is_not_read(page: Page, manager: Any, job: Any) -> None:
    job()
    user = airflow_auth.headers_of(manager, "erin", "user")
    at, form = confirmed(page, user, "savepoint")

    assert page.request("POST", at, headers=user, data=form | {"label": "x" * 20_000}).status_code == 413


def test_a_job_of_a_dag_is_seen_and_acted_on_by_its_users_only(page: Page, per_dag: Any, job: Any) -> None:
    job(owner="alpha")
    alpha, beta = (airflow_auth.headers_of(per_dag, name, "user") for name in ("alpha", "beta"))

    assert "flights" in page.get("/", headers=alpha).text
    assert "flights" not in page.get("/", headers=beta).text
    at, form = confirmed(page, alpha, "stop")
    assert page.get(at, headers=beta).status_code == 403
    assert page.request("POST", at, headers=beta, data=form).status_code == 403
    assert page.request("POST", at, headers=alpha, data=form).status_code == 303


@pytest.mark.parametrize("name", ["alpha", "all but beta"])
def test_a_job_without_an_owner_takes_the_permission_for_every_dag(
    page: Page, per_dag: Any, job: Any, name: str
) -> None:
    job()
    some, everything = (airflow_auth.headers_of(per_dag, each, "user") for each in (name, "erin"))

    assert "flights" not in page.get("/", headers=some).text
    assert page.get("/jobs/flights/actions/stop", headers=some).status_code == 403
    assert page.get("/jobs/flights/actions/stop", headers=everything).status_code == 200


@pytest.mark.parametrize("role", ["viewer", "user"])
def test_without_any_dag_in_airflow_a_permission_for_one_dag_is_not_one_for_all(
    page: Page, per_dag: Any, job: Any, no_dags: None, role: str
) -> None:
    job()
    alpha = airflow_auth.headers_of(per_dag, "alpha", role)

    listed = page.get("/", headers=alpha)

    assert listed.status_code == 200
    assert "flights" not in listed.text
    for path in ("/jobs/flights", "/jobs/flights/log", "/jobs/flights/actions/stop", "/jobs/nowhere"):
        assert page.get(path, headers=alpha).status_code == 403, path


def test_without_any_dag_in_airflow_an_administrator_sees_and_acts_on_every_job(
    page: Page, per_dag: Any, job: Any, no_dags: None
) -> None:
    job()
    admin, viewer = (airflow_auth.headers_of(per_dag, "ada", role) for role in ("admin", "viewer"))

    assert page.get("/").status_code == 401
    for user in (admin, viewer):
        assert "flights" in page.get("/", headers=user).text
    assert page.get("/jobs/flights/actions/stop", headers=admin).status_code == 200
    assert page.get("/jobs/flights/actions/stop", headers=viewer).status_code == 403


def test_without_any_dag_in_airflow_the_users_of_an_owner_keep_its_jobs(
    page: Page, per_dag: Any, job: Any, no_dags: None
) -> None:
    job(owner="alpha")
    alpha, beta = (airflow_auth.headers_of(per_dag, name, "user") for name in ("alpha", "beta"))

    assert page.get("/jobs/flights/actions/stop", headers=alpha).status_code == 200
    assert page.get("/jobs/flights", headers=beta).status_code == 403


def test_who_may_not_see_all_jobs_is_not_told_which_there_are(page: Page, per_dag: Any, job: Any) -> None:
    job(owner="alpha")
    beta, everything = (airflow_auth.headers_of(per_dag, name, "user") for name in ("beta", "erin"))

    for job_id in ("flights", "nowhere"):
        assert page.get(f"/jobs/{job_id}", headers=beta).status_code == 403
        assert page.get(f"/jobs/{job_id}/operations/o", headers=beta).status_code == 403
    assert page.get("/jobs/nowhere", headers=everything).status_code == 404


def test_a_button_that_does_not_fit_the_state_says_why(
    page: Page, manager: Any, job: Any, coordinator: Coordinator
) -> None:
    paths, user = job(led=False), airflow_auth.headers_of(manager, "erin", "user")
    at, form = confirmed(page, user, "stop")
    coordinator.commit(RunStore(coordinator, paths).result_op(1, a_result()))

    shown = page.get(at, headers=user)
    answer = page.request("POST", at, headers=user, data=form)

    assert "Run 1 is FINISHED" in shown.text
    assert "<form" not in shown.text
    assert answer.status_code == 409
    assert operations.list_operations(coordinator, paths) == []


def test_a_job_is_released_from_quarantine(
    page: Page, manager: Any, job: Any, coordinator: Coordinator, cluster_paths: ClusterPaths
) -> None:
    job(led=False)
    coordinator.ensure(cluster_paths.quarantine)
    record = Quarantine(job_id="flights", reason="the graph is gone", by="leader", cluster_epoch=1, at=NOON)
    coordinator.commit(quarantine_op(cluster_paths, record))
    user = airflow_auth.headers_of(manager, "erin", "user")
    at, form = confirmed(page, user, "release")
    assert "the graph is gone" in page.get(at, headers=user).text

    answer = page.request("POST", at, headers=user, data=form)

    assert answer.status_code == 303
    assert quarantine_reason(coordinator, cluster_paths, "flights") is None
    again = page.request("POST", at, headers=user, data=form)
    assert (again.status_code, again.headers["location"]) == (303, answer.headers["location"])


def test_a_log_needs_its_permission_and_shows_no_secret(  # noqa: PLR0917  # they are fixtures
    page: Page, manager: Any, job: Any, coordinator: Coordinator, config: HaConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = job(led=False, stored=True)
    home = config.home_path / JobKeys("flights").application(1, 1)
    home.mkdir(parents=True)
    (home / "driver.log").write_text("token of the script: abracadabra-4711\n<b>line</b>\n")
    write_secrets(DriverHome(home).script_secrets, {"abracadabra-4711"})
    started = SubmissionStarted(handle=DriverHandle(engine="local", log_uri=f"file://host{home}/driver.log"))
    coordinator.commit(Create(paths.submission_started(1, 1), started.to_bytes()))
    user = airflow_auth.headers_of(manager, "vera", "viewer")

    shown = page.get("/jobs/flights/log", headers=user)

    assert shown.status_code == 200
    assert "&lt;b&gt;line&lt;/b&gt;" in shown.text
    assert "token of the script: ***" in shown.text
    refuse_logs(monkeypatch, manager)
    assert page.get("/jobs/flights/log", headers=user).status_code == 403
    assert page.get("/jobs/flights", headers=user).status_code == 200


def refuse_logs(monkeypatch: pytest.MonkeyPatch, manager: Any) -> None:
    allowed = manager.is_authorized_dag
    monkeypatch.setattr(
        manager,
        "is_authorized_dag",
        lambda **asked: asked.get("access_entity") is not DagAccessEntity.TASK_LOGS and allowed(**asked),
    )


def test_a_log_of_another_host_is_named_with_what_to_do(page: Page, manager: Any, job: Any, coordinator: Any) -> None:
    paths = job(led=False)
    elsewhere = SubmissionStarted(handle=DriverHandle(engine="local", log_uri="file://far-away/x/driver.log"))
    coordinator.commit(Create(paths.submission_started(1, 1), elsewhere.to_bytes()))

    shown = page.get("/jobs/flights/log", headers=airflow_auth.headers_of(manager, "vera", "viewer"))

    assert shown.status_code == 200
    assert "far-away" in shown.text
    assert "spark-ha job logs flights --run 1 --attempt 1" in shown.text
    unknown = page.get("/jobs/flights/log?run=9", headers=airflow_auth.headers_of(manager, "vera", "viewer"))
    assert unknown.status_code == 409
    assert "no run 9" in unknown.text


def test_the_link_to_spark_leads_on_and_to_a_web_page_only(
    page: Page, manager: Any, job: Any, coordinator: Coordinator
) -> None:
    paths, user = job(), airflow_auth.headers_of(manager, "vera", "viewer")
    assert page.get("/jobs/flights/spark-ui", headers=user).status_code == 404
    node = coordinator.get(paths.status)
    status = Status.from_bytes(node.data, source="status")

    def says(ui: str) -> None:
        coordinator.commit(SetData(paths.status, status.model_copy(update={"spark_ui": ui}).to_bytes(), -1))

    says("http://driver:4040")
    assert page.get("/jobs/flights/spark-ui", headers=user).headers["location"] == "http://driver:4040"
    says("javascript:alert(1)")
    assert page.get("/jobs/flights/spark-ui", headers=user).status_code == 404


def test_the_page_of_a_job_has_the_buttons_of_its_user(page: Page, manager: Any, job: Any) -> None:
    job()

    editor = page.get("/jobs/flights", headers=airflow_auth.headers_of(manager, "erin", "user")).text
    viewer = page.get("/jobs/flights", headers=airflow_auth.headers_of(manager, "vera", "viewer")).text

    assert all(f"jobs/flights/actions/{action}" in editor for action in ("savepoint", "stop", "drain", "cancel"))
    assert "/actions/" not in viewer
    assert "permission to edit the runs of all DAGs" in viewer


def _with(route: Callable[[APIRouter], None]) -> FastAPI:
    app, router = create_app(Clusters(names=list)), APIRouter(dependencies=[Depends(get_user)])
    route(router)
    app.include_router(router)
    return app


def test_pages_with_an_unprotected_route_are_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    forgetful = APIRouter()
    forgetful.add_api_route("/jobs/{job_id}/more", lambda: None)
    monkeypatch.setattr("airflow_provider_ha.airflow_side.page.driver_logs.router", forgetful)

    with pytest.raises(RuntimeError, match=r"/jobs/{job_id}/more.* depends on no visible_job"):
        create_app(Clusters(names=list))


def test_a_route_that_has_not_said_who_may_use_it_is_found() -> None:
    def jobs(allowed: PermissionsDep) -> None: ...

    def one(job: VisibleJobDep, job_id: str) -> None: ...

    def nothing(job_id: str = "") -> None: ...

    def acts(job_id: str, job: Annotated[Any, Depends(acting_job)]) -> None: ...

    check_protection(_with(lambda router: router.add_api_route("/more", jobs)))
    check_protection(_with(lambda router: router.add_api_route("/jobs/{job_id}/more", one)))
    for path, endpoint, method in (
        ("/more", nothing, "GET"),
        ("/jobs/{job_id}/more", nothing, "GET"),
        ("/jobs/{job_id}/more", one, "POST"),
        ("/jobs/{job_id}/more", acts, "POST"),
    ):
        app = _with(lambda router: router.add_api_route(path, endpoint, methods=[method]))  # noqa: B023  # called at once
        with pytest.raises(RuntimeError, match="depends on no"):
            check_protection(app)
    mounted = create_app(Clusters(names=list))
    mounted.mount("/more", FastAPI())
    with pytest.raises(RuntimeError, match="no APIRoute"):
        check_protection(mounted)
