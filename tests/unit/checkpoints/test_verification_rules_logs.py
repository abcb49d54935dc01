"""What Spark does with damage to its logs, rule by rule: each was seen by starting that release."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.verification import verify
from tests.support.checkpoints.portable_helpers import checkpoint as checkpoint_by_hand
from tests.support.checkpoints.recorded_damage import Recorded, newest, rewrite, told, without


STREAMING = "spark.sql.streaming"


def pin(checkpoint: Path, batch: int, key: str, value: object) -> None:
    path = checkpoint / "offsets" / str(batch)
    first, metadata, *rest = path.read_text().split("\n")
    document = json.loads(metadata)
    document["conf"][key] = value
    rewrite(path, "\n".join([first, json.dumps(document), *rest]).encode())


@pytest.mark.parametrize("query_id", ["not-a-uuid", "0123456789abcdef0123456789abcdef", "1-2-3-4-5"])
def test_a_query_id_that_is_no_uuid_is_no_query_id(recorded: Recorded, query_id: str) -> None:
    checkpoint = recorded("4.3.0", "hdfs")
    rewrite(checkpoint / "metadata", json.dumps({"id": query_id}).encode())
    report = verify(LocalTree(checkpoint))

    assert (report.startable, report.restorable) == (False, [])
    assert told(report)["METADATA_CORRUPT metadata"] is True


def test_data_after_the_query_id_is_reported_and_does_not_block(recorded: Recorded) -> None:
    checkpoint = recorded("4.3.0", "hdfs")
    rewrite(checkpoint / "metadata", (checkpoint / "metadata").read_bytes() + b"\ngarbage")
    report = verify(LocalTree(checkpoint))

    assert (report.startable, report.latest_restorable) == (True, newest(checkpoint))
    assert told(report) == {"METADATA_CORRUPT metadata": False}


@pytest.mark.parametrize(
    ("key", "value", "reads"),
    [
        ("spark.sql.shuffle.partitions", "two", {}),
        ("spark.sql.shuffle.partitions", "0", {}),
        ("spark.sql.shuffle.partitions", "2.0", {}),
        ("spark.sql.shuffle.partitions", None, {}),
        ("spark.sql.shuffle.partitions", {"a": 1}, {}),
        ("spark.sql.shuffle.partitions", " 2 ", {"3.2.4", "3.4.4", "4.0.5", "4.2.0", "4.3.0"}),
        (f"{STREAMING}.aggregation.stateFormatVersion", "9", {}),
        (f"{STREAMING}.join.stateFormatVersion", "3", {"4.2.0", "4.3.0"}),
        (f"{STREAMING}.join.stateFormatVersion", "5", {}),
        (f"{STREAMING}.multipleWatermarkPolicy", "median", {}),
        (f"{STREAMING}.multipleWatermarkPolicy", "MAX", {"3.2.4", "3.4.4", "4.0.5", "4.2.0", "4.3.0"}),
        (f"{STREAMING}.stateStore.rocksdb.formatVersion", "-1", {}),
        (f"{STREAMING}.statefulOperator.useStrictDistribution", "maybe", {}),
        ("spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan", "maybe", {"3.2.4", "3.4.4"}),
        (f"{STREAMING}.stateStore.encodingFormat", "foo", {"3.2.4", "3.4.4"}),
        (f"{STREAMING}.stateStore.rowChecksum.enabled", "maybe", {"3.2.4", "3.4.4", "4.0.5"}),
        ("spark.sql.ansi.enabled", "maybe", {"3.2.4", "3.4.4", "4.0.5", "4.2.0", "4.3.0"}),
    ],
)
def test_a_release_refuses_the_values_that_it_cannot_read_of_the_conf_that_it_pins(
    recorded: Recorded, key: str, value: object, reads: set[str]
) -> None:
    checkpoint = recorded("4.3.0", "stateless")
    pin(checkpoint, newest(checkpoint), key, value)
    startable = {
        release
        for release in ("3.2.4", "3.4.4", "4.0.5", "4.2.0", "4.3.0")
        if told(verify(LocalTree(checkpoint), spark_version=release)).get(f"CONF_REFUSED offsets/{newest(checkpoint)}")
        is None
    }

    assert startable == set(reads)


def test_a_time_that_is_no_number_is_refused(recorded: Recorded) -> None:
    checkpoint = recorded("4.3.0", "hdfs")
    path = checkpoint / "offsets" / str(newest(checkpoint))
    rewrite(path, path.read_bytes().replace(b'"batchWatermarkMs":0', b'"batchWatermarkMs":"x"'))

    assert verify(LocalTree(checkpoint)).startable is False


def test_an_older_entry_with_a_value_that_cannot_be_read_only_cannot_be_restored_to(recorded: Recorded) -> None:
    checkpoint = recorded("4.3.0", "hdfs")
    old = newest(checkpoint) - 1
    pin(checkpoint, old, f"{STREAMING}.multipleWatermarkPolicy", "median")
    report = verify(LocalTree(checkpoint))

    assert (report.startable, old in report.restorable) == (True, False)
    assert told(report) == {f"CONF_REFUSED offsets/{old}": False}


@pytest.mark.parametrize(("shape", "needs"), [("hdfs", True), ("rocksdb1-changelog", True), ("rocksdb1", False)])
def test_a_codec_that_is_none_matters_where_state_is_compressed_with_it(
    recorded: Recorded, shape: str, *, needs: bool
) -> None:
    checkpoint = recorded("4.3.0", shape)
    pin(checkpoint, newest(checkpoint), f"{STREAMING}.stateStore.compression.codec", "lz5")

    assert verify(LocalTree(checkpoint)).startable is not needs


@pytest.mark.parametrize("release", ["3.4.4", "3.5.9", "4.0.5", "4.1.4", "4.3.0"])
def test_commits_without_any_offsets_are_no_fresh_start(recorded: Recorded, release: str) -> None:
    checkpoint = recorded("3.5.9", "stateless")
    shutil.rmtree(checkpoint / "offsets")

    assert verify(LocalTree(checkpoint), spark_version=release).startable is False


def test_input_that_was_read_without_any_log_is_no_fresh_start(recorded: Recorded) -> None:
    checkpoint = recorded("4.3.0", "stateless")
    for log in ("offsets", "commits"):
        shutil.rmtree(checkpoint / log)

    assert told(verify(LocalTree(checkpoint))) == {"OFFSETS_MISSING offsets": True}


def test_a_single_gap_below_the_newest_batch_may_be_a_lost_entry(recorded: Recorded) -> None:
    checkpoint = without(recorded("4.3.0", "stateless"), 3)
    report = verify(LocalTree(checkpoint))

    assert (report.startable, report.restorable) == (None, [0, 1, 2])
    assert told(report)["OFFSETS_SPARSE offsets"] is None


def test_several_gaps_are_asynchronous_tracking_and_that_has_no_state(recorded: Recorded) -> None:
    report = verify(LocalTree(without(recorded("4.3.0", "stateless"), 1, 3)))

    assert (report.startable, told(report)) == (True, {"OFFSETS_SPARSE offsets": False})


def test_asynchronous_tracking_purges_each_log_by_itself(recorded: Recorded) -> None:
    checkpoint = without(recorded("4.3.0", "stateless"), 1, 3)
    report = verify(LocalTree(without(checkpoint, 0, 2, logs=("offsets",))))

    assert (report.startable, report.restorable) == (True, [4])


def test_asynchronous_tracking_without_an_older_entry_executes_all_input_again(recorded: Recorded) -> None:
    checkpoint = without(recorded("4.3.0", "stateless"), 1, 3)
    without(checkpoint, 0, 2, logs=("offsets",))
    report = verify(LocalTree(without(checkpoint, 4, logs=("commits",))))

    assert told(report)["OFFSETS_MISSING offsets"] is True


def test_the_oldest_entry_may_have_been_purged_down_to(recorded: Recorded) -> None:
    checkpoint = without(recorded("4.3.0", "stateless"), 0, 1, 2, 3)
    report = verify(LocalTree(checkpoint))

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
    whole = verify(LocalTree(checkpoint)).startable
    if content is None:
        (checkpoint / "sources/0/0").unlink()
    else:
        rewrite(checkpoint / "sources/0/0", content)

    assert (whole, told(verify(LocalTree(checkpoint))).get(f"{code} sources/0/0")) == (True, True)


@pytest.mark.parametrize(("back", "startable"), [(0, False), (1, False), (2, True)])
def test_an_entry_without_its_only_source_counts_where_spark_reads_it(
    recorded: Recorded, back: int, startable: bool
) -> None:
    """Seen on 4.2.0: "There are [0] sources in the checkpoint offsets", of the newest entry and of the one before."""
    checkpoint = recorded("4.3.0", "hdfs")
    path = checkpoint / "offsets" / str(newest(checkpoint) - back)
    rewrite(path, "\n".join(path.read_text().split("\n")[:-1]).encode())

    assert verify(LocalTree(checkpoint), spark_version="4.2.0").startable is startable


@pytest.mark.parametrize("back", [0, 1])
def test_an_entry_that_lost_a_source_keeps_spark_from_starting(tmp_path: Path, back: int) -> None:
    """Seen on 4.2.0: "There are [1] sources in the checkpoint offsets and now there are [2]"."""
    directory = checkpoint_by_hand(tmp_path / "q", range(4))
    for path in (directory / "offsets").iterdir():
        path.write_text(path.read_text() + "\n" + path.read_text().split("\n")[-1])
    whole = verify(LocalTree(directory), spark_version="4.2.0")
    cut = directory / "offsets" / str(3 - back)
    cut.write_text("\n".join(cut.read_text().split("\n")[:-1]))
    report = verify(LocalTree(directory), spark_version="4.2.0")

    assert (whole.startable, report.startable) == (True, False)
    assert told(report)[f"OFFSETS_CORRUPT offsets/{3 - back}"] is True
    assert 3 not in report.restorable


def test_whether_a_query_without_state_starts_without_its_commits_is_unknown(recorded: Recorded) -> None:
    """Spark 3.5 to 4.2 execute the newest planned batch again; a query that lost its state as well fails."""
    checkpoint = recorded("4.3.0", "stateless")
    shutil.rmtree(checkpoint / "commits")

    report = verify(LocalTree(checkpoint), spark_version="4.2.0")

    assert (report.startable, told(report)["STATE_UNKNOWN state"]) == (None, None)
    assert told(report)[f"COMMITS_BEHIND commits/{newest(checkpoint) - 1}"] is False
