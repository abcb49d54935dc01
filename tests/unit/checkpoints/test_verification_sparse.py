"""Batches without an entry: legal with asynchronous progress tracking, and only there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.spark.closure import closure
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.metadata_log import LogEntries
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.checkpoints.verify.verification_report import VerificationReport


def write_log(directory: Path, *, offsets: list[int], commits: list[int], version: int = 1) -> Path:
    """Write a checkpoint of a query with one source that is no file source, as Spark writes it."""
    for log in ("offsets", "commits"):
        (directory / log).mkdir(parents=True)
    (directory / "metadata").write_text('{"id":"8c0b2ae1-7f3d-4c8e-9d0a-5f1e2d3c4b5a"}')
    conf = {"spark.sql.shuffle.partitions": "2"}
    for batch in offsets:
        metadata = {"batchWatermarkMs": 0, "batchTimestampMs": batch, "conf": conf}
        (directory / "offsets" / str(batch)).write_text(f"v1\n{json.dumps(metadata)}\n{batch * 10}")
    ids = ',"stateUniqueIds":{}' if version > 1 else ""
    for batch in commits:
        (directory / "commits" / str(batch)).write_text(f'v{version}\n{{"nextBatchWatermarkMs":0{ids}}}')
    return directory


def codes(report: VerificationReport) -> dict[str, str]:
    return {finding.code.value: finding.found for finding in report.findings}


def test_batches_that_neither_log_has_are_read_as_left_out(tmp_path: Path) -> None:
    report = verify(LocalTree(write_log(tmp_path / "c", offsets=[0, 2, 5], commits=[0, 2, 5])))

    assert (report.startable, report.restorable) == (True, [0, 2, 5])
    assert codes(report)["OFFSETS_SPARSE"] == "neither log has batch 1, 3-4: read as asynchronous progress tracking"


def test_a_commit_may_lag_behind_a_sparse_log(tmp_path: Path) -> None:
    report = verify(LocalTree(write_log(tmp_path / "c", offsets=[0, 2, 5], commits=[0, 2])))

    assert (report.startable, report.restorable) == (True, [0, 2])
    assert "COMMITS_BEHIND" not in codes(report)


def test_an_entry_that_one_log_has_was_lost_from_the_other(tmp_path: Path) -> None:
    """Spark would go back to the entry before, and execute what lies between once more."""
    report = verify(LocalTree(write_log(tmp_path / "c", offsets=[0, 2, 8], commits=[0, 2, 5])))

    assert report.startable is False
    assert [(r.code.value, r.path) for b in report.batches if b.batch == 8 for r in b.reasons] == [
        ("COMMITS_MISSING", "commits/8"),
        ("OFFSETS_MISSING", "offsets/5"),
    ]


def test_a_query_with_state_leaves_nothing_out(tmp_path: Path) -> None:
    directory = write_log(tmp_path / "c", offsets=[0, 2, 5], commits=[0, 2, 5])
    (directory / "state" / "0" / "0").mkdir(parents=True)
    report = verify(LocalTree(directory))

    assert report.startable is False
    assert "OFFSETS_SPARSE" not in codes(report)
    assert "offsets/4" in {finding.path for finding in report.findings}


def test_a_planned_batch_between_is_still_a_commit_that_is_behind(tmp_path: Path) -> None:
    report = verify(LocalTree(write_log(tmp_path / "c", offsets=[0, 2, 4, 5], commits=[0, 2])))

    assert report.startable is True
    assert codes(report)["COMMITS_BEHIND"] == "batch 5 is planned, but only 2 is committed"


def test_a_closure_of_a_sparse_log_takes_the_previous_entry_that_exists(tmp_path: Path) -> None:
    directory = write_log(tmp_path / "c", offsets=[0, 2, 5], commits=[0, 2, 5])

    assert set(closure(LocalTree(directory), 5, with_planned=False)) == {
        "metadata",
        "commits/5",
        "offsets/5",
        "offsets/2",
    }


def test_a_number_that_no_query_reaches_costs_nothing(tmp_path: Path) -> None:
    report = verify(LocalTree(write_log(tmp_path / "c", offsets=[0, 1, 10**15], commits=[0, 1])))

    assert f"2-{10**15 - 1}" in codes(report)["OFFSETS_SPARSE"]


@pytest.mark.parametrize(
    ("planned", "committed", "batch", "sparse", "previous"),
    [
        ([0, 1, 2], [0, 1, 2], 2, True, 1),
        ([0, 2, 5], [0, 2, 5], 5, True, 2),
        ([0, 2, 5], [0, 2, 5], 5, False, 4),
        ([0, 2, 8], [0, 2, 5], 8, True, 5),  # committed, so it was planned: its entry was lost
        ([5], [5], 5, True, 4),  # purged: what lay before is not known to be left out
        ([5, 9], [2, 5, 9], 5, True, None),  # purged, and others were left out
        ([5, 9], [2, 5, 9], 9, True, 5),
        ([0], [0], 0, True, None),
        ([0], [0], 0, False, None),
    ],
)
def test_the_previous_batch(
    planned: list[int], committed: list[int], batch: int, *, sparse: bool, previous: int | None
) -> None:
    assert LogEntries.of(planned, committed).previous(batch, sparse=sparse) == previous


def test_without_state_directory_the_logs_of_format_1_do_not_tell(tmp_path: Path) -> None:
    report = verify(LocalTree(write_log(tmp_path / "c", offsets=[0, 1], commits=[0, 1])))

    assert report.startable is True
    assert list(codes(report)) == ["STATE_UNKNOWN"]


def test_commits_of_format_2_without_ids_are_those_of_a_query_without_state(tmp_path: Path) -> None:
    report = verify(LocalTree(write_log(tmp_path / "c", offsets=[0, 1], commits=[0, 1], version=2)))

    assert (report.startable, report.findings) == (True, ())


def with_watermark(directory: Path, batch: int, *, watermark: int, offset: int) -> None:
    """Write one more planned and committed batch."""
    metadata = {"batchWatermarkMs": watermark, "batchTimestampMs": batch, "conf": {}}
    (directory / "offsets" / str(batch)).write_text(f"v1\n{json.dumps(metadata)}\n{offset}")
    (directory / "commits" / str(batch)).write_text(f'v1\n{{"nextBatchWatermarkMs":{watermark}}}')


def test_a_batch_without_input_behind_a_watermark_is_that_of_a_query_with_state(tmp_path: Path) -> None:
    directory = write_log(tmp_path / "c", offsets=[0, 1], commits=[0, 1])
    with_watermark(directory, 2, watermark=5000, offset=10)
    report = verify(LocalTree(directory))

    assert (report.startable, report.restorable) == (False, [])
    (finding,) = report.findings
    assert (finding.code.value, finding.path, finding.batch) == ("STATE_MISSING", "state", 2)
    assert {(r.code.value, r.path) for verdict in report.batches for r in verdict.reasons} == {
        ("STATE_MISSING", "state")
    }


@pytest.mark.parametrize(("watermark", "offset"), [(5000, 20), (0, 10), (253402300799000, 10)])
def test_input_no_watermark_or_a_drain_say_nothing_about_state(watermark: int, offset: int, tmp_path: Path) -> None:
    directory = write_log(tmp_path / "c", offsets=[0, 1], commits=[0, 1])
    with_watermark(directory, 2, watermark=watermark, offset=offset)

    assert list(codes(verify(LocalTree(directory)))) == ["STATE_UNKNOWN"]


def test_nothing_is_said_about_state_before_any_could_be_needed(tmp_path: Path) -> None:
    assert verify(LocalTree(write_log(tmp_path / "c", offsets=[0], commits=[]))).findings == ()
