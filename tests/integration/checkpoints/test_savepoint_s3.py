"""Savepoints over a pool in a bucket: taken, judged, restored and swept at a real server."""

from __future__ import annotations

import json
import shlex
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from airflow_provider_ha.checkpoints.sinks.file_sink_log import LOG
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.store.savepoints.pool import Pool, PoolPlace, member_of
from airflow_provider_ha.checkpoints.store.savepoints.pool_sweep import SWEEP, USE, dispose, lease, sweep
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_directory import SavepointDirectory, read_savepoint
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import SavepointSource
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_report import judge
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_restore import restore as restore_here
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.cli.app import app
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    CheckpointMissingError,
    ConfigurationError,
    ObjectExistsError,
    StorageUnavailableError,
)
from tests.docs.blocks import blocks_of
from tests.support.s3.pools import fetch, restore, stored, take, tree_of
from tests.support.s3.s3_checkpoints import noting_proxy, put_directory, tree
from tests.support.s3.s3_faults import FOR_EVER, Exchange, Fault, refuse, s3_proxy
from tests.support.s3.s3_server import S3Access
from tests.support.spark.corpus import checkpoint_copy
from tests.unit.checkpoints.test_verification_sparse import write_log


pytestmark = pytest.mark.timeout(300)
PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "s3.md"
ME = "a test"
NOW = timedelta()


@pytest.fixture
def bucket(s3: S3Access, tmp_path: Path) -> str:
    """A bucket with a checkpoint without state below ``c``: batches 0 and 1 are committed, each with its own bytes."""
    bucket = s3.new_bucket()
    directory = write_log(tmp_path / "c", offsets=[0, 1], commits=[0, 1], version=2)
    for log in ("offsets", "commits"):
        with (directory / log / "0").open("a") as entry:
            entry.write("\n")
    put_directory(s3, bucket, "c", directory)
    return bucket


@pytest.fixture
def pool(s3: S3Access, bucket: str) -> Pool:
    return open_pool(s3, bucket)


def open_pool(s3: S3Access, bucket: str, endpoint: str | None = None) -> Pool:
    return Pool(PoolPlace(bucket, "savepoints/"), s3.options(endpoint))


def source(
    bucket: str, batch: int | None = None, prefix: str = "c/", sink: str | None = None
) -> SavepointSource[PoolPlace]:
    output = None if sink is None else PoolPlace(bucket, sink)
    return SavepointSource(query="q", directory=PoolPlace(bucket, prefix), batch=batch, sink=output)


def members(pool: Pool) -> set[str]:
    return set(pool.present())


def test_two_savepoints_share_what_both_have_and_disposing_of_one_leaves_the_other_whole(
    pool: Pool, bucket: str
) -> None:
    take(pool, "first", [source(bucket, 0)], holder=ME)
    second = take(pool, "second", [source(bucket, 1)], holder=ME)
    first = pool.read("first")
    shared = {file.member for file in first.files.values()} & {file.member for file in second.files.values()}
    assert shared

    swept = dispose(pool, "first", holder=ME, grace=NOW)

    assert (swept.in_use_by, swept.removed > 0) == ((), True)
    assert pool.names() == ["second"]
    assert members(pool) == {file.member for file in second.files.values()}
    assert stored(pool, second).wrong_files() == []
    with pytest.raises(CheckpointMissingError):
        pool.read("first")


def test_a_second_savepoint_copies_only_what_is_new(s3: S3Access, bucket: str, pool: Pool) -> None:
    take(pool, "first", [source(bucket, 1)], holder=ME)

    with noting_proxy(s3.endpoint) as (endpoint, asked):
        take(open_pool(s3, bucket, endpoint), "second", [source(bucket, 1)], holder=ME)

    assert [path for path in asked.others if "uploadId" in path] == []


def test_what_was_taken_is_restored_to_another_prefix_and_to_a_directory(
    s3: S3Access, bucket: str, pool: Pool, tmp_path: Path
) -> None:
    savepoint = take(pool, "one", [source(bucket)], holder=ME)
    assert {query: part.batch for query, part in savepoint.queries.items()} == {"q": 1}
    assert savepoint.queries["q"].entries[0].batch == 1

    restore(pool, savepoint, PoolPlace(bucket, "again/"), holder=ME)
    restore_here(stored(pool, savepoint), tmp_path / "here")
    made = fetch(pool, savepoint, tmp_path / "own", holder=ME)

    assert verify(tree(s3, bucket, "again/q")).restorable == [1]
    assert verify(LocalTree(tmp_path / "here" / "q")).restorable == [1]
    assert read_savepoint(tmp_path / "own").savepoint == made
    assert judge(SavepointDirectory(tmp_path / "own", made)).restorable is True
    with pytest.raises(ObjectExistsError, match="is not empty"):
        restore(pool, savepoint, PoolPlace(bucket, "again/"), holder=ME)


def test_the_log_of_a_sink_belongs_to_the_cut(s3: S3Access, bucket: str, pool: Pool, tmp_path: Path) -> None:
    entries = tmp_path / LOG
    entries.mkdir()
    for batch in range(3):
        (entries / str(batch)).write_text("v1")
    put_directory(s3, bucket, f"out/{LOG}", entries)

    savepoint = take(pool, "one", [source(bucket, sink="out/")], holder=ME)

    assert [name for name in savepoint.files if name.startswith("sinks/")] == [f"sinks/q/{LOG}/{n}" for n in (0, 1)]
    assert savepoint.queries["q"].sink.max_batch == 2


@pytest.mark.long
@pytest.mark.parametrize("shape", ["rocksdb2-changelog", "hdfs", "rocksdb2-join"])
def test_a_savepoint_of_state_is_judged_to_its_last_byte(
    shape: str, s3: S3Access, bucket: str, pool: Pool, tmp_path: Path
) -> None:
    put_directory(s3, bucket, "state", checkpoint_copy(shape, tmp_path / "s"))

    savepoint = take(pool, "one", [source(bucket, prefix="state/")], holder=ME)

    batch = savepoint.queries["q"].batch
    assert verify(tree_of(pool, savepoint, "q"), depth="full").restorable[-1] == batch
    assert [name for name in savepoint.files if "/." in name] == []


def test_a_file_that_is_replaced_under_the_copy_is_noticed_and_the_next_attempt_has_the_new_one(
    s3: S3Access, bucket: str, tmp_path: Path
) -> None:
    changed = (tmp_path / "c" / "metadata").read_bytes().replace(b"3f8a", b"4f8a")  # of the same size

    def replace(exchange: Exchange) -> None:
        s3.client().put_object(Bucket=bucket, Key="c/metadata", Body=changed)
        exchange.forward()

    # Between the listing of the checkpoint and the copy: when the copy looks at its source.
    with s3_proxy(s3.endpoint, Fault(replace, "HEAD", f"/{bucket}/c/metadata")) as endpoint:
        savepoint = take(open_pool(s3, bucket, endpoint), "one", [source(bucket)], holder=ME)

    pool = open_pool(s3, bucket)
    (now,) = pool.reader.list("c/metadata")
    assert savepoint.files["q/metadata"].member == member_of(now.etag, now.size)
    assert tree_of(pool, savepoint, "q").read("metadata") == changed


@pytest.mark.parametrize("step", ["c/commits/1", "_pool/", "_manifests/one.json"])
def test_a_savepoint_that_ends_at_any_step_is_none_and_its_remains_are_collected(
    step: str, s3: S3Access, bucket: str, pool: Pool
) -> None:
    method = "HEAD" if step.startswith("c/") else "PUT"
    fault = Fault(refuse(403, "AccessDenied"), method, step, after=2 if step == "_pool/" else 0)
    with s3_proxy(s3.endpoint, fault) as endpoint, pytest.raises(StorageUnavailableError):
        take(open_pool(s3, bucket, endpoint), "one", [source(bucket)], holder=ME)

    assert fault.hits == 1
    assert pool.names() == []
    sweep(pool, holder=ME, grace=NOW)
    assert members(pool) == set()


@pytest.mark.long
def test_a_copy_that_is_not_there_when_it_is_looked_at_never_gets_a_manifest(
    s3: S3Access, bucket: str, pool: Pool
) -> None:
    def emptied(exchange: Exchange) -> None:
        for member in members(pool):
            pool.store.delete(f"{pool.members}{member}")
        exchange.forward()

    # The pool is listed before the copies, after them, and when they are judged.
    fault = Fault(emptied, "GET", "prefix=savepoints%2F_pool", after=2, times=FOR_EVER)
    with s3_proxy(s3.endpoint, fault) as endpoint, pytest.raises(CheckpointCorruptError, match="pool"):
        take(open_pool(s3, bucket, endpoint), "one", [source(bucket)], holder=ME)

    assert pool.names() == []


def test_what_was_replaced_in_the_pool_is_not_restored(bucket: str, pool: Pool) -> None:
    """Of the same size, so that only the store's own word tells."""
    savepoint = take(pool, "one", [source(bucket)], holder=ME)
    key = pool.members + savepoint.files["q/commits/1"].member
    pool.store.write(key, pool.store.read(key).replace(b"0", b"7"))

    with pytest.raises(CheckpointCorruptError, match="replaced in the pool"):
        restore(pool, savepoint, PoolPlace(bucket, "again/"), holder=ME)

    assert list(pool.store.list("again/")) == []


def test_what_cannot_be_restored_is_named_by_the_file_that_its_own_batch_lacks(
    pool: Pool, tmp_path: Path, s3: S3Access, bucket: str
) -> None:
    """The first finding of the report is about the whole directory."""
    put_directory(s3, bucket, "longer", write_log(tmp_path / "l", offsets=[0, 1, 2], commits=[0, 1, 2], version=2))
    savepoint = take(pool, "one", [source(bucket, prefix="longer/")], holder=ME)
    uncommitted = savepoint.model_copy(
        update={"files": {name: file for name, file in savepoint.files.items() if name != "q/commits/2"}}
    )

    with pytest.raises(CheckpointCorruptError) as caught:
        restore(pool, uncommitted, PoolPlace(bucket, "again/"), holder=ME)

    assert caught.value.path == "q/commits/2"


def test_a_restore_that_ends_before_the_query_id_is_there_has_nothing_that_spark_would_go_on_from(
    s3: S3Access, bucket: str, pool: Pool
) -> None:
    savepoint = take(pool, "one", [source(bucket)], holder=ME)

    fault = Fault(refuse(403, "AccessDenied"), "POST", "again/q/metadata")
    with s3_proxy(s3.endpoint, fault) as endpoint, pytest.raises(StorageUnavailableError):
        restore(open_pool(s3, bucket, endpoint), savepoint, PoolPlace(bucket, "again/"), holder=ME)

    assert [item.key for item in pool.store.list("again/q/commits/")] == ["again/q/commits/1"]
    assert list(pool.store.list("again/q/offsets/")) == []


def test_of_two_restores_to_one_prefix_the_second_one_stops(s3: S3Access, bucket: str, pool: Pool) -> None:
    savepoint = take(pool, "one", [source(bucket)], holder=ME)

    def somebody_was_faster(exchange: Exchange) -> None:
        s3.client().put_object(Bucket=bucket, Key="again/q/metadata", Body=b"theirs")
        exchange.forward()

    fault = Fault(somebody_was_faster, "PUT", "again/q/commits/1")
    with s3_proxy(s3.endpoint, fault) as endpoint, pytest.raises(ObjectExistsError):
        restore(open_pool(s3, bucket, endpoint), savepoint, PoolPlace(bucket, "again/"), holder=ME)

    assert pool.store.read("again/q/metadata") == b"theirs"


@pytest.mark.long
def test_of_two_savepoints_of_one_name_the_first_one_stays(s3: S3Access, bucket: str, pool: Pool) -> None:
    theirs = pool.manifest_key("one")

    def somebody_was_faster(exchange: Exchange) -> None:
        s3.client().put_object(Bucket=bucket, Key=theirs, Body=b"theirs")
        exchange.forward()

    fault = Fault(somebody_was_faster, "PUT", "_manifests/one.json")
    with s3_proxy(s3.endpoint, fault) as endpoint, pytest.raises(ObjectExistsError):
        take(open_pool(s3, bucket, endpoint), "one", [source(bucket)], holder=ME)

    assert pool.store.read(theirs) == b"theirs"


def test_a_member_is_left_alone_while_it_is_younger_than_the_grace(pool: Pool, bucket: str) -> None:
    take(pool, "one", [source(bucket)], holder=ME)
    pool.store.delete(pool.manifest_key("one"))

    swept = sweep(pool, holder=ME)

    assert (swept.removed, swept.young) == (0, len(members(pool)))
    assert members(pool)


def test_a_manifest_that_cannot_be_read_ends_a_sweep_before_anything_is_removed(
    s3: S3Access, bucket: str, pool: Pool
) -> None:
    take(pool, "one", [source(bucket, 0)], holder=ME)
    take(pool, "two", [source(bucket, 1)], holder=ME)
    pool.store.delete(pool.manifest_key("one"))
    before = members(pool)

    fault = Fault(refuse(403, "AccessDenied"), "GET", "_manifests/two.json")
    with s3_proxy(s3.endpoint, fault) as endpoint, pytest.raises(StorageUnavailableError):
        sweep(open_pool(s3, bucket, endpoint), holder=ME, grace=NOW)
    pool.store.write(pool.manifest_key("two"), b"{}")
    with pytest.raises(CheckpointCorruptError):
        sweep(pool, holder=ME, grace=NOW)

    assert members(pool) == before


def test_nothing_is_swept_while_somebody_uses_the_pool_and_nobody_uses_it_while_it_is_swept(
    pool: Pool, bucket: str
) -> None:
    take(pool, "one", [source(bucket)], holder=ME)
    pool.store.delete(pool.manifest_key("one"))

    with lease(pool.store, pool.leases, USE, holder="another"):
        assert sweep(pool, holder=ME, grace=NOW).in_use_by == ("another",)
    with lease(pool.store, pool.leases, SWEEP, holder="a sweeper"):
        with pytest.raises(StorageUnavailableError, match="a sweeper is sweeping the pool"):
            take(pool, "two", [source(bucket)], holder=ME)
        assert sweep(pool, holder=ME, grace=NOW).in_use_by == ("a sweeper",)

    assert members(pool)
    assert sweep(pool, holder=ME, grace=NOW).removed > 0
    assert members(pool) == set()


def test_what_cannot_be_saved_is_refused_before_anything_is_written(pool: Pool, bucket: str) -> None:
    with pytest.raises(CheckpointMissingError):
        take(pool, "one", [source(bucket, prefix="nowhere/")], holder=ME)
    with pytest.raises(ConfigurationError, match="another bucket"):
        take(pool, "one", [SavepointSource(query="q", directory=PoolPlace("elsewhere", "c/"))], holder=ME)
    with pytest.raises(ConfigurationError, match="inside the checkpoint"):
        take(pool, "one", [source(bucket, prefix="savepoints/")], holder=ME)

    assert list(pool.store.list("savepoints/")) == []


def test_a_manifest_that_leads_out_of_the_pool_is_refused(pool: Pool, bucket: str) -> None:
    savepoint = take(pool, "one", [source(bucket)], holder=ME)
    file = savepoint.files["q/metadata"].model_copy(update={"member": "../c/metadata"})
    bad = savepoint.model_copy(update={"files": {**savepoint.files, "q/metadata": file}})
    pool.store.write(pool.manifest_key("one"), bad.to_bytes())

    with pytest.raises(CheckpointCorruptError, match="not a valid member name"):
        pool.read("one")


def call(s3: S3Access, *words: str) -> str:
    """Call the command as a user does who has said in the environment where S3 is."""
    environment = {
        "COLUMNS": "300",
        "AWS_ENDPOINT_URL": s3.endpoint,
        "AWS_ACCESS_KEY_ID": s3.access_key,
        "AWS_SECRET_ACCESS_KEY": s3.secret_key,
    }
    done = CliRunner(env=environment).invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_commands_of_the_page_work_in_their_order(
    s3: S3Access, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    put_directory(s3, bucket, "checkpoint", tmp_path / "c")
    (block,) = (block for block in blocks_of(PAGE) if "savepoint create" in block.text)

    for line in block.text.splitlines():
        call(s3, *shlex.split(line.replace("s3://bucket/", f"s3://{bucket}/"))[1:])

    assert (tmp_path / "before-upgrade.tar.zst").is_file()
    assert verify(tree(s3, bucket, "restored/checkpoint")).restorable == [1]


@pytest.mark.long
def test_a_program_gets_json_from_each_command(s3: S3Access, bucket: str, tmp_path: Path) -> None:
    def document(*words: str) -> Any:
        return json.loads(call(s3, "savepoint", *words, "--json"))

    place = f"s3://{bucket}/savepoints"
    made = document("create", f"s3a://{bucket}/c", "--to", f"{place}/one", "--label", "before the upgrade")
    assert (made["directory"], made["cut"]) == (f"{place}/one", {"c": 1})
    assert document("verify", f"{place}/one")["restorable"] is True
    restored = document("restore", f"{place}/one", "--to", f"s3://{bucket}/again")
    assert restored["checkpoints"] == {"c": f"s3a://{bucket}/again/c"}
    assert document("export", f"{place}/one", "--to", str(tmp_path / "one.tar"))["bytes"] > 0
    assert document("import", str(tmp_path / "one.tar"), "--to", str(tmp_path / "one"))["cut"] == {"c": 1}
    assert document("dispose", f"{place}/one", "--yes", "--grace-hours", "0")["pool"]["removed"] > 0
    assert document("sweep", place)["pool"]["kept"] == 0
