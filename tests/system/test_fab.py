"""The pages with Airflow's other auth manager, FAB: its login, its roles, its permissions for single DAGs.

In a separate environment, with the wheel: the FAB provider brings Flask along, which nothing else here needs. The
jobs are records without a driver: who may see them and act on them does not depend on one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.jobs.observe import create_job
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.runs.run_store import RunStore
from tests.support.clusters.jobs_helpers import a_run, a_submission
from tests.support.wheel import wheel
from tests.system.harness.servers import REPOSITORY, USER, Servers


pytestmark = [pytest.mark.system, pytest.mark.hours, pytest.mark.timeout(1200)]

UV = Path(sys.executable).with_name("uv")  # .ci/bootstrap puts it there
OWNED, WITHOUT_OWNER, OWNER = "orders", "flights", "stop_job"
STOP = "/spark-ha/jobs/{}/actions/stop"


class FabAirflow(Servers):
    """ZooKeeper and an API server of Airflow with FAB's users; ``airflow standalone`` takes no other auth manager."""

    components = ("metadatabase",)

    def environment(self) -> dict[str, str]:
        """Return the environment of each process of Airflow."""
        manager = "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"
        found = find_spec("pyspark")  # ZooKeeper's jars are among those of Spark
        assert found is not None
        assert found.origin is not None
        spark = {"SPARK_HOME": str(Path(found.origin).parent)}
        return super().environment() | spark | {"AIRFLOW__CORE__AUTH_MANAGER": manager}

    def password(self, user: str = USER) -> str:
        """The password that a user was made with."""
        return f"password of {user}"

    def start(self) -> None:
        """Make the database with the DAGs that we ship and an administrator; start both."""
        self.airflow("db", "migrate")
        self.airflow("dags", "reserialize")
        names = ("--firstname", "A", "--lastname", "B", "--email", f"{USER}@example.com")
        self.airflow("users", "create", "--username", USER, "--role", "Admin", "--password", self.password(), *names)
        self.start_zookeeper()
        self._run("airflow", ["-m", "airflow", "api-server"])

    def airflow(self, *words: str) -> None:
        """Run a command of Airflow to its end."""
        program, variables = [str(self.python), "-m", "airflow", *words], os.environ | self.environment()
        done = subprocess.run(program, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]

    def add_role(self, name: str, *permissions: tuple[str, str]) -> None:
        """Have a role made by FAB's API: action and resource of each permission."""
        wanted = [{"action": {"name": action}, "resource": {"name": resource}} for action, resource in permissions]
        self.api.request("POST", "/auth/fab/v1/roles", json={"name": name, "actions": wanted})

    def add_user(self, name: str, role: str) -> None:
        """Have a user made by FAB's API."""
        user = {"username": name, "first_name": name, "last_name": name, "email": f"{name}@example.com"}
        more = {"password": self.password(name), "roles": [{"name": role}]}
        self.api.request("POST", "/auth/fab/v1/users", json=user | more)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Interpreter of an environment that has the wheel and the FAB provider."""
    python = tmp_path_factory.mktemp("fab") / "venv" / "bin" / "python"
    subprocess.run([str(UV), "venv", "--quiet", "--python", sys.executable, str(python.parents[1])], check=True)
    airflow = f"apache-airflow=={version('apache-airflow')}"
    wanted = (f"{wheel()}[airflow]", airflow, "apache-airflow-providers-fab")
    options = ("--quiet", "--python", str(python), "--constraint", str(REPOSITORY / "constraints.txt"))
    subprocess.run([str(UV), "pip", "install", *options, *wanted], check=True)
    return python


@pytest.fixture(scope="module")
def airflow(environment: Path) -> Iterator[FabAirflow]:
    """An Airflow with a viewer, an editor, and one who may do everything with the runs of one DAG."""
    servers = FabAirflow(REPOSITORY / "build" / "test-airflow-fab", python=environment)
    servers.prepare()
    try:
        servers.start()
        servers.wait_until_healthy()
        of_one_dag = [(action, f"{what}:{OWNER}") for action in ("can_read", "can_edit") for what in ("DAG", "DAG Run")]
        servers.add_role("Team", *of_one_dag)
        for name, role in (("vera", "Viewer"), ("edith", "User"), ("tina", "Team")):
            servers.add_user(name, role)
        yield servers
    finally:
        servers.stop()


@pytest.fixture(scope="module")
def client(airflow: FabAirflow) -> Iterator[HaClient]:
    """A client of the cluster, which has a job of a DAG and one without an owner."""
    with HaClient.open(airflow.config) as opened:
        for job_id, owner in ((OWNED, OWNER), (WITHOUT_OWNER, None)):
            paths = opened.paths.job(job_id)
            create_job(opened.coordinator, paths)
            runs = RunStore(opened.coordinator, paths)
            run = a_run(1).model_copy(update={"owner": owner})
            opened.coordinator.commit(runs.create_op(run), *runs.submission_ops(1, a_submission(1)))
        yield opened


@pytest.fixture
def browser(airflow: FabAirflow) -> Iterator[httpx.Client]:
    """What keeps cookies and follows redirects; no user has logged in."""
    with httpx.Client(base_url=airflow.url, timeout=120, trust_env=False, follow_redirects=True) as opened:
        yield opened


def log_in(browser: httpx.Client, airflow: FabAirflow, user: str, path: str) -> httpx.Response:
    """Load a page without a user, follow its link to the login and fill in FAB's form; return where that leads."""
    refused = browser.get(path)
    assert refused.status_code == 401
    login = browser.get(_found(r'href="([^"]*/auth/login[^"]*)"', refused))
    token = _found(r'"csrf_token"[^>]*value="([^"]+)"', login)
    form = {"username": user, "password": airflow.password(user), "csrf_token": token}
    return browser.post(str(login.url), data=form)


def _found(pattern: str, answer: httpx.Response) -> str:
    found = re.search(pattern, answer.text)
    assert found is not None, answer.text
    return found[1].replace("&amp;", "&")


def requested_by(client: HaClient, job_id: str) -> list[str]:
    return [each.requested_by for each in operations.list_operations(client.coordinator, client.paths.job(job_id))]


def test_a_viewer_of_fab_logs_in_and_only_looks(airflow: FabAirflow, client: HaClient, browser: httpx.Client) -> None:
    shown = log_in(browser, airflow, "vera", f"/spark-ha/jobs/{WITHOUT_OWNER}")

    statuses = [call(STOP.format(WITHOUT_OWNER)).status_code for call in (browser.get, browser.post)]

    assert (shown.status_code, shown.url.path) == (200, f"/spark-ha/jobs/{WITHOUT_OWNER}")
    assert "You have read access." in shown.text
    assert statuses == [403, 403]
    assert requested_by(client, WITHOUT_OWNER) == []


def test_an_editor_of_fab_acts_and_the_operation_has_the_name(
    airflow: FabAirflow, client: HaClient, browser: httpx.Client
) -> None:
    form = log_in(browser, airflow, "edith", STOP.format(WITHOUT_OWNER))

    done = browser.post(STOP.format(WITHOUT_OWNER), data={"token": _found(r'name="token" value="([^"]+)"', form)})

    assert done.status_code == 200, done.text
    assert requested_by(client, WITHOUT_OWNER) == ["Airflow user edith"]


def test_a_user_of_fab_who_has_one_dag_sees_and_stops_its_jobs_alone(
    airflow: FabAirflow, client: HaClient, browser: httpx.Client
) -> None:
    listed = log_in(browser, airflow, "tina", "/spark-ha/")
    foreign = browser.get(f"/spark-ha/jobs/{WITHOUT_OWNER}")
    form = browser.get(STOP.format(OWNED))

    done = browser.post(STOP.format(OWNED), data={"token": _found(r'name="token" value="([^"]+)"', form)})

    assert (OWNED in listed.text, WITHOUT_OWNER in listed.text, foreign.status_code) == (True, False, 403)
    assert done.status_code == 200, done.text
    assert requested_by(client, OWNED) == ["Airflow user tina"]
