"""Savepoints below a prefix of a bucket: taken, judged, restored and removed at a real server."""

from __future__ import annotations

import json
import shlex
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import ManifestFile
from airflow_provider_ha.checkpoints.sinks.file_sink_log import LOG
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.store.savepoints import creation
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_directory import SavepointDirectory, read_savepoint
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import SavepointSource
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_prefix import (
    DURATION,
    PrefixLayout,
    SavepointPrefix,
    dispose,
    open_savepoint,
)
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_report import judge
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_restore import fetch, restore_files
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_restore import restore as restore_here
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    CheckpointMissingError,
    ConfigurationError,
    ObjectExistsError,
    StorageUnavailableError,
)
from airflow_provider_ha.storage.s3_store import S3Store
from tests.docs.blocks import blocks_of
from tests.support.s3.s3_checkpoints import put_directory, tree
from tests.support.s3.s3_faults import FOR_EVER, Exchange, Fault, refuse, s3_proxy
from tests.support.s3.s3_server import S3Access
from tests.support.s3.savepoints import attempts_of, call, keys_of, place_of, restore, take
from tests.support.spark.corpus import checkpoint_copy
from tests.unit.checkpoints.test_verification_sparse import write_log


pytestmark = pytest.mark.timeout(300)
PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "s3.md"
ATTEMPT = f"files-{32 * 'a'}"  # the directory of an attempt


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
def one(s3: S3Access, bucket: str) -> SavepointPrefix:
    """The place of a savepoint."""
    return place_of(s3, bucket)


def source(bucket: str, batch: int | None = None, prefix: str = "c", sink: str | None = None) -> SavepointSource[str]:
    output = None if sink is None else f"s3://{bucket}/{sink}"
    return SavepointSource(query="q", directory=f"s3://{bucket}/{prefix}", batch=batch, sink=output)


def test_the_server_copies_every_file(s3: S3Access, bucket: str) -> None:
    copies = Fault(lambda exchange: exchange.forward(), "PUT", "/files-", "x-amz-copy-source", times=FOR_EVER)
    uploads = Fault(lambda exchange: exchange.forward(), "PUT", "/files-", times=FOR_EVER)

    with s3_proxy(s3.endpoint, copies, uploads) as endpoint:
        savepoint = take(place_of(s3, bucket, endpoint=endpoint), [source(bucket)])

    assert (copies.hits, uploads.hits) == (len(savepoint.files), 0)


def test_what_was_taken_is_restored_to_another_prefix_and_to_a_directory(
    s3: S3Access, bucket: str, one: SavepointPrefix, tmp_path: Path
) -> None:
    savepoint = take(one, [source(bucket)])
    stored = open_savepoint(one)
    assert stored.savepoint == savepoint
    assert savepoint.cut == {"q": 1}
    assert savepoint.queries["q"].entries[0].batch == 1

    restore(s3, one, "again")
    restore_here(stored, tmp_path / "here")
    made = fetch(stored, tmp_path / "own")

    assert verify(tree(s3, bucket, "again/q")).restorable == [1]
    assert verify(LocalTree(tmp_path / "here" / "q")).restorable == [1]
    assert read_savepoint(tmp_path / "own").savepoint == made
    assert made.digested
    assert judge(SavepointDirectory(tmp_path / "own", made)).restorable is True
    with pytest.raises(ObjectExistsError, match="is not empty"):
        restore(s3, one, "again")


def test_a_savepoint_is_restored_to_another_bucket(s3: S3Access, bucket: str, one: SavepointPrefix) -> None:
    take(one, [source(bucket)])
    other = s3.new_bucket()

    restore_files(open_savepoint(one), S3Store(f"s3://{other}/again", s3.options()))

    assert verify(tree(s3, other, "again/q")).restorable == [1]


def test_the_log_of_a_sink_belongs_to_the_cut(s3: S3Access, bucket: str, one: SavepointPrefix, tmp_path: Path) -> None:
    entries = tmp_path / LOG
    entries.mkdir()
    for batch in range(3):
        (entries / str(batch)).write_text("v1")
    put_directory(s3, bucket, f"out/{LOG}", entries)

    savepoint = take(one, [source(bucket, sink="out")])

    assert [name for name in savepoint.files if name.startswith("sinks/")] == [f"sinks/q/{LOG}/{n}" for n in (0, 1)]
    assert savepoint.queries["q"].sink.max_batch == 2


@pytest.mark.long
@pytest.mark.parametrize("shape", ["rocksdb2-changelog", "hdfs", "rocksdb2-join"])
def test_a_savepoint_of_state_is_judged_to_its_last_byte(
    shape: str, s3: S3Access, bucket: str, one: SavepointPrefix, tmp_path: Path
) -> None:
    put_directory(s3, bucket, "state", checkpoint_copy(shape, tmp_path / "s"))

    savepoint = take(one, [source(bucket, prefix="state")])

    batch = savepoint.queries["q"].batch
    assert verify(open_savepoint(one).tree("q"), depth="full").restorable[-1] == batch
    assert [name for name in savepoint.files if "/." in name] == []


def test_a_file_that_is_replaced_under_the_copy_is_noticed_and_the_next_attempt_has_the_new_one(
    s3: S3Access, bucket: str, one: SavepointPrefix, tmp_path: Path
) -> None:
    changed = (tmp_path / "c" / "metadata").read_bytes().replace(b"3f8a", b"4f8a")  # of the same size

    def replace(exchange: Exchange) -> None:
        s3.client().put_object(Bucket=bucket, Key="c/metadata", Body=changed)
        exchange.forward()

    # Between the listing of the checkpoint and the copy: when the copy looks at its source.
    with s3_proxy(s3.endpoint, Fault(replace, "HEAD", f"/{bucket}/c/metadata")) as endpoint:
        take(place_of(s3, bucket, endpoint=endpoint), [source(bucket)])

    assert open_savepoint(one).tree("q").read("metadata") == changed
    assert len(attempts_of(one)) == 1


@pytest.mark.parametrize("step", ["c/commits/1", "/files-", "one/manifest.json"])
def test_an_attempt_that_ends_at_any_step_is_no_savepoint_and_can_be_repeated(
    step: str, s3: S3Access, bucket: str, one: SavepointPrefix
) -> None:
    method = "HEAD" if step.startswith("c/") else "PUT"
    fault = Fault(refuse(403, "AccessDenied"), method, step, after=2 if step == "/files-" else 0)
    with s3_proxy(s3.endpoint, fault) as endpoint, pytest.raises(StorageUnavailableError):
        take(place_of(s3, bucket, endpoint=endpoint), [source(bucket)])

    assert fault.hits == 1
    with pytest.raises(CheckpointMissingError):
        open_savepoint(one)
    take(one, [source(bucket)])
    assert judge(open_savepoint(one)).restorable is True


@pytest.mark.long
def test_a_copy_that_is_gone_when_it_is_judged_never_gets_a_manifest(
    s3: S3Access, bucket: str, one: SavepointPrefix
) -> None:
    def emptied(exchange: Exchange) -> None:
        for key in keys_of(one):
            one.files.delete(f"{one.key}/{key}")
        exchange.forward()

    # The copies are listed to read the entries of the cut, and when they are judged.
    fault = Fault(emptied, "GET", "files-", after=1, times=FOR_EVER)
    with s3_proxy(s3.endpoint, fault) as endpoint, pytest.raises(CheckpointCorruptError):
        take(place_of(s3, bucket, endpoint=endpoint), [source(bucket)])

    assert keys_of(one) == []


def test_a_replaced_file_is_not_restored(s3: S3Access, bucket: str, one: SavepointPrefix) -> None:
    """Of the same size, so that only the etag differs."""
    take(one, [source(bucket)])
    (directory,) = attempts_of(one)
    key = f"{one.key}/{directory}/q/commits/1"
    one.files.write(key, one.files.read(key).replace(b"0", b"7"))

    with pytest.raises(CheckpointCorruptError, match="it was replaced"):
        restore(s3, one, "again")

    assert list(one.files.list("again/")) == []


def test_a_file_that_is_not_in_the_manifest_is_found(bucket: str, one: SavepointPrefix) -> None:
    take(one, [source(bucket)])
    (directory,) = attempts_of(one)
    one.files.write(f"{one.key}/{directory}/q/offsets/7", b"v1")

    report = judge(open_savepoint(one))

    assert [problem.path for problem in report.files] == ["q/offsets/7"]


def test_a_restore_that_ends_before_the_query_id_is_there_has_nothing_that_spark_would_go_on_from(
    s3: S3Access, bucket: str, one: SavepointPrefix
) -> None:
    take(one, [source(bucket)])

    fault = Fault(refuse(403, "AccessDenied"), "PUT", "again/q/metadata")
    with s3_proxy(s3.endpoint, fault) as endpoint, pytest.raises(StorageUnavailableError):
        restore(s3, place_of(s3, bucket, endpoint=endpoint), "again", endpoint)

    assert [file.key for file in one.files.list("again/q/commits/")] == ["again/q/commits/1"]
    assert list(one.files.list("again/q/offsets/")) == []


def test_of_two_restores_to_one_prefix_the_second_one_stops(s3: S3Access, bucket: str, one: SavepointPrefix) -> None:
    take(one, [source(bucket)])

    def another_was_faster(exchange: Exchange) -> None:
        s3.client().put_object(Bucket=bucket, Key="again/q/metadata", Body=b"theirs")
        exchange.forward()

    fault = Fault(another_was_faster, "PUT", "again/q/commits/1")
    with s3_proxy(s3.endpoint, fault) as endpoint, pytest.raises(ObjectExistsError):
        restore(s3, place_of(s3, bucket, endpoint=endpoint), "again", endpoint)

    assert one.files.read("again/q/metadata") == b"theirs"


def test_of_two_attempts_at_one_name_the_first_one_stays(s3: S3Access, bucket: str, one: SavepointPrefix) -> None:
    def another_was_faster(exchange: Exchange) -> None:
        take(one, [source(bucket, 0)], label="theirs")
        exchange.forward()

    fault = Fault(another_was_faster, "PUT", "one/manifest.json")
    with s3_proxy(s3.endpoint, fault) as endpoint, pytest.raises(ObjectExistsError):
        take(place_of(s3, bucket, endpoint=endpoint), [source(bucket)])

    stored = open_savepoint(one)
    assert stored.savepoint.label == "theirs"
    assert judge(stored).restorable is True
    assert attempts_of(one) == {stored.place.name}


def test_an_attempt_that_takes_too_long_is_no_savepoint(bucket: str, one: SavepointPrefix) -> None:
    class Sleeping(SystemClock):
        """A clock that passes the limit between two calls."""

        passed = 0.0

        def lease_time(self) -> float:
            self.passed += DURATION.total_seconds() + 1
            return self.passed

    with pytest.raises(StorageUnavailableError, match="took more than 2 days"):
        creation.take([source(bucket)], PrefixLayout(one, Sleeping()))

    with pytest.raises(CheckpointMissingError):
        open_savepoint(one)


def test_a_removal_leaves_the_files_of_another_attempt(s3: S3Access, bucket: str, one: SavepointPrefix) -> None:
    other = place_of(s3, bucket, "other")
    take(other, [source(bucket)])
    take(one, [source(bucket, 0)])
    (own,) = attempts_of(one)
    one.files.write(f"{one.key}/{ATTEMPT}/q/metadata", b"v1")
    one.files.write(f"{one.key}/notes/of a person", b"")

    dispose(one)

    assert own not in attempts_of(one)
    assert keys_of(one) == [f"{ATTEMPT}/q/metadata", "notes/of a person"]
    assert judge(open_savepoint(other)).restorable is True


def test_a_removal_takes_what_dead_attempts_left(bucket: str, one: SavepointPrefix) -> None:
    one.files.write(f"{one.key}/{ATTEMPT}/q/metadata", b"v1")
    with pytest.raises(CheckpointMissingError):
        dispose(one)
    assert attempts_of(one) == {ATTEMPT}

    dispose(one, abandoned=timedelta())

    assert keys_of(one) == []
    assert one.files.info("c/metadata") is not None


@pytest.mark.parametrize("answer", ["refused", "damaged", "of another form"])
def test_a_manifest_that_cannot_be_read_ends_a_removal_before_it_begins(
    answer: str, s3: S3Access, bucket: str, one: SavepointPrefix
) -> None:
    take(one, [source(bucket)])
    if answer == "damaged":
        one.files.write(one.manifest, b"{}")
    elif answer == "of another form":
        moved = open_savepoint(one).savepoint.model_copy(update={"directory": "../../c"})
        one.files.write(one.manifest, moved.to_bytes())
    before = keys_of(one)

    fault = Fault(refuse(403, "AccessDenied"), "GET", "one/manifest.json" if answer == "refused" else "no such key")
    with s3_proxy(s3.endpoint, fault) as endpoint, pytest.raises((StorageUnavailableError, CheckpointCorruptError)):
        dispose(place_of(s3, bucket, endpoint=endpoint), abandoned=timedelta())

    assert keys_of(one) == before


def test_what_cannot_be_saved_is_refused_before_anything_is_written(one: SavepointPrefix, bucket: str) -> None:
    with pytest.raises(CheckpointMissingError):
        take(one, [source(bucket, prefix="nowhere")])
    with pytest.raises(ConfigurationError, match="another bucket"):
        take(one, [source("elsewhere")])
    with pytest.raises(ConfigurationError, match="inside the checkpoint"):
        take(one, [source(bucket, prefix="savepoints/one")])

    assert keys_of(one) == []


@pytest.mark.parametrize(
    "update",
    [
        {"directory": "../c"},
        {"directory": "files-1"},
        {"directory": ""},
        {"files": {"q/../../c": ManifestFile(size=1)}},
    ],
)
def test_a_manifest_that_leads_out_of_the_savepoint_is_refused(
    update: dict[str, Any], one: SavepointPrefix, bucket: str
) -> None:
    take(one, [source(bucket)])
    manifest = open_savepoint(one).savepoint.model_copy(update={"directory": open_savepoint(one).place.name})
    one.files.write(one.manifest, manifest.to_bytes())
    assert open_savepoint(one).savepoint.cut == {"q": 1}

    one.files.write(one.manifest, manifest.model_copy(update=update).to_bytes())

    with pytest.raises(CheckpointCorruptError):
        open_savepoint(one)


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
        return json.loads(call(s3, *words, "--json"))

    place = f"s3://{bucket}/savepoints"
    made = document("savepoint", "create", f"s3a://{bucket}/c", "--to", f"{place}/one", "--label", "before the upgrade")
    assert (made["directory"], made["cut"]) == (f"{place}/one", {"c": 1})
    assert document("savepoint", "verify", f"{place}/one")["restorable"] is True
    restored = document("savepoint", "restore", f"{place}/one", "--to", f"s3://{bucket}/again")
    assert restored["checkpoints"] == {"c": f"s3a://{bucket}/again/c"}
    assert document("savepoint", "export", f"{place}/one", "--to", str(tmp_path / "one.tar"))["bytes"] > 0
    assert document("savepoint", "import", str(tmp_path / "one.tar"), "--to", str(tmp_path / "one"))["cut"] == {"c": 1}
    assert document("delete", "savepoint", f"{place}/one", "--yes") == {
        "job_id": "",
        "savepoint_id": f"{place}/one",
        "deleted": True,
    }
