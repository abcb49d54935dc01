"""``spark-ha savepoint`` on S3, killed with ``kill -9`` while a request of it is held at the server."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.store.savepoints.archive import export
from airflow_provider_ha.checkpoints.store.savepoints.pool import Pool, PoolPlace
from airflow_provider_ha.checkpoints.store.savepoints.pool_sweep import PoolLease, sweep
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import SavepointSource
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.errors import ObjectExistsError
from tests.integration.checkpoints.test_savepoint_s3 import ME, NOW, call, members, open_pool
from tests.support.checkpoints.portable_helpers import names_in
from tests.support.s3.pools import check, fetch, take
from tests.support.s3.s3_checkpoints import put_directory, tree
from tests.support.s3.s3_faults import Exchange, Fault, s3_proxy
from tests.support.s3.s3_server import S3Access
from tests.unit.checkpoints.test_verification_sparse import write_log


pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
QUERY = "c"
PROGRAM = "from airflow_provider_ha.cli.app import main; main()"


@pytest.fixture
def bucket(s3: S3Access, tmp_path: Path) -> str:
    """A bucket with a checkpoint, and a savepoint ``other`` of its batch 0."""
    bucket = s3.new_bucket()
    directory = write_log(tmp_path / QUERY, offsets=[0, 1], commits=[0, 1], version=2)
    for log in ("offsets", "commits"):  # each entry has its own bytes
        with (directory / log / "0").open("a") as entry:
            entry.write("\n")
    put_directory(s3, bucket, QUERY, directory)
    taken(open_pool(s3, bucket), "other", 0)
    return bucket


@pytest.fixture
def pool(s3: S3Access, bucket: str) -> Pool:
    return open_pool(s3, bucket)


def taken(pool: Pool, name: str, batch: int = 1) -> None:
    take(
        pool,
        name,
        [SavepointSource(query=QUERY, directory=PoolPlace(pool.place.bucket, f"{QUERY}/"), batch=batch)],
        holder=ME,
    )


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
    command = [sys.executable, "-c", PROGRAM, "savepoint", *words]
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


def end_leases(pool: Pool) -> None:
    """Let the time of all leases pass."""
    for item in list(pool.store.list(pool.leases)):
        lease = PoolLease.from_bytes(pool.store.read(item.key), source=item.key)
        pool.store.write(item.key, lease.model_copy(update={"seconds": 0.0}).to_bytes())


def assert_only(pool: Pool, *names: str) -> None:
    """These savepoints are there and whole; what else lies in the pool goes with the first sweep after the leases."""
    assert pool.names() == sorted(names)
    assert sweep(pool, holder=ME, grace=NOW).in_use_by != ()
    end_leases(pool)
    assert sweep(pool, holder=ME, grace=NOW).in_use_by == ()
    found = [pool.read(name) for name in names]
    for savepoint in found:
        check(pool, savepoint)
    assert members(pool) == {file.member for savepoint in found for file in savepoint.files.values()}
    assert list(pool.store.list(pool.leases)) == []


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(Fault(unheard, "HEAD", "c/commits/1"), id="before the first copy"),
        pytest.param(Fault(unheard, "PUT", "_pool/", after=1), id="a copy"),
        pytest.param(Fault(heard, "POST", "_pool/", after=1), id="a copy that is there"),
        pytest.param(Fault(unheard, "PUT", "_manifests/one.json"), id="the manifest"),
    ],
)
def test_a_create_that_is_killed_leaves_no_savepoint_and_can_be_repeated(
    step: Fault, s3: S3Access, bucket: str, pool: Pool
) -> None:
    killed_at(s3, step, "create", f"s3://{bucket}/{QUERY}", "--to", f"s3://{bucket}/savepoints/one")

    assert_only(pool, "other")
    taken(pool, "one")
    check(pool, pool.read("one"))


def test_a_create_that_is_killed_after_its_manifest_has_left_a_whole_savepoint(
    s3: S3Access, bucket: str, pool: Pool
) -> None:
    step = Fault(heard, "PUT", "_manifests/one.json")

    killed_at(s3, step, "create", f"s3://{bucket}/{QUERY}", "--to", f"s3://{bucket}/savepoints/one")

    assert_only(pool, "one", "other")


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(Fault(unheard, "PUT", "_pool/", after=1), id="a file"),
        pytest.param(Fault(unheard, "PUT", "_manifests/one.json"), id="the manifest"),
    ],
)
def test_an_import_that_is_killed_leaves_no_savepoint_and_the_next_one_clears_its_scratch(
    step: Fault, s3: S3Access, bucket: str, pool: Pool, tmp_path: Path
) -> None:
    own = fetch(pool, pool.read("other"), tmp_path / "sp", holder=ME)
    (tmp_path / "mail").mkdir()
    archive = tmp_path / "mail" / "sp.tar"
    export(tmp_path / "sp", own, archive)
    words = ("import", str(archive), "--to", f"s3://{bucket}/savepoints/one")

    killed_at(s3, step, *words)

    assert len(names_in(archive.parent)) == 2
    assert_only(pool, "other")
    call(s3, "savepoint", *words)
    assert names_in(archive.parent) == ["sp.tar"]
    check(pool, pool.read("one"))


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(Fault(unheard, "PUT", "again/c/commits/"), id="commits"),
        pytest.param(Fault(unheard, "POST", "again/c/metadata"), id="query id"),
        pytest.param(Fault(unheard, "PUT", "again/c/offsets/"), id="first offsets"),
        pytest.param(Fault(unheard, "PUT", "again/c/offsets/", after=1), id="last offsets"),
    ],
)
def test_a_restore_that_is_killed_is_nothing_to_start_from_and_the_savepoint_is_whole(
    step: Fault, s3: S3Access, bucket: str, pool: Pool
) -> None:
    taken(pool, "one")
    place = f"s3://{bucket}/savepoints/one"

    killed_at(s3, step, "restore", place, "--to", f"s3://{bucket}/again")

    half = tree(s3, bucket, f"again/{QUERY}")
    assert half.names() in ([], ["commits"], ["commits", "metadata"], ["commits", "metadata", "offsets"])
    assert verify(half).startable is not True
    assert "0" not in tree(s3, bucket, f"again/{QUERY}/offsets").names()  # Spark would begin with it
    assert_only(pool, "one", "other")
    if half.names():
        with pytest.raises(AssertionError, match="is not empty"):
            call(s3, "savepoint", "restore", place, "--to", f"s3://{bucket}/again")
    call(s3, "savepoint", "restore", place, "--to", f"s3://{bucket}/elsewhere")
    assert verify(tree(s3, bucket, f"elsewhere/{QUERY}")).restorable == [1]


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(Fault(heard, "DELETE", "_manifests/one.json"), id="the manifest"),
        pytest.param(Fault(unheard, "DELETE", "_pool/"), id="the first file"),
        pytest.param(Fault(heard, "DELETE", "_pool/", after=1), id="a file"),
    ],
)
def test_a_dispose_that_is_killed_harms_no_other_and_the_next_sweep_does_the_rest(
    step: Fault, s3: S3Access, bucket: str, pool: Pool
) -> None:
    taken(pool, "one")

    killed_at(s3, step, "dispose", f"s3://{bucket}/savepoints/one", "--yes", "--grace-hours", "0")

    assert pool.names() == ["other"]
    if list(pool.store.list(pool.leases)):
        assert_only(pool, "other")
    else:  # it was killed before it swept
        sweep(pool, holder=ME, grace=NOW)
        check(pool, pool.read("other"))
    assert members(pool) == {file.member for file in pool.read("other").files.values()}


def test_a_dispose_that_is_killed_before_the_manifest_is_gone_has_done_nothing(
    s3: S3Access, bucket: str, pool: Pool
) -> None:
    taken(pool, "one")
    before = pool.read("one")

    step = Fault(unheard, "DELETE", "_manifests/one.json")
    killed_at(s3, step, "dispose", f"s3://{bucket}/savepoints/one", "--yes", "--grace-hours", "0")

    assert pool.read("one") == before
    check(pool, before)
    with pytest.raises(ObjectExistsError):
        taken(pool, "one")


@pytest.mark.parametrize("after", [0, 1])
def test_a_sweep_that_is_killed_harms_nobody_and_keeps_others_off_until_its_lease_is_over(
    after: int, s3: S3Access, bucket: str, pool: Pool
) -> None:
    taken(pool, "one")
    pool.store.delete(pool.manifest_key("one"))

    step = Fault(heard, "DELETE", "_pool/", after=after)
    killed_at(s3, step, "sweep", f"s3://{bucket}/savepoints", "--grace-hours", "0")

    assert_only(pool, "other")
