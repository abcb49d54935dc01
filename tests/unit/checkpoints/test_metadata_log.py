"""The logs of a checkpoint: every format that Spark wrote, and every way in which an entry can be broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.spark.files import FileGoneError
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.metadata_log import (
    CompactibleLog,
    parse_commits,
    parse_offsets,
    read_offsets,
)
from airflow_provider_ha.errors import CheckpointCorruptError, CheckpointMissingError


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


def test_a_hole_in_a_log_is_named(tmp_path: Path) -> None:
    log = _log(tmp_path, {"0": "v1", "2": "v1"})
    with pytest.raises(FileGoneError, match="/1"):
        log.closure(2)
