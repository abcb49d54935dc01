"""A batch is on the restorable list when what a fork of it takes is whole: proof cases, asked of Spark 4.3."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import fork
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.checkpoints.verify.verification_report import VerificationReport
from airflow_provider_ha.errors import CheckpointCorruptError
from tests.support.checkpoints.damage import cut_line, halve, stale_hidden_crc
from tests.support.checkpoints.recorded_damage import newest
from tests.support.releases.damages import newest as newest_of
from tests.support.releases.samples import unpack


RELEASE = "4.3.0"


@pytest.fixture(params=["hdfs", "rocksdb1-changelog"])
def snapshot_is_bad(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A checkpoint whose newest snapshot is bad, while an older way to its state is whole."""
    checkpoint = unpack(RELEASE, tmp_path / "recorded")[request.param]
    if request.param == "hdfs":
        halve(f"state/0/0/{newest_of(checkpoint, 'snapshot')}")(checkpoint)
    else:
        stale_hidden_crc(f"state/0/0/{newest_of(checkpoint, 'zip')}")(checkpoint)
    return checkpoint


def lacks(report: VerificationReport, batch: int) -> list[str]:
    """Return the files for whose sake a batch is not restorable."""
    (found,) = [verdict for verdict in report.batches if verdict.batch == batch]
    return [reason.path for reason in found.reasons]


def test_a_snapshot_that_a_release_passes_over_is_taken_by_a_fork(snapshot_is_bad: Path) -> None:
    report, last = verify(LocalTree(snapshot_is_bad), spark_version=RELEASE), newest(snapshot_is_bad)

    assert (report.startable, last in report.restorable) == (True, False)
    assert lacks(report, last)[0].startswith("state/0/0/")


def test_a_fork_of_every_batch_of_the_list_can_be_started(snapshot_is_bad: Path, tmp_path: Path) -> None:
    listed = verify(LocalTree(snapshot_is_bad), spark_version="4.1.4").restorable

    for batch in listed:
        fork(snapshot_is_bad, tmp_path / str(batch), batch=batch, keep_planned=False, copy=True)
        assert verify(LocalTree(tmp_path / str(batch)), spark_version="4.1.4").startable is True

    assert listed


def test_a_commit_that_a_start_passes_over_is_none_to_restore_to(tmp_path: Path) -> None:
    checkpoint = unpack(RELEASE, tmp_path / "recorded")["hdfs"]
    last = newest(checkpoint)
    cut_line(f"commits/{last}")(checkpoint)
    report = verify(LocalTree(checkpoint), spark_version=RELEASE)

    assert (report.startable, report.latest_restorable) == (True, last - 1)
    with pytest.raises(CheckpointCorruptError):
        fork(checkpoint, tmp_path / "forked", batch=last, keep_planned=False, copy=True)
