"""Plain queries that become managed jobs, on a mounted path, S3 and HDFS."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.ownership import ClaimMode
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.checkpoints.sinks.file_sink_log import LOG
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.cli.app import app
from airflow_provider_ha.cli.session import ClusterTarget
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import JobSpec, RestoreRequest, Start
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.hdfs.hdfs_server import Hdfs, hdfs_server
from tests.support.s3.s3_server import S3Access
from tests.support.spark.driver_helpers import APPS, CONF, PATIENCE, Stream
from tests.support.spark.layered_job import on_s3, s3a_class_path
from tests.support.spark.supervised_job import FAST_POLL, SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1800)]
SCRIPT = APPS / "plain.py"


def run_plain_and_kill(stream: Stream, checkpoint: Path, batch: int) -> None:
    """Run the script as its user did, without any of this package, and kill it once its sink has *batch*."""
    options = [word for key, value in CONF.items() for word in ("--conf", f"{key}={value}")]
    with (stream.root / "plain.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(stream.source), str(stream.output), str(checkpoint)],
            env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_SUBMIT_ARGS": " ".join(_quoted(options))},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    entry = stream.output / "_spark_metadata" / str(batch)

    def written() -> bool:
        assert process.poll() is None, (stream.root / "plain.log").read_text(errors="replace")[-3000:]
        return entry.exists()

    try:
        wait_until(written, timeout=PATIENCE, what=f"batch {batch} in the sink", interval=FAST_POLL)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    # The kill may have come after the commit, or in the next batch: then the window is made by hand, as an earlier kill
    # would have left it.
    first_of = {checkpoint / "commits": batch, checkpoint / "offsets": batch + 1, entry.parent: batch + 1}
    for directory, first in first_of.items():
        for path in directory.iterdir():
            number = path.name.strip(".").split(".")[0]
            if number.isdigit() and int(number) >= first:
                path.unlink()


def _quoted(options: list[str]) -> list[str]:
    return [*(f'"{word}"' if " " in word else word for word in options), "pyspark-shell"]


def test_a_plain_query_that_was_killed_goes_on_as_a_managed_job(client: HaClient, tmp_path: Path) -> None:
    """Killed between its sink and its commit; adopted with CLAIM; killed again; no row is lost and none is twice.

    The script stays as it is: it names the checkpoint location that it had. So a submission without a word is refused.
    """
    stream, checkpoint = Stream(tmp_path), tmp_path / "plain" / "windows"
    stream.feed(3)
    run_plain_and_kill(stream, checkpoint, batch=2)
    assert (progress(LocalTree(checkpoint)).planned, progress(LocalTree(checkpoint)).committed) == (2, 1)
    job = SupervisedJob(client, stream)
    sinks = {"windows": str(stream.output)}
    wanted = RestoreRequest(job_id=job.job_id, request_id="r", adopt={"windows": str(checkpoint)}, sinks=sinks)
    plan = job.job.plan_restore(wanted)
    assert (plan.verdict, [entry.batch for entry in plan.queries["windows"].replay]) == (Verdict.SAFE, [2])

    arguments = [str(stream.source), str(stream.output), str(checkpoint)]
    job.submit_script(SCRIPT, arguments)
    refused = job.await_result()
    assert refused.state is JobState.FAILED
    assert f"start_from={{'windows': '{checkpoint}'}}, sinks={{'windows': '{stream.output}'}}" in refused.reason
    assert "start_from='fresh'" in refused.reason
    job.job.submit(
        JobSpec(
            job_id=job.job_id,
            request_id=new_id(),
            application=str(SCRIPT),
            arguments=arguments,
            conf={key: value for key, value in CONF.items() if key not in ("spark.master", "spark.driver.memory")},
            master="local[2]",
            driver_memory="1g",
            ha=HaOptions(checkpoint_interval=0, restart_in_place=False, restart_delay=0, retained_checkpoints=1),
            start_from=str(checkpoint),
            start=Start(sinks=sinks, claim_mode=ClaimMode.CLAIM),
        )
    )
    job.await_alive(lambda: job.job.snapshot().leader is not None, "the leader of the adopted run")
    epoch = job.job.snapshot().epoch  # the refused run has had some
    job.await_committed(epoch, 2)
    assert "batch 2 is executed again into noop" in job.log()
    job.kill()
    job.recover()
    stream.feed(2)
    job.await_committed(epoch + 1, 4)
    job.stop("terminate")
    result = job.await_result()

    assert result.state is JobState.FINISHED, result.reason
    assert stream.windows() == stream.expected_windows(5)
    assert not checkpoint.exists()
    assert client.coordinator.children(client.paths.to_delete) == []


@dataclass(frozen=True)
class Store:
    """Where the script keeps its checkpoint.

    :param location: As the script writes it.
    :param place: The same, as this package does.
    :param conf: What a plain Spark needs to reach it.
    """

    config: HaConfig
    location: str
    place: str
    conf: dict[str, str]

    def content(self) -> dict[str, str]:
        """Return what lies there."""
        files = StorageAccess.of(self.config).files(self.place).list("")
        return {file.key: f"{file.size} {file.mtime} {file.etag}" for file in files}


@pytest.fixture(scope="module")
def hdfs() -> Iterator[Hdfs]:
    with hdfs_server() as running:
        yield running


def in_a_bucket(config: HaConfig, s3: S3Access, folder: Path) -> Store:
    """Return a place in the bucket of a work root."""
    made = on_s3(config, s3, folder)
    bucket = urlsplit(made.work_uri).netloc
    conf = s3a_class_path() | {
        "spark.hadoop.fs.s3a.endpoint": s3.endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": s3.access_key,
        "spark.hadoop.fs.s3a.secret.key": s3.secret_key,
    }
    return Store(made, f"s3a://{bucket}/own/windows", f"s3://{bucket}/own/windows", conf)


def on_a_name_node(config: HaConfig, hdfs: Hdfs) -> Store:
    """Return a place on HDFS, of a job whose work root is mounted."""
    root = f"{hdfs.new_root()}/own/windows"
    return Store(config.model_copy(update={"hdfs": hdfs.options()}), root, root, {"spark.hadoop.dfs.replication": "1"})


@pytest.fixture(params=["s3", pytest.param("hdfs", marks=pytest.mark.hours)])
def store(request: pytest.FixtureRequest, config: HaConfig, tmp_path: Path) -> Store:
    if request.param == "s3":
        return in_a_bucket(config, request.getfixturevalue("s3"), tmp_path)
    return on_a_name_node(config, request.getfixturevalue("hdfs"))


def run_plain(stream: Stream, store: Store, batch: int) -> None:
    """Run the script as its user did, without any of this package, until its sink has *batch*; kill it then."""
    conf = {key: value for key, value in CONF.items() if key != "spark.driver.memory"} | store.conf
    options = [word for key, value in conf.items() for word in ("--conf", f'"{key}={value}"')]
    log = (stream.root / "plain.log").open("wb")
    with log:
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(stream.source), str(stream.output), store.location],
            env=os.environ
            | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_SUBMIT_ARGS": " ".join([*options, "pyspark-shell"])},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    committed: Callable[[], int] = lambda: progress(StorageAccess.of(store.config).tree(store.place)).committed  # noqa: E731

    def written() -> bool:
        assert process.poll() is None, (stream.root / "plain.log").read_text(errors="replace")[-3000:]
        return (stream.output / LOG / str(batch)).exists() and committed() >= batch

    try:
        wait_until(written, timeout=PATIENCE, what=f"batch {batch} of the plain query")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.hours
def test_a_location_that_holds_batches_is_refused_with_both_ways_on(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream(tmp_path)
    stream.feed(3)
    run_plain(stream, store, batch=2)
    before = store.content()
    with HaClient.open(store.config) as client:
        job = SupervisedJob(client, stream)
        job.conf = s3a_class_path() if store.place.startswith("s3:") else dict(store.conf)
        arguments = [str(stream.source), str(stream.output), store.location]

        job.submit_script(SCRIPT, arguments)
        refused = job.await_result()

        assert refused.state is JobState.FAILED
        went_on = f"start_from={{'windows': '{store.place}'}}, sinks={{'windows': '{stream.output}'}}"
        for said in (refused.reason, shown(store.config, job.job_id, monkeypatch)):
            assert "which holds its batches up to 2" in said
            assert went_on in said.replace("\\", "")
            assert "start_from='fresh'" in said.replace("\\", "")
        assert store.content() == before

        job.job.submit(
            JobSpec(
                job_id=job.job_id,
                request_id=new_id(),
                application=str(SCRIPT),
                arguments=arguments,
                conf={key: value for key, value in CONF.items() if key not in ("spark.master", "spark.driver.memory")}
                | job.conf,
                master="local[2]",
                driver_memory="1g",
                ha=HaOptions(checkpoint_interval=0, restart_in_place=False),
                start_from={"windows": store.place},
                start=Start(sinks={"windows": str(stream.output)}),
            )
        )
        stream.feed(2)
        expected = stream.expected_windows(5)
        job.await_alive(lambda: len(stream.windows()) >= len(expected) - 2, "windows of new files")
        job.stop("terminate")
        result = job.await_result()

    assert result.state is JobState.FINISHED, result.reason
    assert stream.windows() == expected
    assert store.content() == before


def shown(config: HaConfig, job_id: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what ``spark-ha job show`` says."""
    for name in ("zookeeper", "storage_root", "cluster_id"):
        monkeypatch.setenv(f"SPARK_HA_{name.upper()}", getattr(config, name))
    told = CliRunner().invoke(app, ["job", "show", job_id, "--json"], obj=ClusterTarget())
    assert told.exit_code == 0, told.output
    return str(json.loads(told.stdout))
