"""Verdicts on damaged copies of real checkpoints. That Spark agrees is the business of the test beside this one."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.api.documents.verification import BatchView, FindingView
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.errors import ConfigurationError
from tests.support.checkpoints.damage import (
    DAMAGES,
    Damage,
    cut_line,
    empty,
    halve,
    last_commit_lost,
    newest_sst,
    remove,
    replace,
    wrong_spark_crc,
)
from tests.support.spark.corpus import checkpoint_copy


# The first test makes the corpus, which takes half a minute of two idle cores.
pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.id)
def test_the_verdict_and_its_reason(damage: Damage, tmp_path: Path) -> None:
    copy = checkpoint_copy(damage.shape, tmp_path / "c")
    damage.apply(copy)
    report = verify(LocalTree(copy), spark_version="4.2.0")
    codes = {finding.code.value for finding in report.findings}
    assert report.startable is damage.startable, report.findings
    if damage.shape == "stateless":
        codes.discard("STATE_UNKNOWN")  # its logs do not tell that it keeps no state
    assert codes == set() if damage.code is None else damage.code in codes


def test_a_damaged_newest_batch_leaves_the_older_ones_restorable(tmp_path: Path) -> None:
    copy = checkpoint_copy("rocksdb2", tmp_path / "c")
    halve("state/0/0/9_*.zip")(copy)
    report = verify(LocalTree(copy))
    assert (report.startable, report.restorable) == (False, list(range(8)))
    assert report.latest_restorable == 7
    assert report.findings[0].batch == 8
    assert report.findings[0].path.startswith("state/0/0/9_")


def test_every_finding_has_the_expected_value_the_found_value_and_its_meaning(tmp_path: Path) -> None:
    copy = checkpoint_copy("hdfs", tmp_path / "c")
    remove("state/0/0/9.*")(copy)  # also a snapshot that Spark's maintenance may have made of it
    (finding,) = verify(LocalTree(copy)).findings
    assert FindingView.of(finding).to_json() == {
        "code": "STATE_MISSING",
        "path": "state/0/0/9.delta",
        "batch": 8,
        "expected": "a file of state version 9, which batch 8 wrote",
        "found": "state version 9 needs it, and it is not there",
        "message": "state version 9 needs it, and it is not there; "
        "expected: a file of state version 9, which batch 8 wrote",
        "blocks": True,
        "meaning": finding.meaning,
        "next_step": finding.next_step,
    }
    assert finding.meaning.startswith("Spark cannot start")
    assert "restorable" in finding.next_step


def test_a_harmless_finding_is_marked_as_such(tmp_path: Path) -> None:
    copy = checkpoint_copy("rocksdb2", tmp_path / "c")
    empty("offsets/3")(copy)
    (finding,) = verify(LocalTree(copy)).findings
    assert (finding.code.value, finding.blocks) == ("OFFSETS_CORRUPT", False)
    assert finding.meaning.startswith("It does not prevent a start of Spark")


def test_what_keeps_spark_from_starting_comes_first(tmp_path: Path) -> None:
    copy = checkpoint_copy("rocksdb2", tmp_path / "c")
    empty("offsets/3")(copy)
    remove("state/0/1/9_*.zip")(copy)
    assert [finding.blocks for finding in verify(LocalTree(copy)).findings] == [True, False]


def test_each_store_that_lacks_something_is_found(tmp_path: Path) -> None:
    copy = checkpoint_copy("hdfs", tmp_path / "c")
    remove("state/0/*/9.*")(copy)  # also a snapshot that Spark's maintenance may have made of it
    report = verify(LocalTree(copy))
    assert [finding.path for finding in report.findings] == ["state/0/0/9.delta", "state/0/1/9.delta"]
    assert [reason.path for reason in report.batches[8].reasons] == ["state/0/0/9.delta", "state/0/1/9.delta"]


def test_each_batch_lists_its_needed_and_missing_files(tmp_path: Path) -> None:
    copy = checkpoint_copy("rocksdb2", tmp_path / "c")
    remove("offsets/4")(copy)
    empty("commits/2")(copy)
    remove("commits/8")(copy)
    report = verify(LocalTree(copy))
    lacking = {verdict.batch: [(r.code.value, r.path) for r in verdict.reasons] for verdict in report.batches}
    assert lacking == {
        0: [], 1: [], 3: [], 6: [], 7: [],
        2: [("COMMITS_CORRUPT", "commits/2")],
        4: [("OFFSETS_MISSING", "offsets/4")],
        5: [("OFFSETS_MISSING", "offsets/4")],
        8: [("COMMITS_MISSING", "commits/8")],
    }  # fmt: skip
    assert report.restorable == [0, 1, 3, 6, 7]
    assert BatchView.of(report.batches[4]).to_json() == {
        "batch": 4,
        "restorable": False,
        "reasons": [{"code": "OFFSETS_MISSING", "path": "offsets/4", "found": "it is not there"}],
    }


def test_a_damaged_source_log_condemns_the_batches_that_need_its_entry_and_no_others(tmp_path: Path) -> None:
    copy = checkpoint_copy("hdfs", tmp_path / "c")
    cut_line("sources/0/7.compact")(copy)
    report = verify(LocalTree(copy))
    assert report.restorable == [0, 1, 2, 3, 4, 5, 6]
    assert [reason.path for reason in report.batches[7].reasons] == ["sources/0/7.compact"]


def test_a_bad_store_condemns_the_batches_that_need_it_and_no_others(tmp_path: Path) -> None:
    copy = checkpoint_copy("rocksdb2-join", tmp_path / "c")
    halve("state/0/1/left-keyToNumValues/2_*.zip")(copy)
    report = verify(LocalTree(copy))
    assert (report.startable, report.restorable) == (True, [0, 2])
    (reason,) = report.batches[1].reasons
    assert (reason.code.value, reason.path.startswith("state/0/1/left-keyToNumValues/2_")) == ("STATE_CORRUPT", True)


def test_a_hole_in_the_offsets_takes_both_batches_that_need_it(tmp_path: Path) -> None:
    copy = checkpoint_copy("rocksdb2", tmp_path / "c")
    remove("offsets/4")(copy)
    assert verify(LocalTree(copy)).restorable == [0, 1, 2, 3, 6, 7, 8]


def test_a_lost_delta_takes_every_batch_up_to_the_next_snapshot(tmp_path: Path) -> None:
    copy = checkpoint_copy("hdfs", tmp_path / "c")
    remove("state/0/0/6.delta")(copy)
    report = verify(LocalTree(copy))
    assert report.startable is True
    assert report.restorable == [0, 1, 2, 3, 4, 7, 8]


def test_only_the_full_depth_looks_into_the_files(tmp_path: Path) -> None:
    copy = checkpoint_copy("hdfs", tmp_path / "c")
    remove("state/0/0/9.snapshot")(copy)  # Spark's maintenance may have made one, and nothing needs the delta then
    halve("state/0/0/9.delta")(copy)
    assert verify(LocalTree(copy), depth="quick").startable is True
    assert verify(LocalTree(copy), depth="full").startable is False


def test_the_quick_depth_finds_what_is_missing_empty_or_of_another_size(tmp_path: Path) -> None:
    copy = checkpoint_copy("rocksdb2", tmp_path / "c")
    newest_sst(copy).write_bytes(newest_sst(copy).read_bytes()[:-1])
    assert verify(LocalTree(copy), depth="quick").startable is False


def test_state_of_an_older_timeline_is_refused_where_a_later_start_loads_it(tmp_path: Path) -> None:
    """A snapshot is; zips without changelogs are written over, and files of format 2 have ids."""
    for shape, startable, stale in (("hdfs", False, True), ("rocksdb1", True, True), ("rocksdb2", True, False)):
        copy = checkpoint_copy(shape, tmp_path / shape)
        for log in ("offsets", "commits"):
            remove(f"{log}/[678]")(copy)
        report = verify(LocalTree(copy))
        assert report.startable is startable, shape
        assert ("STATE_STALE" in {finding.code.value for finding in report.findings}) is stale


@pytest.mark.parametrize(
    ("spark_version", "does"),
    [
        ("3.5.1", "continues under a new query id"),
        ("4.1.0", "continues under a new query id"),
        ("4.2.0", "refuses to start"),
    ],
)
def test_a_missing_query_id_is_no_start_whatever_the_release_does(
    spark_version: str, does: str, tmp_path: Path
) -> None:
    """A sink that knows batches by the query's id takes every replayed row twice."""
    copy = checkpoint_copy("rocksdb2", tmp_path / "c")
    remove("metadata")(copy)
    report = verify(LocalTree(copy), spark_version=spark_version)
    assert (report.startable, report.restorable) == (False, [])
    assert does in report.findings[0].found


@pytest.mark.parametrize(("spark_version", "startable"), [("4.1.0", True), ("4.2.0", False)])
def test_a_wrong_spark_checksum_depends_on_the_release(spark_version: str, *, startable: bool, tmp_path: Path) -> None:
    copy = checkpoint_copy("rocksdb2", tmp_path / "c")
    wrong_spark_crc("state/0/0/9_*.zip.crc")(copy)
    assert verify(LocalTree(copy), spark_version=spark_version).startable is startable


@pytest.mark.parametrize(("file", "repeats"), [("/003", "3.compact"), ("/005", "5")])
def test_a_changed_path_is_found_without_a_checksum_by_other_entries(file: str, repeats: str, tmp_path: Path) -> None:
    """On S3, and before Spark 3.2, no hidden checksum lies beside an entry."""
    copy = checkpoint_copy("hdfs", tmp_path / "c")
    for hidden in (copy / "sources/0").glob(".*.crc"):
        hidden.unlink()
    assert verify(LocalTree(copy), depth="quick").findings == ()
    replace("sources/0/7.compact", file.encode(), b"/0x")(copy)

    report = verify(LocalTree(copy), depth="quick")

    assert report.startable is False
    assert [(f.code.value, f.path) for f in report.findings] == [("SOURCE_LOG_CORRUPT", "sources/0/7.compact")]
    assert report.findings[0].found == f"it does not repeat the content of sources/0/{repeats}"


def test_an_older_release_does_not_fall_back(tmp_path: Path) -> None:
    copy = checkpoint_copy("rocksdb1-changelog", tmp_path / "c")
    halve("state/0/0/9.zip")(copy)
    report = verify(LocalTree(copy), spark_version="4.0.0")
    assert report.startable is False
    assert 8 in report.restorable  # a fork leaves the bad zip behind


def test_a_version_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="not a version"):
        verify(LocalTree(tmp_path), spark_version="latest")


@pytest.mark.parametrize("names", [(), (".hidden",), ("metadata",)])
def test_an_empty_directory_is_a_fresh_start(names: tuple[str, ...], tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).write_text('{"id":"8c0b2ae1-7f3d-4c8e-9d0a-5f1e2d3c4b5a"}')
    report = verify(LocalTree(tmp_path))
    assert (report.startable, report.restorable) == (True, [])
    assert [finding.code.value for finding in report.findings] == ["EMPTY"]


def test_what_is_not_there_is_not_judged(tmp_path: Path) -> None:
    report = verify(LocalTree(tmp_path / "nowhere"))
    assert (report.startable, report.findings[0].code.value) == (None, "UNREADABLE")


def test_what_is_no_checkpoint_is_not_judged(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    report = verify(LocalTree(tmp_path))
    assert (report.startable, report.findings[0].code.value) == (None, "NOT_A_CHECKPOINT")


@contextlib.contextmanager
def unprivileged() -> Iterator[None]:
    """Act as a user who may not read everything: tests may be run by root."""
    user = os.geteuid()
    os.seteuid(65534 if user == 0 else user)
    try:
        yield
    finally:
        os.seteuid(user)


def test_what_cannot_be_read_is_not_judged() -> None:
    with tempfile.TemporaryDirectory() as place:  # pytest's own directories are closed to other users
        Path(place).chmod(0o755)
        copy = checkpoint_copy("rocksdb2", Path(place) / "c")
        (copy / "offsets" / "8").chmod(0)
        with unprivileged():
            report = verify(LocalTree(copy))
    assert (report.startable, report.restorable) == (None, [])
    assert (report.findings[0].code.value, report.findings[0].path) == ("UNREADABLE", "offsets/8")


def test_a_link_out_of_the_directory_is_not_followed(tmp_path: Path) -> None:
    copy = checkpoint_copy("stateless", tmp_path / "c")
    (tmp_path / "outside").write_bytes((copy / "commits" / "8").read_bytes())
    (copy / "commits" / "8").unlink()
    (copy / "commits" / "8").symlink_to(tmp_path / "outside")
    assert verify(LocalTree(copy)).startable is False


def test_state_that_is_gone_as_a_whole_is_not_passed_over_in_silence(tmp_path: Path) -> None:
    """This query has no watermark and checkpoint format 1: nothing in its logs tells that it kept state."""
    copy = checkpoint_copy("hdfs", tmp_path / "c")
    remove("state")(copy)
    report = verify(LocalTree(copy))
    (finding,) = report.findings
    assert (report.startable, finding.code.value, finding.blocks) == (None, "STATE_UNKNOWN", None)
    assert "If the query has a stateful operator" in finding.meaning


@pytest.mark.parametrize("shape", ["rocksdb2", "rocksdb2-changelog", "rocksdb2-join"])
def test_commits_of_format_2_tell_that_state_is_gone(shape: str, tmp_path: Path) -> None:
    copy = checkpoint_copy(shape, tmp_path / "c")
    remove("state")(copy)
    report = verify(LocalTree(copy))
    assert (report.startable, report.restorable) == (False, [])
    assert {finding.code.value for finding in report.findings} == {"STATE_MISSING"}


def test_nothing_is_written(tmp_path: Path) -> None:
    copy = checkpoint_copy("rocksdb2-changelog", tmp_path / "c")
    last_commit_lost(copy)
    before = {path: path.lstat().st_mtime_ns for path in copy.rglob("*")}
    verify(LocalTree(copy))
    assert {path: path.lstat().st_mtime_ns for path in copy.rglob("*")} == before


def test_a_table_of_another_format_is_said_not_to_be_looked_into(tmp_path: Path) -> None:
    copy = checkpoint_copy("rocksdb2", tmp_path / "c")
    table = newest_sst(copy)
    plain_table = (0x8242229663BF9564).to_bytes(8, "little")  # another of RocksDB's formats ends so
    table.write_bytes(table.read_bytes()[:-8] + plain_table)
    table.with_name(f".{table.name}.crc").unlink(missing_ok=True)

    report = verify(LocalTree(copy))

    assert report.startable is True
    assert [(finding.code.value, finding.path, finding.blocks) for finding in report.findings] == [
        ("NOT_LOOKED_INTO", str(table.relative_to(copy)), False)
    ]
    assert verify(LocalTree(copy), depth="quick").findings == ()
