"""``spark-ha savepoint`` on S3, killed with ``kill -9`` while a request of it is held at the server."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.store.savepoints.archive import export
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import SavepointSource
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_prefix import SavepointPrefix, dispose, open_savepoint
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_report import check
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_restore import fetch
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.errors import CheckpointMissingError, ObjectExistsError
from tests.support.checkpoints.portable_helpers import names_in
from tests.support.s3.s3_checkpoints import put_directory, tree
from tests.support.s3.s3_faults import Exchange, Fault, s3_proxy
from tests.support.s3.s3_server import S3Access
from tests.support.s3.savepoints import attempts_of, call, keys_of, place_of, take
from tests.unit.checkpoints.test_verification_sparse import write_log


pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
QUERY = "c"
PROGRAM = "from airflow_provider_ha.cli.app import main; main()"


@pytest.fixture
def bucket(s3: S3Access, tmp_path: Path) -> str:
    """A bucket with a checkpoint."""
    bucket = s3.new_bucket()
    directory = write_log(tmp_path / QUERY, offsets=[0, 1], commits=[0, 1], version=2)
    for log in ("offsets", "commits"):  # each entry has its own bytes
        with (directory / log / "0").open("a") as entry:
            entry.write("\n")
    put_directory(s3, bucket, QUERY, directory)
    return bucket


@pytest.fixture
def one(s3: S3Access, bucket: str) -> SavepointPrefix:
    """The place of a savepoint."""
    return place_of(s3, bucket)


def taken(at: SavepointPrefix) -> None:
    take(at, [SavepointSource(query=QUERY, directory=f"s3://{at.bucket}/{QUERY}")])


def killed_at(s3: S3Access, step: Fault, *words: str) -> None:
    """Run the command, and kill it while the request of *step* is held; *step* says whether the server hears of it."""
    reached, done = threading.Event(), step.action

    def hold(exchange: Exchange) -> None:
        done(exchange)
        reached.set()
        exchange.wait(120)
        exchange.cut()

    step.action = hold
    with s3_proxy(s3.endpoint, step) as endpoint, running(s3, endpoint, *words) as process:
        assert reached.wait(120), process.stderr.read() if process.poll() is not None and process.stderr else "no step"
        process.kill()
        process.wait()


@contextmanager
def running(s3: S3Access, endpoint: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    environment = os.environ | {
        "PYTHONPATH": str(Path(__file__).parents[3]),
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": s3.access_key,
        "AWS_SECRET_ACCESS_KEY": s3.secret_key,
    }
    command = [sys.executable, "-c", PROGRAM, *words]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def unheard(exchange: Exchange) -> None:
    """The server does not hear of the request."""
    exchange.body()


def heard(exchange: Exchange) -> None:
    """The server does it, and the command does not hear of that."""
    exchange.ask()


def assert_none(at: SavepointPrefix) -> None:
    """There is no savepoint, and the files of the dead attempt go with a removal."""
    with pytest.raises(CheckpointMissingError):
        open_savepoint(at)
    if keys_of(at):
        dispose(at, abandoned=timedelta())
    assert keys_of(at) == []


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(Fault(unheard, "HEAD", "c/commits/1"), id="before the first copy"),
        pytest.param(Fault(unheard, "PUT", "/files-", after=1), id="a copy"),
        pytest.param(Fault(heard, "PUT", "/files-", after=1), id="a copy that is there"),
        pytest.param(Fault(unheard, "PUT", "one/manifest.json"), id="the manifest"),
    ],
)
def test_a_create_that_is_killed_leaves_no_savepoint_and_can_be_repeated(
    step: Fault, s3: S3Access, bucket: str, one: SavepointPrefix
) -> None:
    killed_at(s3, step, "savepoint", "create", f"s3://{bucket}/{QUERY}", "--to", str(one))

    with pytest.raises(CheckpointMissingError):
        open_savepoint(one)
    taken(one)
    check(open_savepoint(one))
    dispose(one, abandoned=timedelta())
    assert keys_of(one) == []


def test_a_create_that_is_killed_after_its_manifest_has_left_a_whole_savepoint(
    s3: S3Access, bucket: str, one: SavepointPrefix
) -> None:
    killed_at(
        s3, Fault(heard, "PUT", "one/manifest.json"), "savepoint", "create", f"s3://{bucket}/{QUERY}", "--to", str(one)
    )

    check(open_savepoint(one))


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(Fault(unheard, "PUT", "/files-", after=1), id="a file"),
        pytest.param(Fault(unheard, "PUT", "one/manifest.json"), id="the manifest"),
    ],
)
def test_an_import_that_is_killed_leaves_no_savepoint_and_the_next_one_clears_its_scratch(
    step: Fault, s3: S3Access, bucket: str, one: SavepointPrefix, tmp_path: Path
) -> None:
    other = place_of(s3, bucket, "other")
    taken(other)
    own = fetch(open_savepoint(other), tmp_path / "sp")
    (tmp_path / "mail").mkdir()
    archive = tmp_path / "mail" / "sp.tar"
    export(tmp_path / "sp", own, archive)
    words = ("savepoint", "import", str(archive), "--to", str(one))

    killed_at(s3, step, *words)

    assert len(names_in(archive.parent)) == 2
    assert_none(one)
    call(s3, *words)
    assert names_in(archive.parent) == ["sp.tar"]
    check(open_savepoint(one))


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(Fault(unheard, "PUT", "again/c/commits/"), id="commits"),
        pytest.param(Fault(unheard, "PUT", "again/c/metadata"), id="query id"),
        pytest.param(Fault(unheard, "PUT", "again/c/offsets/"), id="first offsets"),
        pytest.param(Fault(unheard, "PUT", "again/c/offsets/", after=1), id="last offsets"),
    ],
)
def test_a_restore_that_is_killed_is_nothing_to_start_from_and_the_savepoint_is_whole(
    step: Fault, s3: S3Access, bucket: str, one: SavepointPrefix
) -> None:
    taken(one)

    killed_at(s3, step, "savepoint", "restore", str(one), "--to", f"s3://{bucket}/again")

    half = tree(s3, bucket, f"again/{QUERY}")
    assert half.names() in ([], ["commits"], ["commits", "metadata"], ["commits", "metadata", "offsets"])
    assert verify(half).startable is not True
    assert "0" not in tree(s3, bucket, f"again/{QUERY}/offsets").names()  # Spark would begin with it
    check(open_savepoint(one))
    if half.names():
        with pytest.raises(AssertionError, match="is not empty"):
            call(s3, "savepoint", "restore", str(one), "--to", f"s3://{bucket}/again")
    call(s3, "savepoint", "restore", str(one), "--to", f"s3://{bucket}/elsewhere")
    assert verify(tree(s3, bucket, f"elsewhere/{QUERY}")).restorable == [1]


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(Fault(heard, "DELETE", "one/manifest.json"), id="the manifest"),
        pytest.param(Fault(unheard, "DELETE", "/files-"), id="the first file"),
        pytest.param(Fault(heard, "DELETE", "/files-", after=1), id="a file"),
    ],
)
def test_a_removal_that_is_killed_leaves_no_savepoint_and_the_next_one_does_the_rest(
    step: Fault, s3: S3Access, one: SavepointPrefix
) -> None:
    taken(one)

    killed_at(s3, step, "delete", "savepoint", str(one), "--yes")

    assert_none(one)


def test_a_removal_that_is_killed_before_the_manifest_is_gone_has_done_nothing(
    s3: S3Access, one: SavepointPrefix
) -> None:
    taken(one)

    killed_at(s3, Fault(unheard, "DELETE", "one/manifest.json"), "delete", "savepoint", str(one), "--yes")

    check(open_savepoint(one))
    with pytest.raises(ObjectExistsError):
        taken(one)
    assert len(attempts_of(one)) == 1
