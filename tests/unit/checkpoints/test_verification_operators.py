"""In which partitions an operator must have state: an operator without keys has it in the first one only.

What Spark does when a part of an operator, or all of it, is gone, rule by rule.

What Spark does with state above the committed batch, and with what state files hold, rule by rule.
"""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from pathlib import Path

import pytest
import zstandard

from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.state_content import OF_A_JVM_OF_FORMAT_1
from airflow_provider_ha.checkpoints.verify.verification import verify
from tests.support.checkpoints.recorded_damage import Recorded, newest, rewrite, told, without
from tests.support.checkpoints.state_files import END, pairs


PARTITIONS = 3
KEYED = b'\x00\x02v2{"type":"struct","fields":[{"name":"key","type":"string"}]}{"type":"struct","fields":[]}'
GLOBAL = b'\x00\x02v2{"type":"struct","fields":[]}{"type":"struct","fields":[{"name":"count","type":"long"}]}'
NULL_KEY = b'\x00\x02v2{"type":"struct","fields":[{"name":"key","type":"void"}]}{"type":"struct","fields":[]}'


def write_state(directory: Path, *, found: int, schema: bytes | None = None, operator: str | None = None) -> Path:
    """Write a checkpoint with one committed batch of a query with one operator, as Spark lays it out.

    :param found: How many partitions have state.
    :param schema: Written by 3.1 and later.
    :param operator: Name in the operator's metadata, written by 4.0 and later.
    """
    for log in ("offsets", "commits"):
        (directory / log).mkdir(parents=True)
    (directory / "metadata").write_text('{"id":"8c0b2ae1-7f3d-4c8e-9d0a-5f1e2d3c4b5a"}')
    conf = {"spark.sql.shuffle.partitions": str(PARTITIONS)}
    (directory / "offsets" / "0").write_text(f"v1\n{json.dumps({'conf': conf})}\n0")
    (directory / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')
    for partition in range(found):
        store = directory / "state" / "0" / str(partition)
        store.mkdir(parents=True)
        (store / "1.delta").write_bytes(b"not looked into at this depth")
    if schema is not None:
        place = directory / "state" / "0" / "0" / "_metadata"
        place.mkdir()
        (place / "schema").write_bytes(schema)
    if operator is not None:
        store_info = [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": PARTITIONS}]
        info = {"operatorInfo": {"operatorId": 0, "operatorName": operator}, "stateStoreInfo": store_info}
        place = directory / "state" / "0" / "_metadata"
        place.mkdir()
        (place / "metadata").write_text(f"v1\n{json.dumps(info)}")
    return directory


@pytest.mark.parametrize(
    ("schema", "operator"),
    [(GLOBAL, "stateStoreSave"), (NULL_KEY, "globalLimit"), (GLOBAL, None), (None, "globalLimit"), (None, None)],
    ids=["aggregation", "limit", "aggregation before 4.0", "limit without schema", "before 3.1"],
)
def test_an_operator_without_keys_needs_the_first_partition_only(
    schema: bytes | None, operator: str | None, tmp_path: Path
) -> None:
    report = verify(LocalTree(write_state(tmp_path / "c", found=1, schema=schema, operator=operator)), depth="quick")

    assert (report.startable, report.restorable, report.findings) == (True, [0], ())


@pytest.mark.parametrize(
    ("found", "schema", "operator"),
    [(1, KEYED, "stateStoreSave"), (1, KEYED, None), (1, None, "stateStoreSave"), (2, None, None)],
    ids=["with keys", "with keys before 4.0", "schema lost", "before 3.1"],
)
def test_a_partition_of_an_operator_with_keys_is_missed(
    found: int, schema: bytes | None, operator: str | None, tmp_path: Path
) -> None:
    report = verify(
        LocalTree(write_state(tmp_path / "c", found=found, schema=schema, operator=operator)), depth="quick"
    )

    missing = [f"state/0/{partition}/1.delta" for partition in range(found, PARTITIONS)]
    assert report.startable is False
    assert [finding.path for finding in report.findings] == missing
    assert [reason.path for reason in report.batches[0].reasons] == missing


def test_all_partitions_are_enough(tmp_path: Path) -> None:
    report = verify(
        LocalTree(write_state(tmp_path / "c", found=PARTITIONS, schema=KEYED, operator="dedupe")), depth="quick"
    )

    assert (report.startable, report.findings) == (True, ())


OPERATOR = Path(__file__).resolve().parents[2] / "data" / "operator-v2"
JOIN_STORES = ("left-keyToNumValues", "left-keyWithIndexToValue", "right-keyToNumValues", "right-keyWithIndexToValue")


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
    whole = verify(LocalTree(checkpoint), spark_version="3.4.4").startable
    for partition in (path for path in (checkpoint / "state/0").iterdir() if path.name.isdigit()):
        shutil.rmtree(partition / JOIN_STORES[0])

    assert (whole, verify(LocalTree(checkpoint), spark_version="3.4.4").startable) == (True, False)


def test_an_operator_whose_directory_is_empty_may_have_lost_its_state(recorded: Recorded) -> None:
    """Spark starts where the query never had it, and fails where it had."""
    checkpoint = recorded("4.3.0", "hdfs")
    (checkpoint / "state/1").mkdir()
    report = verify(LocalTree(checkpoint))

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
    report = verify(LocalTree(checkpoint))

    assert (report.startable, told(report)) == (True, {"STATE_METADATA_CORRUPT state/0/_metadata/metadata": False})


def test_metadata_and_schema_that_are_both_gone_leave_the_layout_open(recorded: Recorded) -> None:
    checkpoint = recorded("4.3.0", "hdfs")
    shutil.rmtree(checkpoint / "state/0/_metadata")
    shutil.rmtree(checkpoint / "state/0/0/_metadata")

    assert verify(LocalTree(checkpoint)).startable is None


def in_layout_2(checkpoint: Path, *, operator: str = "symmetricHashJoin") -> Path:
    """Give an operator the metadata and the schema of version 3 that Spark 4.3.0 recorded of a join."""
    shutil.rmtree(checkpoint / "state/0/_metadata")
    metadata = (OPERATOR / "metadata").read_bytes().replace(b"symmetricHashJoin", operator.encode())
    rewrite(checkpoint / "state/0/_metadata/v2/0", metadata)
    rewrite(checkpoint / "state/0/_stateSchema/default/0_schema", (OPERATOR / "schema").read_bytes())
    return checkpoint


def test_the_layout_whose_metadata_names_schemas_is_sound(recorded: Recorded) -> None:
    report = verify(LocalTree(in_layout_2(recorded("4.3.0", "rocksdb1"))))

    assert (report.startable, report.restorable, report.findings) == (True, [0, 1, 2, 3, 4], ())


def test_the_layout_whose_metadata_names_schemas_does_not_start_without_it(recorded: Recorded) -> None:
    checkpoint = in_layout_2(recorded("4.3.0", "rocksdb1"))
    shutil.rmtree(checkpoint / "state/0/_metadata")
    report = verify(LocalTree(checkpoint))

    assert (report.startable, report.restorable) == (False, [])


@pytest.mark.parametrize(("operator", "blocks"), [("symmetricHashJoin", False), ("transformWithStateExec", True)])
def test_a_schema_that_is_gone_is_written_again_by_a_join_only(
    recorded: Recorded, operator: str, *, blocks: bool
) -> None:
    checkpoint = in_layout_2(recorded("4.3.0", "rocksdb1"), operator=operator)
    (checkpoint / "state/0/_stateSchema/default/0_schema").unlink()

    assert told(verify(LocalTree(checkpoint))) == {
        "STATE_METADATA_CORRUPT state/0/_stateSchema/default/0_schema": blocks
    }


@pytest.mark.parametrize("length", [0, 4, 300, -1])
def test_a_schema_that_is_cut_is_refused(recorded: Recorded, length: int) -> None:
    checkpoint = in_layout_2(recorded("4.3.0", "rocksdb1"))
    path = checkpoint / "state/0/_stateSchema/default/0_schema"
    whole = verify(LocalTree(checkpoint)).startable
    rewrite(path, path.read_bytes()[:length])

    assert (whole, verify(LocalTree(checkpoint)).startable) == (True, False)


def test_a_state_directory_that_was_removed_leaves_the_answer_open(recorded: Recorded) -> None:
    checkpoint = recorded("4.3.0", "hdfs")
    shutil.rmtree(checkpoint / "state")
    later(checkpoint)
    report = verify(LocalTree(checkpoint))

    assert (report.startable, report.restorable, told(report)) == (None, [], {"STATE_UNKNOWN state": None})


def test_a_state_directory_that_was_removed_with_the_commits_leaves_the_answer_open(recorded: Recorded) -> None:
    checkpoint = recorded("4.3.0", "hdfs")
    shutil.rmtree(checkpoint / "state")
    for commit in (checkpoint / "commits").iterdir():
        commit.unlink()
    report = verify(LocalTree(checkpoint))

    assert (report.startable, told(report)["STATE_UNKNOWN state"]) == (None, None)


def test_a_state_directory_that_changed_after_its_last_state_leaves_the_answer_open(recorded: Recorded) -> None:
    checkpoint = recorded("4.3.0", "hdfs")
    sound = verify(LocalTree(checkpoint)).startable
    later(checkpoint / "state")
    report = verify(LocalTree(checkpoint))

    assert (sound, report.startable, report.restorable) == (True, None, [])
    assert told(report) == {"STATE_UNKNOWN state": None}


def test_the_ids_of_a_commit_name_every_operator(recorded: Recorded) -> None:
    checkpoint = recorded("4.3.0", "rocksdb2")
    later(checkpoint / "state")

    assert verify(LocalTree(checkpoint)).startable is True


def later(directory: Path) -> None:
    """Let a directory have changed after all that is in it."""
    changed = max(path.stat().st_mtime_ns for path in [directory, *directory.rglob("*")]) + 1
    os.utime(directory, ns=(changed, changed))


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
    report = verify(LocalTree(checkpoint), spark_version=release)

    assert (report.startable, told(report)) == (True, {f"STATE_STALE {path}": False})


def test_a_snapshot_above_is_loaded_by_a_later_start(recorded: Recorded) -> None:
    checkpoint = recorded("4.3.0", "hdfs")
    path = above(checkpoint, "snapshot", (checkpoint / "state/0/0/1.delta").read_bytes())

    assert told(verify(LocalTree(checkpoint))) == {f"STATE_STALE {path}": True}


@pytest.mark.parametrize(("release", "blocks"), [("3.4.4", True), ("4.1.4", True), ("4.2.0", False), ("4.3.0", False)])
def test_a_snapshot_above_that_is_cut_is_passed_over_by_a_release_that_falls_back(
    recorded: Recorded, release: str, *, blocks: bool
) -> None:
    checkpoint = recorded("4.3.0", "hdfs")
    whole = (checkpoint / "state/0/0/1.delta").read_bytes()
    path = above(checkpoint, "snapshot", whole[: len(whole) // 2])

    assert told(verify(LocalTree(checkpoint), spark_version=release)) == {f"STATE_STALE {path}": blocks}


@pytest.mark.parametrize(("shape", "blocks"), [("rocksdb1", False), ("rocksdb1-changelog", True)])
def test_a_zip_above_is_loaded_where_changelogs_are_used(recorded: Recorded, shape: str, *, blocks: bool) -> None:
    checkpoint = recorded("4.0.5", shape)
    (older,) = [path for path in sorted((checkpoint / "state/0/0").glob("*.zip")) if path.name[0] != "."][:1]
    path = above(checkpoint, "zip", older.read_bytes())

    assert told(verify(LocalTree(checkpoint), spark_version="4.0.5")) == {f"STATE_STALE {path}": blocks}


def test_a_changelog_above_is_written_over(recorded: Recorded) -> None:
    checkpoint = recorded("4.0.5", "rocksdb1-changelog")
    path = above(checkpoint, "changelog", b"cut")

    assert told(verify(LocalTree(checkpoint), spark_version="4.0.5")) == {f"STATE_STALE {path}": False}


@pytest.mark.parametrize(
    ("release", "by", "blocks"), [("3.4.4", 1, False), ("3.4.4", 500, True), ("3.5.9", 500, False)]
)
def test_before_3_5_a_zip_far_above_has_the_state_of_the_query_purged(
    recorded: Recorded, release: str, by: int, *, blocks: bool
) -> None:
    checkpoint = recorded("3.3.4", "rocksdb1")
    path = above(checkpoint, "zip", (checkpoint / "state/0/0/1.zip").read_bytes(), by=by)

    assert told(verify(LocalTree(checkpoint), spark_version=release)) == {f"STATE_STALE {path}": blocks}


@pytest.mark.parametrize(("kind", "release", "blocks"), [("snapshot", "3.5.9", True), ("delta", "3.5.9", False)])
def test_bad_files_of_the_batch_in_flight_are_reported(
    recorded: Recorded, kind: str, release: str, *, blocks: bool
) -> None:
    checkpoint = recorded("3.5.9", "hdfs")
    without(checkpoint, newest(checkpoint), logs=("commits",))
    path = above(checkpoint, kind, b"", by=0)
    report = verify(LocalTree(checkpoint), spark_version=release)

    assert told(report)[f"STATE_CORRUPT {path}"] is blocks
    assert report.startable is not blocks


@pytest.mark.parametrize(("release", "startable"), [("4.0.5", True), ("4.1.4", False), ("4.3.0", False)])
def test_a_zip_of_4_0_with_checkpoint_format_2_is_read_by_4_0_only(
    recorded: Recorded, release: str, *, startable: bool
) -> None:
    assert verify(LocalTree(recorded("4.0.5", "rocksdb2")), spark_version=release).startable is startable


@pytest.mark.parametrize(("release", "startable"), [("4.0.5", None), ("4.1.4", True), ("4.3.0", True)])
def test_a_zip_of_checkpoint_format_2_that_4_0_wrote_beside_format_1_is_read_by_all_others(
    recorded: Recorded, release: str, *, startable: bool | None
) -> None:
    checkpoint = recorded("4.0.5", "rocksdb2")
    for path in [path for path in checkpoint.glob("state/0/*/*.zip") if path.name[0] != "."]:
        with zipfile.ZipFile(path) as old:
            members = {name: old.read(name) for name in old.namelist()}
        members["metadata"] = members["metadata"].replace(b"v2\n", b"v1\n", 1)
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
            for name, content in members.items():
                new.writestr(name, content)

    report = verify(LocalTree(checkpoint), spark_version=release)

    assert report.startable is startable
    assert any(OF_A_JVM_OF_FORMAT_1 in finding.found for finding in report.findings) == (startable is None)


def test_a_changed_row_is_found_by_the_hidden_checksum_if_the_codec_has_none(recorded: Recorded) -> None:
    checkpoint = recorded("3.5.9", "hdfs")
    path = checkpoint / f"state/0/0/{newest(checkpoint) + 1}.delta"
    rewrite(path, zstandard.compress(pairs((b"key!" * 4, b"row!" * 4)) + END))
    whole = verify(LocalTree(checkpoint), spark_version="3.5.9").startable
    hidden = (path.parent / ".1.delta.crc").read_bytes()
    (path.parent / f".{path.name}.crc").write_bytes(hidden[:12])

    assert (whole, verify(LocalTree(checkpoint), spark_version="3.5.9").startable) == (True, False)
