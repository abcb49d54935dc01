"""The recorded checkpoints that lie in the repository: what each release really wrote, read in the quick suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.spark.checkpoint_layout import batches
from airflow_provider_ha.checkpoints.spark.closure import closure
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.verification import verify
from tests.support.releases.damages import DAMAGES
from tests.support.releases.installed import BY_VERSION, SPARKS
from tests.support.releases.samples import samples, unpack
from tests.support.releases.shapes import BY_NAME, LONG, SHAPES


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
        for name in closure(LocalTree(checkpoint), newest, with_planned=False).files:
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
