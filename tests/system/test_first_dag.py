"""The README's first DAG on a real Airflow, and what else that release of Airflow has of this package.

`make matrix` runs it on the oldest and the newest release of each minor. All tests look at one job, which the last of
them stops.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.airflow_side.compat import AIRFLOW_V_3_1_PLUS
from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.get_provider_info import get_provider_info
from tests.docs.blocks import blocks_of
from tests.system.harness.rest import DagRun
from tests.system.harness.servers import CONN_ID, REPOSITORY
from tests.system.small_airflow import PATIENCE, CountedJob, SmallAirflow


pytestmark = [pytest.mark.system, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

DAG_ID, TASK_ID, JOB_ID = "my_stream", "run", "my-stream"
SCRIPT = REPOSITORY / "tests" / "apps" / "system" / "counting.py"


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallAirflow]:
    """An Airflow with the DAG of the README; only the paths in it are those of this host."""
    folder = tmp_path_factory.mktemp("first")
    text = next(block.text for block in blocks_of(REPOSITORY / "README.md") if f'DAG("{DAG_ID}"' in block.text)
    paths = {"/opt/jobs/my_stream.py": SCRIPT, "/data/in": folder / "in", "/data/out": folder / "out"}
    for written, here in paths.items():
        assert f'"{written}"' in text
        text = text.replace(f'"{written}"', f'"{here}"')
    (folder / "dags").mkdir()
    (folder / "dags" / "my_stream.py").write_text(text, encoding="utf-8")
    servers = SmallAirflow(REPOSITORY / "build" / "test-airflow-first", dags=folder / "dags")
    with servers.running(DAG_ID):
        yield servers


@pytest.fixture(scope="module")
def run(airflow: SmallAirflow, client: HaClient) -> DagRun:
    """A run of the DAG; its job runs and has a checkpoint, its task is deferred."""
    made = airflow.api.trigger(DAG_ID, "first", {})
    CountedJob.of(airflow, client.coordinator, JOB_ID).wait_until_running()
    airflow.api.wait_for_task(made, TASK_ID, "deferred", timeout=PATIENCE)
    return made


def command(airflow: SmallAirflow, *words: str) -> Any:
    """Return the document that a command of Airflow prints."""
    done = subprocess.run(
        [sys.executable, "-m", "airflow", *words, "--output", "json"],
        env=os.environ | airflow.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stdout + done.stderr) == (0, False), done.stderr
    return json.loads(done.stdout[done.stdout.index("[\n" if "[\n" in done.stdout else "[{") :])


@pytest.mark.usefixtures("run")
def test_the_job_has_a_leader_and_a_checkpoint(client: HaClient) -> None:
    snapshot = client.job(JOB_ID).snapshot()

    assert snapshot.leader is not None
    assert (snapshot.epoch, snapshot.state.value) == (1, "RUNNING")
    assert snapshot.latest_checkpoint is not None


def test_the_links_of_the_task_lead_to_the_page_where_airflow_has_it(airflow: SmallAirflow, run: DagRun) -> None:
    links = airflow.api.request("GET", f"{run.path}/taskInstances/{TASK_ID}/links")["extra_links"]

    assert set(links) == {"Spark HA job", "Driver log", "Spark UI"}
    if AIRFLOW_V_3_1_PLUS:
        job = f"{airflow.url}/spark-ha/jobs/{JOB_ID}"
        assert links["Spark HA job"] == f"{job}?cluster={CONN_ID}"
        assert links["Driver log"].startswith(f"{job}/log?")
        assert links["Spark UI"].startswith(f"{job}/spark-ui?")
    else:
        assert not links["Spark HA job"]


@pytest.mark.usefixtures("run")
def test_the_page_shows_the_job_from_airflow_3_1_on(airflow: SmallAirflow) -> None:
    plugins = airflow.api.request("GET", "/api/v2/plugins")["plugins"]
    (plugin,) = (each for each in plugins if each["name"] == "spark_ha")
    shown = airflow.api.page("/spark-ha/")

    assert [app["url_prefix"] for app in plugin["fastapi_apps"]] == (["/spark-ha"] if AIRFLOW_V_3_1_PLUS else [])
    assert (JOB_ID in shown.text) is AIRFLOW_V_3_1_PLUS
    if AIRFLOW_V_3_1_PLUS:
        assert airflow.api.page(f"/spark-ha/jobs/{JOB_ID}").status_code == 200


def test_the_connection_form_has_every_field_and_its_test_reaches_the_cluster(airflow: SmallAirflow) -> None:
    forms = airflow.api.request("GET", "/ui/connections/hook_meta")
    (form,) = (each for each in forms if each["connection_type"] == "spark_ha")
    given = json.loads(airflow.environment()["AIRFLOW_CONN_SPARK_HA_DEFAULT"])

    body = {"connection_id": "tried", **given, "extra": json.dumps(given["extra"])}
    tested = airflow.api.request("POST", "/api/v2/connections/test", json=body)

    assert form["standard_fields"]["host"]["title"] == "ZooKeeper hosts (required)"
    assert list(form["extra_fields"]) == list(get_provider_info()["connection-types"][0]["conn-fields"])
    assert tested["status"], tested["message"]


def test_the_commands_of_airflow_name_the_provider_and_the_plugin(airflow: SmallAirflow) -> None:
    providers, plugins = command(airflow, "providers", "list"), command(airflow, "plugins")

    assert "airflow-provider-ha" in {each["package_name"] for each in providers}
    assert "spark_ha" in {each["name"] for each in plugins}


def test_the_task_ends_with_the_job(airflow: SmallAirflow, client: HaClient, run: DagRun) -> None:
    client.job(JOB_ID).request_stop(operation_id="stop", requested_by="test")

    airflow.api.wait_for_run(run, timeout=PATIENCE)

    assert airflow.api.xcom(run, TASK_ID)["state"] == "FINISHED"
    assert list(_output(airflow, run)), "the script has written its output"


def _output(airflow: SmallAirflow, run: DagRun) -> Iterator[Path]:
    rendered = airflow.api.request("GET", f"{run.path}/taskInstances/{TASK_ID}")["rendered_fields"]
    yield from Path(rendered["arguments"][-1]).glob("*.json")
