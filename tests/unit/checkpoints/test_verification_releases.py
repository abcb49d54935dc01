"""What is damage for one release and none for another: the verdict is for a release."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.releases import release
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.checkpoints.verify.verification_report import VerificationReport
from tests.support.checkpoints.state_files import END, lz4_stream, pairs
from tests.unit.checkpoints.test_verification_operators import KEYED, PARTITIONS, write_state


EMPTY_COMMIT = "v1"
WITH_IDS = 'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{"0":[["a"],["b"],["c"]]}}'
WITHOUT_IDS = 'v1\n{"nextBatchWatermarkMs":0}'


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint with one committed batch, and state in each partition."""
    directory = write_state(tmp_path / "c", found=PARTITIONS, schema=KEYED)
    for partition in range(PARTITIONS):
        delta = directory / "state/0" / str(partition) / "1.delta"
        delta.write_bytes(lz4_stream(pairs((b"key", b"row")) + END))
    return directory


def blocking(report: VerificationReport) -> list[str]:
    return [finding.path for finding in report.findings if finding.blocks]


@pytest.mark.parametrize(("version", "goes_on"), [("3.3.4", True), ("4.1.1", True), ("4.2.0", False), ("4.3.0", False)])
def test_a_directory_in_the_place_of_a_snapshot_counts_as_none_up_to_4_1(
    checkpoint: Path, version: str, goes_on: bool
) -> None:
    snapshot = "state/0/1/1.snapshot"
    (checkpoint / snapshot).mkdir()

    report = verify(LocalTree(checkpoint), spark_version=version)

    assert (report.startable, blocking(report)) == (goes_on, [] if goes_on else [snapshot])


def test_a_last_commit_without_its_metadata_is_no_obstacle_where_no_state_is_named_by_it(checkpoint: Path) -> None:
    (checkpoint / "commits/0").write_text(EMPTY_COMMIT)

    assert blocking(verify(LocalTree(checkpoint), depth="quick")) == []


def test_a_last_commit_without_its_metadata_has_lost_the_ids_of_the_state(checkpoint: Path) -> None:
    (checkpoint / "offsets/1").write_text((checkpoint / "offsets/0").read_text())
    (checkpoint / "commits/0").write_text(WITH_IDS)
    (checkpoint / "commits/1").write_text(EMPTY_COMMIT)

    assert "commits/1" in blocking(verify(LocalTree(checkpoint), depth="quick"))


def test_any_other_damage_of_the_last_commit_is_one(checkpoint: Path) -> None:
    (checkpoint / "commits/0").write_text(WITHOUT_IDS[:-3])

    assert "commits/0" in blocking(verify(LocalTree(checkpoint), depth="quick"))


def test_a_release_that_nobody_tried_is_judged_as_the_nearest_older_one() -> None:
    assert release("4.9.1").needs_query_id
    assert not release("4.9.1").accepts_empty_spark_crc
