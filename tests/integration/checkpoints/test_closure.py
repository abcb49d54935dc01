"""Closures of checkpoints that a real Spark wrote, and the names of their queries."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from airflow_provider_ha.checkpoints.spark.checkpoint_layout import batches, progress, queries
from airflow_provider_ha.checkpoints.spark.closure import StateReader, closure
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.releases import release
from airflow_provider_ha.checkpoints.spark.state_content import ContentCheck
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.cli.app import app
from airflow_provider_ha.cli.session import ClusterTarget
from airflow_provider_ha.errors import CheckpointCorruptError, CheckpointMissingError
from airflow_provider_ha.query_names import query_directory
from tests.support.checkpoints.damage import ALL, STATEFUL, halve, newest_sst, remove
from tests.support.spark.corpus import checkpoint_copy, corpus
from tests.support.spark.recorded_job import QUERY, copy_live


# The first test makes the corpus, which takes half a minute of two idle cores.
pytestmark = pytest.mark.timeout(300)


def visible(files: dict[str, int]) -> set[str]:
    """Leave out checksum files."""
    return {path for path in files if not path.endswith(".crc")}


def put_together(source: Path, target: Path, files: dict[str, int]) -> Path:
    """Copy exactly *files*."""
    for path in files:
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / path, target / path)
    return target


@pytest.mark.parametrize("shape", ALL)
def test_the_closure_alone_is_a_checkpoint_that_can_be_started(shape: str, tmp_path: Path) -> None:
    source = corpus() / shape / "checkpoint"
    for batch in batches(LocalTree(source), "commits"):
        alone = put_together(source, tmp_path / str(batch), closure(LocalTree(source), batch, with_planned=False))
        report = verify(LocalTree(alone))
        assert report.startable is True
        assert {finding.code.value for finding in report.findings} <= (
            {"STATE_UNKNOWN"} if shape == "stateless" else set()
        )
        assert report.latest_restorable == batch


def test_a_copy_has_the_last_two_compact_entries_of_a_log(tmp_path: Path) -> None:
    """Spark takes the interval of a log from their distance."""
    copy = checkpoint_copy("hdfs", tmp_path / "c")
    log = {path.name for path in (copy / "sources/0").glob("[0-9]*")}
    assert {"3.compact", "7.compact", "8"} <= log

    files = visible(closure(LocalTree(copy), 8, with_planned=False))

    logged = {path.removeprefix("sources/0/") for path in files if path.startswith("sources")}
    assert logged == {"3.compact", "7.compact", "8"}


def test_a_copy_needs_no_compact_entry_that_spark_has_removed(tmp_path: Path) -> None:
    copy = checkpoint_copy("hdfs", tmp_path / "c")
    (copy / "sources/0/3.compact").unlink()

    files = visible(closure(LocalTree(copy), 8, with_planned=False))

    assert {path for path in files if path.startswith("sources")} == {"sources/0/7.compact", "sources/0/8"}


def test_the_one_source_that_has_a_name_needs_no_name_in_the_offset_log(tmp_path: Path) -> None:
    """Spark 4.2.0 names the directory, and writes the offset log in format 1, which names no source."""
    copy = checkpoint_copy("hdfs", tmp_path / "c")
    (copy / "sources/0").rename(copy / "sources/events")

    files = visible(closure(LocalTree(copy), 8, with_planned=False))

    logged = ("sources/events/3.compact", "sources/events/7.compact", "sources/events/8")
    assert {path for path in files if path.startswith("sources")} == set(logged)
    assert verify(LocalTree(copy)).findings == ()


def test_which_of_several_named_sources_is_which_is_not_guessed(tmp_path: Path) -> None:
    copy = checkpoint_copy("hdfs", tmp_path / "c")
    (copy / "sources/0").rename(copy / "sources/events")
    shutil.copytree(copy / "sources/events", copy / "sources/clicks")

    report = verify(LocalTree(copy))

    assert report.startable is None
    assert [finding.code.value for finding in report.findings] == ["UNREADABLE"]
    assert "does not record which of clicks, events is source 0" in report.findings[0].found


def test_the_closure_leaves_behind_what_belongs_to_later_batches() -> None:
    source = corpus() / "rocksdb2" / "checkpoint"
    files = visible(closure(LocalTree(source), 5, with_planned=False))
    assert {path for path in files if path.startswith(("offsets", "commits", "sources"))} == {
        "offsets/4", "offsets/5", "commits/5", "sources/0/3.compact", "sources/0/4", "sources/0/5",
    }  # fmt: skip
    assert {Path(path).name.split("_")[0] for path in files if path.endswith(".zip")} == {"6"}


def test_the_closure_with_the_planned_batch_reaches_its_source_entry() -> None:
    found = closure(LocalTree(corpus() / "rocksdb2" / "checkpoint"), 5, with_planned=True)
    assert {"offsets/6", "sources/0/6"} <= set(found)
    assert "commits/6" not in found


def test_nothing_committed_is_a_closure_of_the_first_planned_batch() -> None:
    found = closure(LocalTree(corpus() / "hdfs" / "checkpoint"), -1, with_planned=True)
    assert visible(found) == {"metadata", "offsets/0", "sources/0/0"}


def test_the_closure_holds_both_kinds_of_checksum_files() -> None:
    files = closure(LocalTree(corpus() / "rocksdb2" / "checkpoint"), 8, with_planned=False)
    (zip_path,) = [path for path in files if path.startswith("state/0/0/9_") and path.endswith(".zip")]
    parent, name = zip_path.rsplit("/", 1)
    assert {f"{zip_path}.crc", f"{parent}/.{name}.crc", f"{parent}/.{name}.crc.crc"} <= set(files)


def test_the_hdfs_chain_begins_at_the_newest_snapshot_and_is_complete() -> None:
    files = closure(LocalTree(corpus() / "hdfs" / "checkpoint"), 6, with_planned=False)
    names = {Path(path).name for path in visible(files) if path.startswith("state/0/0/") and "_metadata" not in path}
    assert names == {"4.snapshot", "5.delta", "6.delta", "7.delta"}


@pytest.mark.parametrize("shape", STATEFUL)
def test_a_missing_partition_is_named(shape: str, tmp_path: Path) -> None:
    copy = checkpoint_copy(shape, tmp_path / "c")
    remove("state/0/1")(copy)
    with pytest.raises(CheckpointCorruptError, match="state/0/1/"):
        closure(LocalTree(copy), 8, with_planned=False)


def test_an_sst_of_another_size_than_its_zip_says_is_refused(tmp_path: Path) -> None:
    copy = checkpoint_copy("rocksdb2", tmp_path / "c")
    newest_sst(copy).write_bytes(newest_sst(copy).read_bytes()[:-1])
    with pytest.raises(CheckpointCorruptError, match=r"SSTs/.*9_.*zip records"):
        closure(LocalTree(copy), 8, with_planned=False)


def test_the_closure_goes_round_a_lost_file_where_an_older_snapshot_carries_on(tmp_path: Path) -> None:
    copy = checkpoint_copy("rocksdb2-changelog", tmp_path / "c")
    newest_sst(copy).unlink()
    alone = put_together(copy, tmp_path / "alone", closure(LocalTree(copy), 8, with_planned=False))
    assert verify(LocalTree(alone)).findings == ()


def test_a_deep_reader_goes_round_a_file_that_is_whole_only_by_its_size(tmp_path: Path) -> None:
    copy = checkpoint_copy("hdfs", tmp_path / "c")
    halve("state/0/0/8.snapshot")(copy)
    found = closure(
        LocalTree(copy),
        8,
        with_planned=False,
        reader=StateReader(LocalTree(copy), ContentCheck(LocalTree(copy), release("4.2.0"))),
    )
    assert "state/0/0/8.snapshot" not in found
    assert "state/0/0/4.snapshot" in found


def test_a_batch_that_was_purged_is_missing_and_not_corrupt(tmp_path: Path) -> None:
    copy = checkpoint_copy("rocksdb2", tmp_path / "c")
    remove("offsets/[0-3]")(copy)
    for batch in (3, 4):
        with pytest.raises(CheckpointMissingError):
            closure(LocalTree(copy), batch, with_planned=False)


def test_progress_ignores_remains_of_a_crash(tmp_path: Path) -> None:
    copy = checkpoint_copy("stateless", tmp_path / "live" / "q1")
    remove("commits/8")(copy)
    (copy / "offsets" / ".9.0aa5.tmp").touch()
    (copy / "commits" / "8.crc").touch()
    assert (progress(LocalTree(copy)).planned, progress(LocalTree(copy)).committed) == (8, 7)
    assert progress(LocalTree(copy)).in_flight
    assert queries(LocalTree(tmp_path / "live")) == ["q1"]


def test_a_name_in_a_zip_never_leads_out_of_the_checkpoint(tmp_path: Path) -> None:
    copy = checkpoint_copy("rocksdb1", tmp_path / "c")
    outside = tmp_path / "secret.sst"
    outside.write_bytes(b"x")
    inner = {"sstFiles": [{"localFileName": "1.sst", "dfsSstFileName": "../../../../../secret.sst", "sizeBytes": 1}]}
    with zipfile.ZipFile(copy / "state/0/0/9.zip", "w") as archive:
        archive.writestr("metadata", "v1\n" + json.dumps(inner))
    with pytest.raises(CheckpointCorruptError, match="leads out"):
        closure(LocalTree(copy), 8, with_planned=False)


NAMES = ("Flattened Orders", "a/b", "Заказы", "a=b")
WRONG_CALL = 64


def call(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(words), obj=ClusterTarget())
    return done.exit_code, done.output


@pytest.mark.parametrize("name", NAMES)
def test_a_savepoint_is_taken_verified_and_restored_by_the_name_of_the_script(
    name: str, checkpoint: Path, tmp_path: Path
) -> None:
    saved, restored = tmp_path / "saved", tmp_path / "restored"

    code, said = call("savepoint", "create", "--query", f"{name}={checkpoint}", "--to", str(saved), "--json")

    assert code == 0, said
    assert (saved / query_directory(name) / "offsets").is_dir()
    code, said = call("savepoint", "verify", str(saved), "--json")
    document: dict[str, Any] = json.loads(said)
    assert (code, list(document["queries"])) == (0, [name]), said
    code, said = call("savepoint", "restore", str(saved), "--to", str(restored))
    assert code == 0, said
    assert name in said
    assert (restored / query_directory(name) / "offsets").is_dir()


def test_a_directory_without_a_name_is_of_the_query_that_it_is_named_after(checkpoint: Path, tmp_path: Path) -> None:
    of_user = checkpoint.rename(checkpoint.with_name("Flattened Orders"))

    code, said = call("savepoint", "create", str(of_user), "--to", str(tmp_path / "saved"))

    assert code == 0, said
    assert (tmp_path / "saved" / "Flattened~20Orders").is_dir()


def test_names_that_differ_in_case_only_are_refused(checkpoint: Path, tmp_path: Path) -> None:
    other = copy_live(tmp_path / "other") / QUERY

    code, said = call(
        *("savepoint", "create", "--query", f"Orders={checkpoint}", "--query", f"orders={other}"),
        *("--to", str(tmp_path / "saved")),
    )

    assert code == WRONG_CALL
    assert "differ in upper and lower case only" in " ".join(said.split())
    assert not (tmp_path / "saved").exists()


@pytest.mark.parametrize("directory", ["Flattened Orders", "Flattened~20Orders"])
def test_a_plan_of_a_directory_takes_the_name_of_the_script(directory: str, checkpoint: Path) -> None:
    place = checkpoint.rename(checkpoint.with_name(directory))

    code, said = call(
        "checkpoint", "plan", str(place), "--sinks", "Flattened Orders=noop", "--repeatable", "Flattened Orders"
    )

    assert code != WRONG_CALL, said
