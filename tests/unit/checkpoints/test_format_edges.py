"""The edges of the formats: what stands behind an end, names at their limit, and files that are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.spark import files, state_records
from airflow_provider_ha.checkpoints.spark.closure import StateReader
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.rocksdb import ZipCorruptError, read_members
from airflow_provider_ha.checkpoints.spark.sst_block import BlockHandle, index_entries
from airflow_provider_ha.checkpoints.spark.state_store import StateStore
from tests.support.checkpoints.state_files import END, pairs, zip_stream


CHANGELOG_2 = b"\0\2v2"
ITEM = (b"key", b"value")
# Four bytes of -1 and more of them: read as the length of a key, they would begin another record.
MORE = b"\xff" * 8


@pytest.mark.parametrize("kind", [0x01, 0x10, 0x11, 0x20, 0x21])
def test_a_changelog_may_hold_every_type_of_record(kind: int) -> None:
    content = CHANGELOG_2 + bytes([kind]) + pairs(ITEM) + b"\0"

    assert state_records.check_changelog([content]) == 1


def test_nothing_behind_the_terminator_is_a_record() -> None:
    assert state_records.check_map([pairs(ITEM) + END + MORE]) == 1


def test_the_blocks_of_an_index_may_become_smaller() -> None:
    # Shared and fresh bytes of the key, the fresh ones, then a handle, or the difference to the last size (zigzag).
    first, second = bytes([0, 1]) + b"a" + bytes([0, 100]), bytes([1, 1]) + b"b" + bytes([79])
    no_restarts = bytes(4)

    found = list(index_entries(first + second + no_restarts, first_keys=False))

    assert found == [BlockHandle(0, 100), BlockHandle(found[0].end, 60)]


@pytest.mark.parametrize(("length", "accepted"), [(255, True), (256, False)])
def test_a_member_has_a_name_that_a_file_system_takes(length: int, accepted: bool) -> None:
    data = b"".join(zip_stream({"n" * length: [b"content"]}))

    try:
        read_members([data], len(data), {})
    except ZipCorruptError:
        assert not accepted
    else:
        assert accepted


@pytest.mark.parametrize("stray", ["x.delta", "².delta", "1-2.delta"])
def test_a_name_that_is_no_number_is_no_version(stray: str, tmp_path: Path) -> None:
    store = StateStore(LocalTree(tmp_path), "state/0/0", frozenset({"1.delta", "2.delta", stray}))

    assert store.unbroken_from("delta", 2) == 1


@pytest.mark.parametrize(("there", "missing"), [("2_x.zip", "3_y.zip"), ("2_x.changelog", "3_y.changelog")])
def test_the_file_that_is_missing_is_named_as_its_neighbours_are(there: str, missing: str, tmp_path: Path) -> None:
    (tmp_path / "state/0/0").mkdir(parents=True)
    (tmp_path / "state/0/0" / there).touch()

    with pytest.raises(files.FileGoneError, match=rf"state/0/0/{missing}"):
        StateReader(LocalTree(tmp_path))._by_id("state/0/0", 3, "y")


def test_a_place_that_cannot_be_looked_at_is_neither_there_nor_absent(tmp_path: Path) -> None:
    no_file_system_has_such_a_name = "x" * 300

    with pytest.raises(files.UnreadableError):
        (LocalTree(tmp_path) / no_file_system_has_such_a_name).is_directory()
