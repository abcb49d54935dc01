"""What a failed run leaves: no secret in its reasons, no file with the connection, no directory open to others."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.cli.app import app
from airflow_provider_ha.cli.session import ClusterTarget
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig, S3Options
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import JobSpec
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters import submit_helpers
from tests.support.s3.s3_server import real_server
from tests.support.spark.driver_helpers import APPS, CONF, PATIENCE


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]
SECRETS = {
    "url": "hunter2-of-the-url",
    "conf": "secret-of-the-conf",
    "script": "secret-of-the-script",
    "zookeeper": "secret-of-zookeeper",
}
SAID = (
    f"cannot connect to jdbc:postgresql://db:5432/prod?user=app&password={SECRETS['url']}: tried {SECRETS['conf']}, "
    f"{SECRETS['script']} and {SECRETS['zookeeper']}"
)
UNPRIVILEGED = 65534


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that every user of this host may enter; those of pytest are private."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture(params=["file", pytest.param("s3", marks=pytest.mark.hours)])
def connection(
    request: pytest.FixtureRequest, zookeeper: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[HaConfig]:
    """A cluster with passwords; its records lie beside the working directories, or on S3."""
    common: dict[str, Any] = {"zookeeper": zookeeper, "digest_auth": f"user:{SECRETS['zookeeper']}"}
    monkeypatch.setenv("SPARK_HA_DIGEST_AUTH", common["digest_auth"])
    cluster = f"c-{new_id()[:12]}"
    if request.param == "file":
        yield HaConfig.build(**common, storage_root=f"file://{place}/work", cluster_id=cluster)
        return
    with real_server() as s3:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3.access_key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3.secret_key)
        monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
        options = S3Options(endpoint_url=s3.endpoint, access_key=s3.access_key, secret_key=s3.secret_key)
        root = f"s3://{s3.new_bucket()}/ha"
        yield HaConfig.build(
            **common, storage_root=root, work_root=f"file://{place}/work", cluster_id=cluster, s3=options
        )


def everything(coordinator: Coordinator, path: str) -> str:
    """Return what all nodes from *path* on hold."""
    below = [everything(coordinator, f"{path}/{name}") for name in coordinator.children(path)]
    return "\n".join([coordinator.get(path).data.decode(errors="replace"), *below])


def failed_run(client: HaClient) -> None:
    """Run the script until it has failed, and give it up: a server that is away ends no run by itself."""
    job = client.job("leaks")
    conf = {key: value for key, value in CONF.items() if key not in ("spark.master", "spark.driver.memory")}
    job.submit(
        JobSpec(
            job_id="leaks",
            request_id=new_id(),
            application=str(APPS / "leaks.py"),
            arguments=[SAID],
            conf=conf | {"spark.app.database.password": SECRETS["conf"]},
            master="local[2]",
            driver_memory="1g",
            ha=HaOptions(checkpoint_interval=0, restart_in_place=False),  # one attempt is looked at
        )
    )

    def exited() -> bool:
        run = job.snapshot().run
        return bool(run and run.newest and run.newest.exit)

    wait_until(exited, timeout=PATIENCE, what="the exit of the driver", interval=0.2)
    job.fail("given up", by="test")
    assert job.snapshot().state is JobState.FAILED


def test_a_failed_run_leaves_no_secret_and_nothing_open(connection: HaConfig, place: Path) -> None:
    with HaClient.open(connection) as client:
        try:
            failed_run(client)
        finally:
            submit_helpers.kill_all(client.job("leaks")._job)
    options = ["--zookeeper", connection.zookeeper, "--storage-root", connection.storage_root]
    options += ["--cluster-id", connection.cluster_id]
    if connection.work_root:
        options += ["--work-root", connection.work_root]
    shown = CliRunner().invoke(app, [*options, "job", "show", "leaks"], obj=ClusterTarget())
    session = KazooCoordinator.connect(connection)
    nodes = everything(session, f"/{connection.root}/{connection.cluster_id}")
    session.close()
    (failure,) = place.rglob("failure.json")
    reason = json.loads(failure.read_text())["reason"]

    assert "cannot connect to jdbc:postgresql://db:5432/prod?user=app&password=***" in reason
    for where, text in {"znodes": nodes, "failure.json": reason, "job show": shown.output}.items():
        assert {name for name, secret in SECRETS.items() if secret in text} == set(), where
    assert "cannot connect to jdbc:postgresql" in nodes
    assert shown.exit_code == 0, shown.output
    assert list(place.rglob("driver.json")) == []
    assert list((connection.work_path / "jobs" / "leaks" / "live").iterdir())
    made_by_spark = connection.work_path / "jobs" / "leaks" / "live"
    open_to_others = [
        path
        for path in [connection.work_path, *connection.work_path.rglob("*")]
        if path.is_dir() and made_by_spark not in path.parents and stat.S_IMODE(path.stat().st_mode) & 0o077
    ]
    assert open_to_others == []
    if os.geteuid() == 0:  # only root can look as another user
        looked = subprocess.run(
            ["find", str(place)],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            user=UNPRIVILEGED,
            group=UNPRIVILEGED,
            extra_groups=[],
        )
        assert looked.stdout.split() == [str(place), f"{place}/work"]
