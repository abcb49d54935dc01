"""Proofs with a real Spark, also of checkpoints on S3 and HDFS."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner

from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.proof_copy import copy_closure
from airflow_provider_ha.checkpoints.verify.proof_protocol import Application
from airflow_provider_ha.checkpoints.verify.proof_result import Proof, ProofOutcome
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.cli.app import app
from airflow_provider_ha.errors import CheckpointMissingError, ConfigurationError
from airflow_provider_ha.jobs.verification.spark_proof import PROGRAM, prove
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.checkpoints.damage import halve
from tests.support.hdfs.hdfs_server import hdfs_server
from tests.support.s3.s3_server import S3Access
from tests.support.spark.corpus import checkpoint_copy, corpus
from tests.support.spark.proven_queries import SCRIPT, application, fingerprint


pytestmark = pytest.mark.timeout(300)


def children() -> list[psutil.Process]:
    """Return the programs of proofs that this process has started."""
    return [child for child in psutil.Process().children() if PROGRAM in _words(child)]


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # it has ended
        return []


@pytest.fixture
def checkpoint(tmp_path: Path) -> Iterator[Path]:
    """A checkpoint with state, which a proof must leave as it is, and nothing beside it."""
    copy = checkpoint_copy("hdfs", tmp_path / "place" / "counts")
    before = fingerprint(tmp_path / "place")
    yield copy
    assert fingerprint(tmp_path / "place") == before
    assert children() == []


@pytest.mark.hours
@pytest.mark.long
@pytest.mark.spark
def test_spark_loads_a_batch_and_starts_the_query_on_it_without_its_sink(checkpoint: Path, tmp_path: Path) -> None:
    trace, told = tmp_path / "trace", []
    proof = prove(
        LocalTree(checkpoint),
        application=application("hdfs", checkpoint, trace, "foreach"),
        env=os.environ,
        progress_to=lambda now: told.append((now.doing, now.done, now.of)),
    )

    assert (proof.proven, proof.batch, proof.findings) == (True, 8, ())
    assert [(state.reading.title, state.rows) for state in proof.state] == [("default", (2, 2))]
    assert proof.started is not None
    assert (proof.started.name, proof.started.batch, proof.started.state_rows) == ("counts", 9, (4,))
    assert list(trace.iterdir()) == []
    assert ("starting the query", 1, 1) in told


def test_a_killed_child_leaves_the_question_open_and_nothing_behind(checkpoint: Path) -> None:
    proofs: list[Proof] = []
    thread = threading.Thread(target=lambda: proofs.append(prove(LocalTree(checkpoint), env=os.environ)))
    thread.start()
    (child,) = wait_until(children, timeout=60, what="the child")
    child.kill()
    thread.join(60)
    (proof,) = proofs

    assert proof.proven is None
    assert proof.loading.reason == "the child was killed by SIGKILL"
    assert [finding.code for finding in proof.findings] == [Code.NOT_PROVEN]


def test_a_child_that_is_not_done_in_time_leaves_the_question_open(checkpoint: Path) -> None:
    proof = prove(LocalTree(checkpoint), deadline=0.2)

    assert proof.proven is None
    assert proof.loading.reason == "Spark was not done after 0.2 seconds"


def test_without_java_the_question_is_left_open(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    proof = prove(LocalTree(checkpoint))

    assert proof.proven is None
    assert "no Java was found" in proof.loading.reason


def test_a_batch_that_is_not_restorable_is_refuted_without_asking_spark(tmp_path: Path) -> None:
    damaged = checkpoint_copy("rocksdb1", tmp_path / "counts")
    halve("state/0/0/9.zip")(damaged)
    proof = prove(LocalTree(damaged), batch=8, deadline=0.001)

    assert proof.proven is False
    assert proof.verdict is not None
    assert [reason.code for reason in proof.verdict.reasons] == [Code.STATE_CORRUPT]
    assert (proof.loading.outcome, proof.starting.outcome) == (ProofOutcome.NOT_ASKED, ProofOutcome.NOT_ASKED)


@pytest.mark.parametrize(
    ("shape", "bad"), [("hdfs", "state/0/0/8.snapshot"), ("rocksdb1-changelog", "state/0/0/9.zip")]
)
def test_where_spark_goes_on_from_an_older_snapshot_the_copy_has_that_one(shape: str, bad: str, tmp_path: Path) -> None:
    damaged = checkpoint_copy(shape, tmp_path / "counts")
    halve(bad)(damaged)
    copy_closure(LocalTree(damaged), 8, tmp_path / "copy")

    assert verify(LocalTree(damaged)).startable is True
    assert not (tmp_path / "copy" / bad).exists()
    assert verify(LocalTree(tmp_path / "copy")).findings == ()


def test_a_batch_that_is_not_there_is_an_error(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointMissingError, match="no entry of batch 77"):
        prove(LocalTree(checkpoint), batch=77)
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointMissingError, match="no entry of any batch"):
        prove(LocalTree(tmp_path / "empty"))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"heap": "much"}, "not an amount of memory"),
        ({"deadline": 0.0}, "over before its start"),
        ({"application": Application(script=Path("/nowhere/app.py"))}, "is not a file"),
        ({"scratch_directory": Path("/nowhere")}, "is not a directory"),
    ],
)
def test_what_cannot_be_used_is_refused_at_once(checkpoint: Path, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        prove(LocalTree(checkpoint), **wrong)


def test_a_query_without_state_has_nothing_to_load(tmp_path: Path) -> None:
    proof = prove(LocalTree(checkpoint_copy("stateless", tmp_path / "plain")), deadline=0.001)

    assert proof.proven is True
    assert (proof.loading.outcome, proof.starting.outcome) == (ProofOutcome.NOTHING, ProofOutcome.NOT_ASKED)


def test_nothing_of_the_user_is_on_a_command_line(checkpoint: Path, tmp_path: Path) -> None:
    secret = application("hdfs", checkpoint, tmp_path / "trace", "secret-argument")
    thread = threading.Thread(
        target=lambda: prove(
            LocalTree(checkpoint), application=secret.model_copy(update={"conf": {"spark.x.y": "secret-conf"}})
        )
    )
    thread.start()
    (child,) = wait_until(children, timeout=60, what="the child")
    words = " ".join(child.cmdline())
    request = Path(child.cmdline()[-1])
    content, mode = request.read_text(), request.stat().st_mode & 0o777
    child.kill()
    thread.join(60)

    assert "secret" not in words
    assert mode == 0o600
    assert "secret-argument" in content
    assert "secret-conf" in content


def test_the_command_says_unknown_with_its_own_exit_code_and_json(checkpoint: Path) -> None:
    words = ["checkpoint", "verify", str(checkpoint), "--depth", "prove", "--deadline", "0.2"]
    shown = CliRunner(env={"COLUMNS": "300"}).invoke(app, words)
    told = CliRunner().invoke(app, [*words, "--json"])
    document = json.loads(told.stdout)

    assert (shown.exit_code, told.exit_code) == (2, 2)
    assert "whether Spark continues from batch 8 is undetermined" in shown.output
    assert document["startable"] is True
    assert document["proof"]["proven"] is None
    assert document["proof"]["started"] == {
        "outcome": "not_asked",
        "reason": "no application was named",
        "query": None,
    }
    assert [finding["code"] for finding in document["proof"]["findings"]] == ["NOT_PROVEN"]


@pytest.mark.parametrize(
    "words",
    [
        ["--batch", "3"],
        ["--application", "app.py"],
        ["--depth", "prove", "--conf", "a=b"],
        ["--depth", "prove", "--spark-version", "3.5.0"],
    ],
)
def test_the_command_refuses_words_that_do_not_belong_together(checkpoint: Path, words: list[str]) -> None:
    done = CliRunner().invoke(app, ["checkpoint", "verify", str(checkpoint), *words])

    assert done.exit_code == 64
    assert "Traceback" not in done.output
    assert "error" in done.output


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


@pytest.mark.hours
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
