"""A job on S3 is stopped, and its script goes on by plain Spark from what was taken out of its savepoint."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.areas.layered.base_file import FILE as BASE
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress
from airflow_provider_ha.checkpoints.spark.metadata_log import read_offsets
from airflow_provider_ha.checkpoints.spark.object_tree import ObjectTree
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.driver.spark_conf import FORMAT_VERSION, PROVIDER, ROCKSDB
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.variables import variables_of
from tests.support.s3.s3_server import S3Access
from tests.support.spark.driver_helpers import APPS, CONF, PATIENCE, Stream
from tests.support.spark.layered_job import LayeredJob, s3a_class_path


pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("jobs_on_s3"),
]
QUERIES = ("windows", "rows")


def command(config: HaConfig, *words: str) -> None:
    done = subprocess.run(
        [str(Path(sys.executable).with_name("spark-ha")), *words],
        env=os.environ | variables_of(config),
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def restored(config: HaConfig, job: LayeredJob, savepoint: str, target: str, _: Path) -> None:
    command(config, "savepoint", "restore", job.job_id, savepoint, "--to", target)


def exported(config: HaConfig, job: LayeredJob, savepoint: str, target: str, folder: Path) -> None:
    """By way of an archive, as to another bucket that no host reaches together with the first one."""
    archive, between = str(folder / "out.tar.zst"), target.rpartition("/")[0] + "/savepoints/one"
    command(config, "savepoint", "export", job.job_id, savepoint, "--to", archive)
    command(config, "savepoint", "import", archive, "--to", between)
    command(config, "savepoint", "restore", between, "--to", target)


@contextlib.contextmanager
def plain_spark(job: LayeredJob, s3: S3Access, root: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the job's script by spark-submit, with the checkpoints below *root* and nothing of this package."""
    conf = {
        **CONF,
        **s3a_class_path(),
        PROVIDER: ROCKSDB,  # the two defaults of a managed job, which a checkpoint does not hold
        FORMAT_VERSION: "2",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.streaming.checkpointLocation": root.replace("s3://", "s3a://"),
        "spark.hadoop.fs.s3a.endpoint": s3.endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": s3.access_key,
        "spark.hadoop.fs.s3a.secret.key": s3.secret_key,
    }
    properties = folder / "plain.properties"
    properties.touch(mode=0o600)
    properties.write_text("".join(f"{key}={value}\n" for key, value in conf.items()))
    words = [APPS / "gated.py", *job.stream.arguments, job.gates, ",".join(job.queries)]
    with (folder / "plain.log").open("wb") as log:
        process = subprocess.Popen(
            [
                str(Path(sys.executable).with_name("spark-submit")),
                "--properties-file",
                str(properties),
                *map(str, words),
            ],
            env=os.environ | {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.hours
@pytest.mark.parametrize("taken_out", [restored, exported])
def test_plain_spark_goes_on_from_what_is_taken_out(
    client: HaClient, config: HaConfig, s3: S3Access, tmp_path: Path, taken_out: object
) -> None:
    """After a takeover: what the savepoint was made of lies in the directories of two epochs."""
    assert callable(taken_out)
    job = LayeredJob(client, Stream(tmp_path), QUERIES)
    job.stream.feed(2)
    job.submit()
    job.await_read(1)
    job.kill()
    job.recover()
    job.stream.feed(1)
    job.await_read(2)
    stopped = job.job.request_stop(operation_id=new_id(), requested_by="test", savepoint=True)
    job.await_result()
    root = f"s3://{s3.new_bucket()}/plain"

    taken_out(config, job, str(job.operation(stopped.operation_id).result["savepoint_id"]), root, tmp_path)
    files = StorageAccess.of(config).files(root)
    names = [file.key for file in files.list("")]
    assert names
    assert not [name for name in names if BASE in name]
    job.stream.feed(2)
    with plain_spark(job, s3, root, tmp_path) as spark:

        def read(query: str) -> bool:
            assert spark.poll() is None, (tmp_path / "plain.log").read_text()[-4000:]
            directory = ObjectTree(files) / query
            batch = progress(directory).committed
            return read_offsets(directory, batch).log_offset(0) == job.stream.files - 1

        wait_until(lambda: all(map(read, QUERIES)), timeout=PATIENCE, what="the last file", interval=0.5)
        expected = job.stream.expected_windows(4)
        wait_until(lambda: job.stream.windows() == expected, timeout=PATIENCE, what="its windows", interval=0.5)

    assert job.stream.seen() == job.stream.expected_rows(5)
    assert "SparkHa" not in (tmp_path / "plain.log").read_text()
