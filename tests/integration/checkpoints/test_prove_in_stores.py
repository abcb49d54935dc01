"""A proof of a checkpoint that lies on S3 or HDFS: Spark gets a copy of it on this host."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.checkpoints.verify.proof_copy import copy_closure
from airflow_provider_ha.checkpoints.verify.proof_protocol import Application
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.cli.app import app
from airflow_provider_ha.jobs.verification.spark_proof import prove
from tests.support.hdfs.hdfs_server import hdfs_server
from tests.support.s3.s3_server import S3Access
from tests.support.spark.corpus import checkpoint_copy, corpus


pytestmark = pytest.mark.timeout(300)
SCRIPT = Path(__file__).resolve().parents[2] / "apps" / "prove.py"
BATCH = 8
Put = Callable[[Path], tuple[str, StorageAccess]]


def put(directory: Path, uri: str, reach: StorageAccess) -> tuple[str, StorageAccess]:
    files = reach.files(uri)
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        files.write(str(path.relative_to(directory)), path.read_bytes())
    return uri, reach


@pytest.fixture
def on_s3(s3: S3Access) -> Put:
    return lambda directory: put(directory, f"s3://{s3.new_bucket()}/jobs/counts", StorageAccess(s3.options()))


@pytest.fixture
def on_hdfs() -> Iterator[Put]:
    with hdfs_server() as hdfs:
        yield lambda directory: put(directory, f"{hdfs.new_root()}/counts", StorageAccess(hdfs=hdfs.options()))


@pytest.fixture(params=["on_s3", pytest.param("on_hdfs", marks=pytest.mark.long)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, StorageAccess]:
    """Where a checkpoint with state lies, and how it is reached."""
    made: Put = request.getfixturevalue(request.param)
    return made(checkpoint_copy("hdfs", tmp_path / "written"))


def test_the_copy_is_what_the_batch_needs(place: tuple[str, StorageAccess], tmp_path: Path) -> None:
    uri, reach = place

    size = copy_closure(reach.tree(uri), BATCH, tmp_path / "copy")

    copied = [path for path in (tmp_path / "copy").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in copied) == size
    assert verify(LocalTree(tmp_path / "copy"), depth="full").startable


def test_the_command_takes_a_uri(s3: S3Access, on_s3: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri, _ = on_s3(checkpoint_copy("hdfs", tmp_path / "written"))
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3.secret_key)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")

    done = CliRunner().invoke(app, ["checkpoint", "verify", uri, "--depth", "prove", "--json"])

    document = json.loads(done.stdout)
    assert (done.exit_code, document["startable"], document["proof"]["proven"]) == (2, True, None)
    assert "no Java was found" in done.stdout


@pytest.mark.spark
@pytest.mark.long
def test_spark_loads_a_batch_and_starts_the_query_of_this_location(
    place: tuple[str, StorageAccess], tmp_path: Path
) -> None:
    uri, reach = place
    (tmp_path / "trace").mkdir()
    location = uri.replace("s3://", "s3a://")
    arguments = (str(corpus() / "hdfs" / "input"), location, str(tmp_path / "trace"), "foreach")
    before = list(reach.files(uri).list(""))

    proof = prove(reach.tree(uri), application=Application(script=SCRIPT, arguments=arguments), env=os.environ)

    assert (proof.proven, proof.batch, proof.findings) == (True, BATCH, ())
    assert proof.started is not None
    assert proof.started.name == "counts"
    assert list((tmp_path / "trace").iterdir()) == []
    assert list(reach.files(uri).list("")) == before
