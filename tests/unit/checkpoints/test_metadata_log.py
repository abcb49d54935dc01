"""The logs of a checkpoint: every format that Spark wrote, and every way in which an entry can be broken.

What Spark 2.1 to 2.4 left behind, written from the description of their formats: read, judged, damaged and found.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.spark.byte_stream import decode
from airflow_provider_ha.checkpoints.spark.files import FileGoneError
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.metadata_log import (
    CompactibleLog,
    parse_commits,
    parse_offsets,
    read_offsets,
)
from airflow_provider_ha.checkpoints.verify.verification import Depth, verify
from airflow_provider_ha.errors import CheckpointCorruptError, CheckpointMissingError
from tests.support.checkpoints.damage import remove
from tests.support.checkpoints.old_formats import BATCHES, RELEASES, damages_of, partition_of, write_checkpoint
from tests.support.checkpoints.state_files import END, lz4_stream, pairs
from tests.support.releases.damages import NothingToDamageError


def test_offsets_v1_are_positional() -> None:
    entry = parse_offsets(4, 'v1\n{"batchWatermarkMs":7,"conf":{"a":"b"}}\n{"logOffset":3}\n-')
    assert entry.offsets == ('{"logOffset":3}', None)
    assert entry.sources == ("0", "1")
    assert (entry.log_offset(0), entry.log_offset(1)) == (3, None)
    assert entry.conf == {"a": "b"}


def test_offsets_v2_name_their_sources_up_to_the_first_colon() -> None:
    entry = parse_offsets(0, 'v2\n{}\nclicks:{"logOffset":3}\nrate:17\n')
    assert entry.sources == ("clicks", "rate")
    assert entry.offsets == ('{"logOffset":3}', "17")


def test_offsets_of_spark_2_0_have_an_empty_metadata_line() -> None:
    assert parse_offsets(0, 'v1\n\n{"logOffset":0}').metadata == {}


@pytest.mark.parametrize(
    "text", ["", "v1", "v1\n{}", 'v1\n{"a"\n{}', "v1\n{}\n{", "v3\n{}\n{}", "1\n{}\n{}", "v2\n{}\n17"]
)
def test_a_broken_offsets_entry_is_refused_with_its_path(text: str) -> None:
    with pytest.raises(CheckpointCorruptError, match="offsets/4"):
        parse_offsets(4, text)


@pytest.mark.parametrize("text", ["v1\n{}", 'v1\n{"nextBatchWatermarkMs":1}', 'v1\n{"stateUniqueIds":{}}'])
def test_commits_of_format_1_have_no_state_ids(text: str) -> None:
    assert parse_commits(0, text).state_ids == {}


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_commits_of_format_2_name_the_state_by_operator_partition_and_store(version: str) -> None:
    entry = parse_commits(0, version + '\n{"stateUniqueIds":{"1":[["a","b"],["c","d"]]}}')
    assert entry.state_ids == {1: (("a", "b"), ("c", "d"))}


@pytest.mark.parametrize("text", ["", "v1", "v1\n", "v4\n{}", "v1\n[]", 'v2\n{"stateUniqueIds":{"x":[]}}'])
def test_a_broken_commits_entry_is_refused_with_its_path(text: str) -> None:
    with pytest.raises(CheckpointCorruptError, match="commits/2"):
        parse_commits(2, text)


def test_a_purged_entry_is_missing_and_not_corrupt(tmp_path: Path) -> None:
    with pytest.raises(CheckpointMissingError):
        read_offsets(LocalTree(tmp_path), 3)


def _log(directory: Path, names: dict[str, str]) -> CompactibleLog:
    for name, text in names.items():
        (directory / name).write_text(text)
    return CompactibleLog(LocalTree(directory.parent), directory.name)


def test_the_closure_of_a_log_begins_at_the_newest_compact_entry(tmp_path: Path) -> None:
    log = _log(tmp_path, dict.fromkeys(("0", "1", "2.compact", "3", "4", "5.compact", ".6.tmp", "6.crc"), "v1"))
    place = tmp_path.name
    assert log.closure(4) == [f"{place}/2.compact", f"{place}/3", f"{place}/4"]
    assert log.closure(5) == [f"{place}/5.compact"]
    assert log.last() == 5


def test_a_compact_entry_is_found_by_the_one_after_it(tmp_path: Path) -> None:
    log = _log(tmp_path, dict.fromkeys(("2.compact", "3", "4", "5.compact", "6", "8.compact"), "v1"))
    assert [log.before(entry) for entry in (8, 5, 2)] == [f"{tmp_path.name}/{k}.compact" for k in (5, 2)] + [None]


def test_a_hole_in_a_log_is_named(tmp_path: Path) -> None:
    log = _log(tmp_path, {"0": "v1", "2": "v1"})
    with pytest.raises(FileGoneError, match="/1"):
        log.closure(2)


each_release = pytest.mark.parametrize("release", RELEASES)


@each_release
@pytest.mark.parametrize("judged_as", ["itself", "3.5.9", "4.2.0", "4.3.0"])
@pytest.mark.parametrize("depth", ["quick", "full"])
def test_what_an_old_release_wrote_raises_no_alarm(depth: Depth, judged_as: str, release: str, tmp_path: Path) -> None:
    checkpoint = write_checkpoint(release, tmp_path)
    report = verify(LocalTree(checkpoint), depth=depth, spark_version=release if judged_as == "itself" else judged_as)
    assert (report.startable, report.findings) == (True, ())
    # Without a commit log it is started as it stands: no batch of it is known to be the last committed one.
    assert report.restorable == ([] if release == "2.1.3" else list(range(BATCHES)))


@each_release
def test_each_damage_is_found(release: str, tmp_path: Path) -> None:
    unseen, done = [], 0
    for damage in damages_of(release):
        if damage.code is None:
            continue
        checkpoint = write_checkpoint(release, tmp_path / damage.name)
        try:
            damage.apply(checkpoint)
        except NothingToDamageError:
            continue
        done += 1
        found = {finding.code.value for finding in verify(LocalTree(checkpoint), spark_version=release).findings}
        if damage.code not in found:
            unseen.append(f"{damage.name}: {sorted(found)} instead of {damage.code}")
    assert unseen == []
    assert done > 10


def test_a_partition_alone_is_all_there_is_only_where_nothing_has_a_key(tmp_path: Path) -> None:
    """Before 3.1 no schema says so: the keys do."""
    for name, keys, startable in (("none", b"", True), ("null", bytes([1, *[0] * 15]), True), ("k0", b"k0", False)):
        checkpoint = write_checkpoint("2.4.8", tmp_path / name)
        remove("state/0/1")(checkpoint)
        for path in (checkpoint / "state/0/0").glob("[1-5].delta"):
            path.write_bytes(lz4_stream(pairs((keys, b"row")) + END))
        assert verify(LocalTree(checkpoint), spark_version="2.4.8").startable is startable, name


def test_a_lost_commit_log_of_a_later_release_is_no_log_of_2_1(tmp_path: Path) -> None:
    checkpoint = write_checkpoint("2.2.3", tmp_path)
    for path in (checkpoint / "commits").iterdir():
        path.unlink()
    assert [finding.code.value for finding in verify(LocalTree(checkpoint)).findings] == ["COMMITS_BEHIND"]


def test_rows_and_partitions_are_those_that_spark_wrote(tmp_path: Path) -> None:
    """As Spark 3.3.4 recorded the same query: the keys of partition 0, and its first record after batch 0."""
    assert [key for key in ("k0", "k1", "k2", "k3") if partition_of(key) == 0] == ["k0", "k3"]
    delta = (write_checkpoint("2.4.8", tmp_path) / "state/0/0/1.delta").read_bytes()
    first_record = b"".join(decode([delta], len(delta)))[:48]
    assert first_record.hex() == (
        "00000018" "0000000000000000" "0200000010000000" "6b30000000000000"  # the key k0
        "00000010" "0000000000000000" "0200000000000000"  # it was counted twice
    )  # fmt: skip
