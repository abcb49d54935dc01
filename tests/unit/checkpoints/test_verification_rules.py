"""What Spark does with damage, rule by rule, on what releases really wrote: each was seen by starting that release."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from airflow_provider_ha.checkpoints.format.layout import progress
from airflow_provider_ha.checkpoints.verification.report import Report
from airflow_provider_ha.checkpoints.verification.verify import verify
from tests.releases.samples import unpack
from tests.state_files import END, pairs


OPERATOR = Path(__file__).resolve().parents[2] / "data" / "operator-v2"
STREAMING = "spark.sql.streaming"
JOIN_STORES = ("left-keyToNumValues", "left-keyWithIndexToValue", "right-keyToNumValues", "right-keyWithIndexToValue")
Recorded = Callable[[str, str], Path]


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    """Unpacks one of the checkpoints that a release wrote."""
    return lambda release, shape: unpack(release, tmp_path)[shape]


def told(report: Report) -> dict[str, bool | None]:
    return {f"{finding.code.value} {finding.path}": finding.blocks for finding in report.findings}


def rewrite(path: Path, content: bytes) -> None:
    """Give a file another content, without the hidden checksum that would tell."""
    (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def pin(checkpoint: Path, batch: int, key: str, value: object) -> None:
    path = checkpoint / "offsets" / str(batch)
    first, metadata, *rest = path.read_text().split("\n")
    document = json.loads(metadata)
    document["conf"][key] = value
    rewrite(path, "\n".join([first, json.dumps(document), *rest]).encode())


def newest(checkpoint: Path) -> int:
    return progress(checkpoint).planned


# The query id


@pytest.mark.parametrize("query_id", ["not-a-uuid", "0123456789abcdef0123456789abcdef", "1-2-3-4-5"])
def test_a_query_id_that_is_no_uuid_is_no_query_id(recorded: Recorded, query_id: str) -> None:
    checkpoint = recorded("4.3.0", "hdfs")
    rewrite(checkpoint / "metadata", json.dumps({"id": query_id}).encode())
    report = verify(checkpoint)

    assert (report.startable, report.restorable) == (False, [])
    assert told(report)["METADATA_CORRUPT metadata"] is True


def test_what_follows_the_query_id_is_told_and_does_not_block(recorded: Recorded) -> None:
    checkpoint = recorded("4.3.0", "hdfs")
    rewrite(checkpoint / "metadata", (checkpoint / "metadata").read_bytes() + b"\ngarbage")
    report = verify(checkpoint)

    assert (report.startable, report.latest_restorable) == (True, newest(checkpoint))
    assert told(report) == {"METADATA_CORRUPT metadata": False}


# The conf that is pinned


@pytest.mark.parametrize(
    ("key", "value", "reads"),
    [
        ("spark.sql.shuffle.partitions", "two", {}),
        ("spark.sql.shuffle.partitions", "0", {}),
        ("spark.sql.shuffle.partitions", "2.0", {}),
        ("spark.sql.shuffle.partitions", None, {}),
        ("spark.sql.shuffle.partitions", {"a": 1}, {}),
        ("spark.sql.shuffle.partitions", " 2 ", {"3.4.4", "4.0.5", "4.2.0", "4.3.0"}),
        (f"{STREAMING}.aggregation.stateFormatVersion", "9", {}),
        (f"{STREAMING}.join.stateFormatVersion", "3", {"4.2.0", "4.3.0"}),
        (f"{STREAMING}.join.stateFormatVersion", "5", {}),
        (f"{STREAMING}.multipleWatermarkPolicy", "median", {}),
        (f"{STREAMING}.multipleWatermarkPolicy", "MAX", {"3.4.4", "4.0.5", "4.2.0", "4.3.0"}),
        (f"{STREAMING}.stateStore.rocksdb.formatVersion", "-1", {}),
        (f"{STREAMING}.statefulOperator.useStrictDistribution", "maybe", {}),
        ("spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan", "maybe", {"3.4.4"}),
        (f"{STREAMING}.stateStore.encodingFormat", "foo", {"3.4.4"}),
        (f"{STREAMING}.stateStore.rowChecksum.enabled", "maybe", {"3.4.4", "4.0.5"}),
        ("spark.sql.ansi.enabled", "maybe", {"3.4.4", "4.0.5", "4.2.0", "4.3.0"}),
    ],
)
def test_a_release_refuses_the_values_that_it_cannot_read_of_the_conf_that_it_pins(
    recorded: Recorded, key: str, value: object, reads: set[str]
) -> None:
    checkpoint = recorded("4.3.0", "stateless")
    pin(checkpoint, newest(checkpoint), key, value)
    startable = {
        release
        for release in ("3.4.4", "4.0.5", "4.2.0", "4.3.0")
        if told(verify(checkpoint, spark_version=release)).get(f"CONF_REFUSED offsets/{newest(checkpoint)}") is None
    }

    assert startable == set(reads)


def test_a_time_that_is_no_number_is_refused(recorded: Recorded) -> None:
    checkpoint = recorded("4.3.0", "hdfs")
    path = checkpoint / "offsets" / str(newest(checkpoint))
    rewrite(path, path.read_bytes().replace(b'"batchWatermarkMs":0', b'"batchWatermarkMs":"x"'))

    assert verify(checkpoint).startable is False


def test_an_older_entry_with_a_value_that_cannot_be_read_only_cannot_be_restored_to(recorded: Recorded) -> None:
    checkpoint = recorded("4.3.0", "hdfs")
    old = newest(checkpoint) - 1
    pin(checkpoint, old, f"{STREAMING}.multipleWatermarkPolicy", "median")
    report = verify(checkpoint)

    assert (report.startable, old in report.restorable) == (True, False)
    assert told(report) == {f"CONF_REFUSED offsets/{old}": False}


@pytest.mark.parametrize(("shape", "needs"), [("hdfs", True), ("rocksdb1-changelog", True), ("rocksdb1", False)])
def test_a_codec_that_is_none_matters_where_state_is_compressed_with_it(
    recorded: Recorded, shape: str, *, needs: bool
) -> None:
    checkpoint = recorded("4.3.0", shape)
    pin(checkpoint, newest(checkpoint), f"{STREAMING}.stateStore.compression.codec", "lz5")

    assert verify(checkpoint).startable is not needs


# Logs


@pytest.mark.parametrize("release", ["3.4.4", "3.5.9", "4.0.5", "4.1.4", "4.3.0"])
def test_commits_without_any_offsets_are_no_fresh_start(recorded: Recorded, release: str) -> None:
    checkpoint = recorded("3.5.9", "stateless")
    shutil.rmtree(checkpoint / "offsets")

    assert verify(checkpoint, spark_version=release).startable is False


def test_input_that_was_read_without_any_log_is_no_fresh_start(recorded: Recorded) -> None:
    checkpoint = recorded("4.3.0", "stateless")
    for log in ("offsets", "commits"):
        shutil.rmtree(checkpoint / log)

    assert told(verify(checkpoint)) == {"OFFSETS_MISSING offsets": True}


def without(checkpoint: Path, *batches: int, logs: tuple[str, ...] = ("offsets", "commits")) -> Path:
    for log in logs:
        for batch in batches:
            for name in (str(batch), f".{batch}.crc"):
                (checkpoint / log / name).unlink(missing_ok=True)
    return checkpoint


def test_a_single_gap_below_the_newest_batch_may_be_a_lost_entry(recorded: Recorded) -> None:
    checkpoint = without(recorded("4.3.0", "stateless"), 3)
    report = verify(checkpoint)

    assert (report.startable, report.restorable) == (None, [0, 1, 2])
    assert told(report)["OFFSETS_SPARSE offsets"] is None


def test_several_gaps_are_asynchronous_tracking_and_that_has_no_state(recorded: Recorded) -> None:
    report = verify(without(recorded("4.3.0", "stateless"), 1, 3))

    assert (report.startable, told(report)) == (True, {"OFFSETS_SPARSE offsets": False})


def test_asynchronous_tracking_purges_each_log_by_itself(recorded: Recorded) -> None:
    checkpoint = without(recorded("4.3.0", "stateless"), 1, 3)
    report = verify(without(checkpoint, 0, 2, logs=("offsets",)))

    assert (report.startable, report.restorable) == (True, [4])


def test_asynchronous_tracking_without_an_older_entry_executes_all_input_again(recorded: Recorded) -> None:
    checkpoint = without(recorded("4.3.0", "stateless"), 1, 3)
    without(checkpoint, 0, 2, logs=("offsets",))
    report = verify(without(checkpoint, 4, logs=("commits",)))

    assert told(report)["OFFSETS_MISSING offsets"] is True


def test_the_oldest_entry_may_have_been_purged_down_to(recorded: Recorded) -> None:
    checkpoint = without(recorded("4.3.0", "stateless"), 0, 1, 2, 3)
    report = verify(checkpoint)

    assert (report.startable, told(report)["OFFSETS_MISSING offsets/3"]) == (None, None)


@pytest.mark.parametrize(("content", "code"), [(None, "SOURCE_LOG_MISSING"), (b"", "SOURCE_LOG_CORRUPT")])
def test_a_source_that_counts_from_its_beginning_needs_it(recorded: Recorded, content: bytes | None, code: str) -> None:
    """The rate source: with another beginning it makes other rows, or fails."""
    checkpoint = recorded("3.5.9", "stateless")
    for batch in range(newest(checkpoint) + 1):
        path = checkpoint / "offsets" / str(batch)
        rewrite(path, b"\n".join([*path.read_bytes().rstrip(b"\n").split(b"\n")[:-1], str(batch).encode()]))
    shutil.rmtree(checkpoint / "sources/0")
    rewrite(checkpoint / "sources/0/0", b"v1\n1700000000000")
    whole = verify(checkpoint).startable
    if content is None:
        (checkpoint / "sources/0/0").unlink()
    else:
        rewrite(checkpoint / "sources/0/0", content)

    assert (whole, told(verify(checkpoint)).get(f"{code} sources/0/0")) == (True, True)


# State above the committed batch


def above(checkpoint: Path, name: str, content: bytes, *, by: int = 1) -> str:
    """Write a state file of a version above the newest one; *name* is its suffix."""
    path = f"state/0/0/{newest(checkpoint) + 1 + by}.{name}"
    rewrite(checkpoint / path, content)
    return path


@pytest.mark.parametrize("release", ["3.4.4", "4.0.5", "4.3.0"])
@pytest.mark.parametrize("content", [b"", b"cut"])
def test_a_delta_above_is_written_over(recorded: Recorded, release: str, content: bytes) -> None:
    checkpoint = recorded("3.3.4", "hdfs")
    path = above(checkpoint, "delta", content)
    report = verify(checkpoint, spark_version=release)

    assert (report.startable, told(report)) == (True, {f"STATE_STALE {path}": False})


def test_a_snapshot_above_is_loaded_by_a_later_start(recorded: Recorded) -> None:
    checkpoint = recorded("4.3.0", "hdfs")
    path = above(checkpoint, "snapshot", (checkpoint / "state/0/0/1.delta").read_bytes())

    assert told(verify(checkpoint)) == {f"STATE_STALE {path}": True}


@pytest.mark.parametrize(("release", "blocks"), [("3.4.4", True), ("4.1.4", True), ("4.2.0", False), ("4.3.0", False)])
def test_a_snapshot_above_that_is_cut_is_passed_over_by_a_release_that_falls_back(
    recorded: Recorded, release: str, *, blocks: bool
) -> None:
    checkpoint = recorded("4.3.0", "hdfs")
    whole = (checkpoint / "state/0/0/1.delta").read_bytes()
    path = above(checkpoint, "snapshot", whole[: len(whole) // 2])

    assert told(verify(checkpoint, spark_version=release)) == {f"STATE_STALE {path}": blocks}


@pytest.mark.parametrize(("shape", "blocks"), [("rocksdb1", False), ("rocksdb1-changelog", True)])
def test_a_zip_above_is_loaded_where_changelogs_are_used(recorded: Recorded, shape: str, *, blocks: bool) -> None:
    checkpoint = recorded("4.0.5", shape)
    (older,) = [path for path in sorted((checkpoint / "state/0/0").glob("*.zip")) if path.name[0] != "."][:1]
    path = above(checkpoint, "zip", older.read_bytes())

    assert told(verify(checkpoint, spark_version="4.0.5")) == {f"STATE_STALE {path}": blocks}


def test_a_changelog_above_is_written_over(recorded: Recorded) -> None:
    checkpoint = recorded("4.0.5", "rocksdb1-changelog")
    path = above(checkpoint, "changelog", b"cut")

    assert told(verify(checkpoint, spark_version="4.0.5")) == {f"STATE_STALE {path}": False}


@pytest.mark.parametrize(
    ("release", "by", "blocks"), [("3.4.4", 1, False), ("3.4.4", 500, True), ("3.5.9", 500, False)]
)
def test_before_3_5_a_zip_far_above_has_the_state_of_the_query_purged(
    recorded: Recorded, release: str, by: int, *, blocks: bool
) -> None:
    checkpoint = recorded("3.3.4", "rocksdb1")
    path = above(checkpoint, "zip", (checkpoint / "state/0/0/1.zip").read_bytes(), by=by)

    assert told(verify(checkpoint, spark_version=release)) == {f"STATE_STALE {path}": blocks}


@pytest.mark.parametrize(("kind", "release", "blocks"), [("snapshot", "3.5.9", True), ("delta", "3.5.9", False)])
def test_what_the_batch_in_flight_left_is_told_when_it_is_bad(
    recorded: Recorded, kind: str, release: str, *, blocks: bool
) -> None:
    checkpoint = recorded("3.5.9", "hdfs")
    without(checkpoint, newest(checkpoint), logs=("commits",))
    path = above(checkpoint, kind, b"", by=0)
    report = verify(checkpoint, spark_version=release)

    assert told(report)[f"STATE_CORRUPT {path}"] is blocks
    assert report.startable is not blocks


# Operators


def test_one_store_of_a_join_says_that_there_are_four(recorded: Recorded) -> None:
    """Before 4.0 nothing else does."""
    checkpoint = recorded("3.3.4", "hdfs")
    for partition in (path for path in (checkpoint / "state/0").iterdir() if path.name.isdigit()):
        found = [path for path in partition.iterdir() if path.is_file()]
        for store in JOIN_STORES:
            (partition / store).mkdir()
            for path in found:
                shutil.copy(path, partition / store)
        for path in found:
            path.unlink()
    whole = verify(checkpoint, spark_version="3.4.4").startable
    for partition in (path for path in (checkpoint / "state/0").iterdir() if path.name.isdigit()):
        shutil.rmtree(partition / JOIN_STORES[0])

    assert (whole, verify(checkpoint, spark_version="3.4.4").startable) == (True, False)


def test_an_operator_whose_directory_is_empty_may_have_lost_its_state(recorded: Recorded) -> None:
    """Spark starts where the query never had it, and fails where it had."""
    checkpoint = recorded("4.3.0", "hdfs")
    (checkpoint / "state/1").mkdir()
    report = verify(checkpoint)

    assert (report.startable, report.restorable, told(report)) == (None, [], {"STATE_UNKNOWN state/1": None})
    assert report.provable == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("content", [b"", b"v1\n{", None])
def test_metadata_of_an_operator_that_spark_passes_over_is_told(recorded: Recorded, content: bytes | None) -> None:
    checkpoint = recorded("4.3.0", "hdfs")
    path = checkpoint / "state/0/_metadata/metadata"
    if content is None:
        path.unlink()
    else:
        rewrite(path, content)
    report = verify(checkpoint)

    assert (report.startable, told(report)) == (True, {"STATE_METADATA_CORRUPT state/0/_metadata/metadata": False})


def test_metadata_and_schema_that_are_both_gone_leave_the_layout_open(recorded: Recorded) -> None:
    checkpoint = recorded("4.3.0", "hdfs")
    shutil.rmtree(checkpoint / "state/0/_metadata")
    shutil.rmtree(checkpoint / "state/0/0/_metadata")

    assert verify(checkpoint).startable is None


def in_layout_2(checkpoint: Path, *, operator: str = "symmetricHashJoin") -> Path:
    """Give an operator the metadata and the schema of version 3 that Spark 4.3.0 recorded of a join."""
    shutil.rmtree(checkpoint / "state/0/_metadata")
    metadata = (OPERATOR / "metadata").read_bytes().replace(b"symmetricHashJoin", operator.encode())
    rewrite(checkpoint / "state/0/_metadata/v2/0", metadata)
    rewrite(checkpoint / "state/0/_stateSchema/default/0_schema", (OPERATOR / "schema").read_bytes())
    return checkpoint


def test_the_layout_whose_metadata_names_schemas_is_sound(recorded: Recorded) -> None:
    report = verify(in_layout_2(recorded("4.3.0", "rocksdb1")))

    assert (report.startable, report.restorable, report.findings) == (True, [0, 1, 2, 3, 4], ())


def test_the_layout_whose_metadata_names_schemas_does_not_start_without_it(recorded: Recorded) -> None:
    checkpoint = in_layout_2(recorded("4.3.0", "rocksdb1"))
    shutil.rmtree(checkpoint / "state/0/_metadata")
    report = verify(checkpoint)

    assert (report.startable, report.restorable) == (False, [])


@pytest.mark.parametrize(("operator", "blocks"), [("symmetricHashJoin", False), ("transformWithStateExec", True)])
def test_a_schema_that_is_gone_is_written_again_by_a_join_only(
    recorded: Recorded, operator: str, *, blocks: bool
) -> None:
    checkpoint = in_layout_2(recorded("4.3.0", "rocksdb1"), operator=operator)
    (checkpoint / "state/0/_stateSchema/default/0_schema").unlink()

    assert told(verify(checkpoint)) == {"STATE_METADATA_CORRUPT state/0/_stateSchema/default/0_schema": blocks}


@pytest.mark.parametrize("length", [0, 4, 300])
def test_a_schema_that_is_cut_is_refused(recorded: Recorded, length: int) -> None:
    checkpoint = in_layout_2(recorded("4.3.0", "rocksdb1"))
    path = checkpoint / "state/0/_stateSchema/default/0_schema"
    rewrite(path, path.read_bytes()[:length])

    assert verify(checkpoint).startable is False


# What no file tells


def test_a_state_directory_that_was_removed_leaves_the_answer_open(recorded: Recorded) -> None:
    checkpoint = recorded("4.3.0", "hdfs")
    shutil.rmtree(checkpoint / "state")
    later(checkpoint)
    report = verify(checkpoint)

    assert (report.startable, report.restorable, told(report)) == (None, [], {"STATE_UNKNOWN state": None})


def test_a_state_directory_that_changed_after_its_last_state_leaves_the_answer_open(recorded: Recorded) -> None:
    checkpoint = recorded("4.3.0", "hdfs")
    sound = verify(checkpoint).startable
    later(checkpoint / "state")
    report = verify(checkpoint)

    assert (sound, report.startable, report.restorable) == (True, None, [])
    assert told(report) == {"STATE_UNKNOWN state": None}


def test_the_ids_of_a_commit_name_every_operator(recorded: Recorded) -> None:
    checkpoint = recorded("4.3.0", "rocksdb2")
    later(checkpoint / "state")

    assert verify(checkpoint).startable is True


def later(directory: Path) -> None:
    """Let a directory have changed after all that is in it."""
    changed = max(path.stat().st_mtime_ns for path in [directory, *directory.rglob("*")]) + 1
    os.utime(directory, ns=(changed, changed))


# Content


@pytest.mark.parametrize(("release", "startable"), [("4.0.5", True), ("4.1.4", False), ("4.3.0", False)])
def test_a_zip_of_4_0_with_checkpoint_format_2_is_read_by_4_0_only(
    recorded: Recorded, release: str, *, startable: bool
) -> None:
    checkpoint = recorded("4.0.5", "rocksdb2")
    for path in [path for path in checkpoint.glob("state/0/*/*.zip") if path.name[0] != "."]:
        with zipfile.ZipFile(path) as old:
            members = {name: old.read(name) for name in old.namelist()}
        members["metadata"] = members["metadata"].replace(b"v1\n", b"v2\n", 1)
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
            for name, content in members.items():
                new.writestr(name, content)

    assert verify(checkpoint, spark_version=release).startable is startable


def test_a_row_that_changed_is_told_by_the_hidden_checksum_where_the_codec_has_none(recorded: Recorded) -> None:
    checkpoint = recorded("3.5.9", "hdfs")
    path = checkpoint / f"state/0/0/{newest(checkpoint) + 1}.delta"
    rewrite(path, zstandard.compress(pairs((b"key!" * 4, b"row!" * 4)) + END))
    whole = verify(checkpoint, spark_version="3.5.9").startable
    hidden = (path.parent / ".1.delta.crc").read_bytes()
    (path.parent / f".{path.name}.crc").write_bytes(hidden[:12])

    assert (whole, verify(checkpoint, spark_version="3.5.9").startable) == (True, False)
