"""Recorded checkpoints of each release: none raises an alarm."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.spark.checkpoint_layout import batches
from airflow_provider_ha.checkpoints.spark.closure import closure
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.verification import Depth, verify
from tests.support.releases.damages import DAMAGES
from tests.support.releases.fixtures import fixtures
from tests.support.releases.installed import BY_VERSION, SPARKS
from tests.support.releases.samples import samples, unpack
from tests.support.releases.shapes import BY_NAME, LONG, SHAPES


pytestmark = pytest.mark.timeout(1200)
each_sample = pytest.mark.parametrize("release", samples())


@each_sample
def test_what_each_release_wrote_is_sound_for_it_and_for_newer_ones(release: str, tmp_path: Path) -> None:
    alarms = {}
    for shape, checkpoint in unpack(release, tmp_path).items():
        releases = (release, "4.2.0", "4.3.0")
        for judged_as in (one for one in releases if BY_NAME[shape].is_read_by(one, release)):
            for depth in ("quick", "full"):
                report = verify(LocalTree(checkpoint), depth=depth, spark_version=judged_as)
                codes = {finding.code.value for finding in report.findings} - {"STATE_UNKNOWN"}
                if (report.startable, report.restorable, codes) != (True, list(range(LONG)), set()):
                    alarms[f"{shape}, {depth}, for {judged_as}"] = report
    assert alarms == {}


@each_sample
def test_the_closure_of_the_newest_batch_alone_is_sound(release: str, tmp_path: Path) -> None:
    for shape, checkpoint in unpack(release, tmp_path / "all").items():
        newest = batches(LocalTree(checkpoint), "commits")[-1]
        for name in closure(LocalTree(checkpoint), newest, with_planned=False):
            alone = tmp_path / "alone" / shape / name
            alone.parent.mkdir(parents=True, exist_ok=True)
            alone.write_bytes((checkpoint / name).read_bytes())
        report = verify(LocalTree(tmp_path / "alone" / shape), spark_version=release)
        assert (report.startable, report.latest_restorable) == (True, newest), (shape, report.findings)


# What that release did when it was started on its own checkpoint with this damage, where releases differ.
MEASURED = (
    ("3.3.4", "hdfs", "snapshot-directory", True),
    ("3.5.9", "hdfs", "snapshot-directory", True),
    ("4.1.4", "hdfs", "snapshot-directory", True),
    ("4.3.0", "hdfs", "snapshot-directory", False),
    ("3.3.4", "hdfs", "snapshot-half", False),
    ("4.1.4", "hdfs", "snapshot-half", False),
    ("4.3.0", "hdfs", "snapshot-half", True),
    ("3.5.9", "rocksdb1-changelog", "zip-half", False),
    ("4.1.4", "rocksdb1-changelog", "zip-half", False),
    ("4.3.0", "rocksdb1-changelog", "zip-half", True),
    ("4.3.0", "rocksdb2-changelog", "zip-half", True),
    ("4.3.0", "rocksdb2-changelog", "sst-removed", True),
    ("4.3.0", "rocksdb2-changelog", "zip-removed", False),
    ("4.3.0", "rocksdb1-changelog", "sst-flipped", False),
    ("4.1.4", "rocksdb2", "zip-stale-crc", False),
    ("4.1.4", "rocksdb2", "zip-crc-wrong", True),
    ("4.1.4", "hdfs", "delta-crc-wrong", False),
    ("3.0.3", "hdfs", "source-path-changed", False),
    ("3.1.3", "hdfs", "source-path-changed", False),
    ("3.3.4", "hdfs", "repartition", False),
    ("4.1.4", "hdfs", "repartition", False),
    ("4.3.0", "hdfs", "repartition", False),
    ("3.3.4", "hdfs", "commits-last-cut", True),
    ("4.3.0", "hdfs", "commits-last-cut", True),
)


@pytest.mark.parametrize(("release", "shape", "name", "startable"), MEASURED)
def test_the_verdict_is_what_that_release_did(
    release: str, shape: str, name: str, *, startable: bool, tmp_path: Path
) -> None:
    checkpoint = unpack(release, tmp_path)[shape]
    (damage,) = (damage for damage in DAMAGES if damage.name == name and shape in damage.shapes)
    damage.apply(checkpoint)
    report = verify(LocalTree(checkpoint), spark_version=release)
    assert report.startable is startable, report.findings
    assert damage.code is None or damage.code in {finding.code.value for finding in report.findings}


@each_sample
def test_a_sample_holds_the_core_of_what_its_release_can_write(release: str, tmp_path: Path) -> None:
    core = {shape.name for shape in SHAPES if shape.core and shape.recorded_by(BY_VERSION[release])}
    assert set(unpack(release, tmp_path)) == core


def test_the_samples_reach_from_the_oldest_release_that_runs_here_to_the_newest() -> None:
    assert {SPARKS[0].version, SPARKS[-1].version} <= set(samples()) <= set(BY_VERSION)


# The Spark project edited their offsets after Spark had written them, which their hidden checksums tell. A snapshot of
# 4.0.0 wrote them, whose state schemas have no ids: the reader of no release takes them.
EDITED = ("checkpoint-version-4.0.0-tws-avro", "checkpoint-version-4.0.0-tws-unsaferow")

# Logs without the state of the query: nothing in them tells whether there was any.
LOGS_ALONE = {"STATE_UNKNOWN", "OFFSETS_SPARSE"}

# They pin a format of joins that 3.5 does not know: it refuses to set that, for any query.
NOT_FOR_3_5 = (
    "checkpoint-version-4.0.0-checkpoint-v2/rocksdb/dedup",
    "checkpoint-version-4.0.0-checkpoint-v2/rocksdb/limit",
)
DEPTHS: tuple[Depth, ...] = ("quick", "full")
JUDGED_AS = ("2.4.8", "3.5.9", "4.2.0", "4.3.0")


def checkpoints() -> dict[str, Path]:
    """Return the name of each fixture that is a checkpoint, and where it is."""
    root = fixtures()
    return {str(path.parent.relative_to(root)): path.parent for path in sorted(root.rglob("offsets")) if path.is_dir()}


@pytest.mark.long
def test_what_old_releases_wrote_raises_no_alarm() -> None:
    found = checkpoints()
    alarms = {}
    for name, checkpoint in found.items():
        for release in JUDGED_AS:
            for depth in DEPTHS:
                report = verify(LocalTree(checkpoint), depth=depth, spark_version=release)
                codes = {finding.code.value for finding in report.findings}
                open_answer = report.startable is None and "STATE_UNKNOWN" in codes
                if name not in EDITED and (codes - LOGS_ALONE or not (report.startable or open_answer)):
                    alarms[f"{name}, {depth}, for {release}"] = (report.startable, codes)
    refused = {f"{name}, {depth}, for 3.5.9": (False, {"CONF_REFUSED"}) for name in NOT_FOR_3_5 for depth in DEPTHS}
    assert alarms == refused
    assert len(found) > 30


@pytest.mark.long
def test_every_committed_batch_of_old_releases_is_restorable() -> None:
    lacking = {}
    for name, checkpoint in checkpoints().items():
        committed = batches(LocalTree(checkpoint), "commits")
        restorable = verify(LocalTree(checkpoint), spark_version="4.2.0").restorable
        if name not in EDITED and restorable != committed:
            lacking[name] = (restorable, committed)
    assert lacking == {}


@pytest.mark.long
@pytest.mark.parametrize("name", EDITED)
def test_what_was_edited_by_hand_or_written_by_a_snapshot_is_seen(name: str) -> None:
    report = verify(LocalTree(checkpoints()[name]), spark_version="4.2.0")
    assert report.startable is False
    assert {finding.code.value for finding in report.findings} == {"OFFSETS_CORRUPT", "STATE_METADATA_CORRUPT"}
    assert "hidden checksum does not fit" in report.findings[0].found
