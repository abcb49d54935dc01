"""What Spark 2.1 to 2.4 left behind, written from the description of their formats: read, judged, damaged and found."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.spark.byte_stream import decode
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.verification import Depth, verify
from tests.support.checkpoints.damage import remove
from tests.support.checkpoints.old_formats import BATCHES, RELEASES, damages_of, partition_of, write_checkpoint
from tests.support.checkpoints.state_files import END, lz4_stream, pairs
from tests.support.releases.damages import NothingToDamageError


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
