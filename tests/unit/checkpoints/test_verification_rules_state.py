"""What Spark does with state above the committed batch, and with what state files hold, rule by rule."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import zstandard

from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.verification import verify
from tests.support.checkpoints.recorded_damage import Recorded, newest, rewrite, told, without
from tests.support.checkpoints.state_files import END, pairs


def above(checkpoint: Path, name: str, content: bytes, *, by: int = 1) -> str:
    """Write a state file of a version above the newest one; *name* is its suffix."""
    path = f"state/0/0/{newest(checkpoint) + 1 + by}.{name}"
    rewrite(checkpoint / path, content)
    return path


@pytest.mark.parametrize("release", ["3.4.4", "4.0.5", "4.3.0"])
@pytest.mark.parametrize("content", [b"", b"cut"])
def test_a_delta_above_is_written_over(recorded: Recorded, release: str, content: bytes) -> None:
    checkpoint = recorded("3.3.4", "hdfs")
    path = above(checkpoint, "delta", content)
    report = verify(LocalTree(checkpoint), spark_version=release)

    assert (report.startable, told(report)) == (True, {f"STATE_STALE {path}": False})


def test_a_snapshot_above_is_loaded_by_a_later_start(recorded: Recorded) -> None:
    checkpoint = recorded("4.3.0", "hdfs")
    path = above(checkpoint, "snapshot", (checkpoint / "state/0/0/1.delta").read_bytes())

    assert told(verify(LocalTree(checkpoint))) == {f"STATE_STALE {path}": True}


@pytest.mark.parametrize(("release", "blocks"), [("3.4.4", True), ("4.1.4", True), ("4.2.0", False), ("4.3.0", False)])
def test_a_snapshot_above_that_is_cut_is_passed_over_by_a_release_that_falls_back(
    recorded: Recorded, release: str, *, blocks: bool
) -> None:
    checkpoint = recorded("4.3.0", "hdfs")
    whole = (checkpoint / "state/0/0/1.delta").read_bytes()
    path = above(checkpoint, "snapshot", whole[: len(whole) // 2])

    assert told(verify(LocalTree(checkpoint), spark_version=release)) == {f"STATE_STALE {path}": blocks}


@pytest.mark.parametrize(("shape", "blocks"), [("rocksdb1", False), ("rocksdb1-changelog", True)])
def test_a_zip_above_is_loaded_where_changelogs_are_used(recorded: Recorded, shape: str, *, blocks: bool) -> None:
    checkpoint = recorded("4.0.5", shape)
    (older,) = [path for path in sorted((checkpoint / "state/0/0").glob("*.zip")) if path.name[0] != "."][:1]
    path = above(checkpoint, "zip", older.read_bytes())

    assert told(verify(LocalTree(checkpoint), spark_version="4.0.5")) == {f"STATE_STALE {path}": blocks}


def test_a_changelog_above_is_written_over(recorded: Recorded) -> None:
    checkpoint = recorded("4.0.5", "rocksdb1-changelog")
    path = above(checkpoint, "changelog", b"cut")

    assert told(verify(LocalTree(checkpoint), spark_version="4.0.5")) == {f"STATE_STALE {path}": False}


@pytest.mark.parametrize(
    ("release", "by", "blocks"), [("3.4.4", 1, False), ("3.4.4", 500, True), ("3.5.9", 500, False)]
)
def test_before_3_5_a_zip_far_above_has_the_state_of_the_query_purged(
    recorded: Recorded, release: str, by: int, *, blocks: bool
) -> None:
    checkpoint = recorded("3.3.4", "rocksdb1")
    path = above(checkpoint, "zip", (checkpoint / "state/0/0/1.zip").read_bytes(), by=by)

    assert told(verify(LocalTree(checkpoint), spark_version=release)) == {f"STATE_STALE {path}": blocks}


@pytest.mark.parametrize(("kind", "release", "blocks"), [("snapshot", "3.5.9", True), ("delta", "3.5.9", False)])
def test_what_the_batch_in_flight_left_is_told_when_it_is_bad(
    recorded: Recorded, kind: str, release: str, *, blocks: bool
) -> None:
    checkpoint = recorded("3.5.9", "hdfs")
    without(checkpoint, newest(checkpoint), logs=("commits",))
    path = above(checkpoint, kind, b"", by=0)
    report = verify(LocalTree(checkpoint), spark_version=release)

    assert told(report)[f"STATE_CORRUPT {path}"] is blocks
    assert report.startable is not blocks


@pytest.mark.parametrize(("release", "startable"), [("4.0.5", True), ("4.1.4", False), ("4.3.0", False)])
def test_a_zip_of_4_0_with_checkpoint_format_2_is_read_by_4_0_only(
    recorded: Recorded, release: str, *, startable: bool
) -> None:
    assert verify(LocalTree(recorded("4.0.5", "rocksdb2")), spark_version=release).startable is startable


@pytest.mark.parametrize(("release", "startable"), [("4.0.5", None), ("4.1.4", True), ("4.3.0", True)])
def test_a_zip_of_checkpoint_format_2_that_4_0_wrote_beside_format_1_is_read_by_all_others(
    recorded: Recorded, release: str, *, startable: bool | None
) -> None:
    checkpoint = recorded("4.0.5", "rocksdb2")
    for path in [path for path in checkpoint.glob("state/0/*/*.zip") if path.name[0] != "."]:
        with zipfile.ZipFile(path) as old:
            members = {name: old.read(name) for name in old.namelist()}
        members["metadata"] = members["metadata"].replace(b"v2\n", b"v1\n", 1)
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
            for name, content in members.items():
                new.writestr(name, content)

    assert verify(LocalTree(checkpoint), spark_version=release).startable is startable


def test_a_row_that_changed_is_told_by_the_hidden_checksum_where_the_codec_has_none(recorded: Recorded) -> None:
    checkpoint = recorded("3.5.9", "hdfs")
    path = checkpoint / f"state/0/0/{newest(checkpoint) + 1}.delta"
    rewrite(path, zstandard.compress(pairs((b"key!" * 4, b"row!" * 4)) + END))
    whole = verify(LocalTree(checkpoint), spark_version="3.5.9").startable
    hidden = (path.parent / ".1.delta.crc").read_bytes()
    (path.parent / f".{path.name}.crc").write_bytes(hidden[:12])

    assert (whole, verify(LocalTree(checkpoint), spark_version="3.5.9").startable) == (True, False)
