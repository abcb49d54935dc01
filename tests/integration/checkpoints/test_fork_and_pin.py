"""Forks, pins, records and drains of a directory that Spark really made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.drain import MAXIMUM_WATERMARK, write_drain_entry
from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea, fork
from airflow_provider_ha.checkpoints.areas.pins import pin, sink_directory
from airflow_provider_ha.checkpoints.areas.source_logs import compact_sources, write_sources
from airflow_provider_ha.checkpoints.areas.working_records import (
    put_offsets,
    read_entry,
    record,
)
from airflow_provider_ha.checkpoints.restore.plan_execution import prepare_recovery
from airflow_provider_ha.checkpoints.sinks.file_sink_log import FileSinkLog, sink_log
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import Progress, progress
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.metadata_log import CompactibleLog, read_offsets
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.errors import CheckpointCorruptError, CheckpointMissingError, ObjectExistsError
from tests.support.spark.recorded_job import QUERY, copy_output


LAST = 13
# The cached job is made by Spark when it is not there yet.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def stats(live: Path) -> Path:
    return live / QUERY


def content(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def uncommit(directory: Path, batch: int) -> None:
    (directory / "commits" / str(batch)).unlink()


def source_names(directory: Path) -> list[str]:
    return sorted(CompactibleLog(LocalTree(directory), "sources/0").entries.values())


def test_a_fork_holds_the_closure_of_its_batch_by_links(stats: Path, tmp_path: Path) -> None:
    count = fork(stats, tmp_path / "fork", batch=8, keep_planned=False)

    forked = tmp_path / "fork"
    assert progress(LocalTree(forked)) == Progress(8, 8)
    assert source_names(forked) == ["3.compact", "7.compact", "8"]
    assert 8 in verify(LocalTree(forked), depth="full", spark_version="4.2.0").restorable
    assert (forked / "offsets" / "8").samefile(stats / "offsets" / "8")
    assert count == len(content(forked))


def test_a_fork_keeps_the_planned_batch_only_when_it_is_told_to(stats: Path, tmp_path: Path) -> None:
    uncommit(stats, LAST)

    fork(stats, tmp_path / "with", keep_planned=True)
    fork(stats, tmp_path / "without", keep_planned=False)

    assert progress(LocalTree(tmp_path / "with")) == Progress(LAST, LAST - 1)
    assert progress(LocalTree(tmp_path / "without")) == Progress(LAST - 1, LAST - 1)


def die_in(directory: Path, batch: int) -> None:
    """Leave the directory as a kill in the middle of *batch* leaves it: planned, with its source entry, no commit."""
    for log, first in (("offsets", batch + 1), ("commits", batch), ("sources/0", batch + 1)):
        for path in (directory / log).iterdir():
            number = path.name.strip(".").split(".")[0]
            if number.isdigit() and int(number) >= first:
                path.unlink()
    assert progress(LocalTree(directory)) == Progress(batch, batch - 1)


def test_a_checkpoint_can_be_taken_before_the_batch_that_compacts_a_source_log_is_committed_again(
    live: Path, stats: Path, tmp_path: Path
) -> None:
    die_in(stats, 11)

    prepare_recovery(LinkedWorkArea(tmp_path), "live", "e2")
    pin(tmp_path / "e2", tmp_path / "pin", {QUERY: 10})

    assert source_names(tmp_path / "e2" / QUERY) == ["10", "11.compact", "3.compact", "7.compact", "8", "9"]
    assert source_names(tmp_path / "pin" / QUERY) == ["10", "3.compact", "7.compact", "8", "9"]
    assert 10 in verify(LocalTree(tmp_path / "pin" / QUERY), depth="full", spark_version="4.2.0").restorable


def test_the_error_for_compacted_entries_names_the_commit_after_which_they_are_available(
    live: Path, stats: Path, tmp_path: Path
) -> None:
    die_in(stats, 11)
    for name in ("7.compact", "8", "9", "10"):
        (stats / "sources" / "0" / name).unlink()

    prepare_recovery(LinkedWorkArea(tmp_path), "live", "e2")

    assert progress(LocalTree(tmp_path / "e2" / QUERY)) == Progress(11, 10)
    with pytest.raises(CheckpointCorruptError, match=r"serves once the batch that wrote 11\.compact is committed"):
        pin(tmp_path / "e2", tmp_path / "pin", {QUERY: 10})


def test_a_fork_that_fails_leaves_nothing(stats: Path, tmp_path: Path) -> None:
    (stats / "offsets" / "7").write_bytes(b"")

    with pytest.raises(CheckpointCorruptError, match="offsets/7"):
        fork(stats, tmp_path / "forks" / "fork", batch=8, keep_planned=False)

    assert list((tmp_path / "forks").glob("*")) == []


def test_a_fork_does_not_replace_a_directory(stats: Path, tmp_path: Path) -> None:
    (tmp_path / "fork").mkdir()

    with pytest.raises(ObjectExistsError):
        fork(stats, tmp_path / "fork", keep_planned=False)


def test_absolute_schema_paths_follow_the_fork_and_not_the_source(stats: Path, tmp_path: Path) -> None:
    place = stats / "state" / "0" / "_metadata" / "v2"
    place.mkdir(parents=True, exist_ok=True)
    old = f"file:{stats}/state/0/_stateSchema/default/0_abc"
    store = {"storeName": "default", "numPartitions": 2, "stateSchemaFilePaths": [old]}
    (place / "0").write_text("v2\n" + json.dumps({"stateStoreInfo": [store]}))

    fork(stats, tmp_path / "fork", batch=8, keep_planned=False)

    moved = (tmp_path / "fork" / "state" / "0" / "_metadata" / "v2" / "0").read_text()
    assert f"file:{tmp_path}/fork/state/0/_stateSchema/default/0_abc" in moved
    assert old in (place / "0").read_text()


def own_lines(log: CompactibleLog, entry: int) -> list[str]:
    """Lines of an entry without those that a compact one repeats; a line without ``batchId`` belongs to its entry."""
    return [line for line in log.lines(entry) if json.loads(line).get("batchId", entry) == entry]


def test_records_rebuild_the_source_log_that_spark_wrote(stats: Path, tmp_path: Path) -> None:
    entries = record(LocalTree(stats), after=8)
    forked = tmp_path / "fork"
    fork(stats, forked, batch=8, keep_planned=False)
    before = content(stats)

    write_sources(LocalTree(forked), entries)

    assert source_names(forked) == ["10", "11", "12", "3.compact", "7.compact", "8", "9"]
    rebuilt, original = (CompactibleLog(LocalTree(place), "sources/0") for place in (forked, stats))
    assert [own_lines(rebuilt, k) for k in range(8, 13)] == [own_lines(original, k) for k in range(8, 13)]
    assert content(stats) == before


def test_a_rebuilt_log_compacts_where_spark_looks_for_it(stats: Path, tmp_path: Path) -> None:
    fork(stats, tmp_path / "fork", batch=1, keep_planned=False)

    write_sources(LocalTree(tmp_path / "fork"), record(LocalTree(stats), after=1))
    compact_sources(LocalTree(tmp_path / "fork"), 4)

    assert source_names(tmp_path / "fork") == source_names(stats)
    compact = CompactibleLog(LocalTree(tmp_path / "fork"), "sources/0").lines(11)
    assert compact == CompactibleLog(LocalTree(stats), "sources/0").lines(11)


def test_a_missing_record_is_not_papered_over(stats: Path, tmp_path: Path) -> None:
    fork(stats, tmp_path / "fork", batch=8, keep_planned=False)

    with pytest.raises(CheckpointCorruptError, match="sources/0/9"):
        write_sources(LocalTree(tmp_path / "fork"), record(LocalTree(stats), after=9))


def test_a_damaged_entry_ends_the_record(stats: Path) -> None:
    (stats / "offsets" / "11").write_bytes(b"")

    assert [entry.batch for entry in record(LocalTree(stats), after=8)] == [9, 10]


def test_lines_that_only_a_compact_entry_repeats_are_found(stats: Path) -> None:
    entry = read_entry(LocalTree(stats), 10)
    (stats / "sources" / "0" / "10").unlink()

    assert read_entry(LocalTree(stats), 10) == entry


def test_a_recorded_batch_is_planned_aside_and_only_where_it_belongs(stats: Path, tmp_path: Path) -> None:
    entry = read_entry(LocalTree(stats), 9)
    forked = tmp_path / "fork"
    fork(stats, forked, batch=8, keep_planned=False)

    put_offsets(LocalTree(forked), entry)
    put_offsets(LocalTree(forked), entry)

    assert (forked / "offsets" / "9").read_bytes() == (stats / "offsets" / "9").read_bytes()
    with pytest.raises(CheckpointCorruptError, match="batch 11 cannot follow"):
        put_offsets(LocalTree(forked), read_entry(LocalTree(stats), 11))
    with pytest.raises(CheckpointCorruptError, match="boundaries differ"):
        put_offsets(LocalTree(forked), entry.model_copy(update={"offsets": "v1\n{}\nelse"}))


def test_a_drain_plans_one_batch_with_the_highest_watermark(stats: Path, tmp_path: Path) -> None:
    fork(stats, tmp_path / "drain", keep_planned=False)

    assert write_drain_entry(LocalTree(tmp_path / "drain")) == LAST + 1

    drained, last = read_offsets(LocalTree(tmp_path / "drain"), LAST + 1), read_offsets(LocalTree(stats), LAST)
    assert drained.metadata["batchWatermarkMs"] == MAXIMUM_WATERMARK
    assert (drained.offsets, drained.conf) == (last.offsets, last.conf)


def test_a_drain_refuses_a_batch_in_flight(stats: Path) -> None:
    uncommit(stats, LAST)

    with pytest.raises(CheckpointCorruptError, match="not sharp"):
        write_drain_entry(LocalTree(stats))


def test_a_pin_outlives_the_purge_with_the_sinks_log(live: Path, tmp_path: Path) -> None:
    out = copy_output(tmp_path / "out")
    files = pin(live, tmp_path / "pin", {QUERY: 9}, sinks={QUERY: sink_log(str(out))})
    for name in ("offsets/8", "offsets/9", "commits/9"):
        (live / QUERY / name).unlink()
    (out / "_spark_metadata" / "7.compact").unlink()

    assert 9 in verify(LocalTree(tmp_path / "pin" / QUERY), depth="full", spark_version="4.2.0").restorable
    kept = FileSinkLog(sink_directory(tmp_path / "pin", QUERY))
    assert kept.closure_names(9) == ["7.compact", "8", "9"]
    assert set(files[QUERY]) == set(content(tmp_path / "pin" / QUERY))


@pytest.mark.parametrize("gone", ["offsets/8", "commits/9"])
def test_a_purged_batch_asks_for_a_newer_cut(live: Path, tmp_path: Path, gone: str) -> None:
    (live / QUERY / gone).unlink()

    with pytest.raises(CheckpointMissingError):
        pin(live, tmp_path / "pin", {QUERY: 9})

    assert not (tmp_path / "pin").exists()


def test_a_lost_state_file_is_damage_and_not_a_purge(live: Path, tmp_path: Path) -> None:
    for path in (live / QUERY / "state" / "0" / "0").glob("10_*.zip"):
        path.unlink()

    with pytest.raises(CheckpointCorruptError, match="state/0/0/10_"):
        pin(live, tmp_path / "pin", {QUERY: 9})


def test_a_recovery_in_the_middle_of_a_replay_keeps_the_rest_of_the_source_log(stats: Path, tmp_path: Path) -> None:
    recorded = record(LocalTree(stats), after=8)
    fork(stats, tmp_path / "e2" / QUERY, batch=8, keep_planned=False)
    write_sources(LocalTree(tmp_path / "e2" / QUERY), recorded)
    put_offsets(LocalTree(tmp_path / "e2" / QUERY), recorded[0])

    forked = prepare_recovery(LinkedWorkArea(tmp_path), "e2", "e3", recorded={QUERY: recorded})

    assert forked == {QUERY: Progress(9, 8)}
    assert progress(LocalTree(tmp_path / "e3" / QUERY)) == Progress(9, 8)
    assert CompactibleLog(LocalTree(tmp_path / "e3" / QUERY), "sources/0").last() == 12
