"""A few of the recordings, small enough for the repository: the quick suite damages them and asks for the verdict.

``python -m lab.verdicts.samples`` packs them out of the cache, one file a release: the very recordings that
Spark's kept answers belong to.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

from lab.verdicts.answers import FOLDER, RIGHT, Line
from tests.support.releases.corpus import recorded
from tests.support.releases.installed import BY_VERSION
from tests.support.releases.samples import write_archive, write_files
from tests.support.releases.shapes import BY_NAME


SAMPLES = FOLDER / "samples"
# Every provider and format by the release that began with it and by one after it.
CHOSEN = {
    "3.2.4": ("hdfs", "rocksdb1"),
    "3.3.4": ("hdfs", "rocksdb1"),
    "3.4.4": ("hdfs", "hdfs-snapshots", "rocksdb1", "async"),
    "3.5.9": ("stateless", "hdfs", "hdfs-snapshots", "hdfs-join", "hdfs-chain", "hdfs-purged", "rocksdb1", "async"),
    "4.0.5": (
        "hdfs",
        "rocksdb1-snapshots",
        "rocksdb1-changelog",
        "rocksdb2",
        "rocksdb2-changelog",
        "rocksdb2-snapshots",
        "rocksdb1-processor",
        "async-purged",
    ),
    "4.2.0": (
        "stateless",
        "hdfs",
        "hdfs-snapshots",
        "hdfs-join",
        "rocksdb1-snapshots",
        "rocksdb2",
        "rocksdb2-join",
        "rocksdb2-join-v3",
        "rocksdb2-processor",
        "async",
    ),
    "4.3.0": ("hdfs", "hdfs-snapshots", "rocksdb1-snapshots", "rocksdb2"),
}
LIMIT = 300_000  # bytes, with the answers


def sampled(lines: Sequence[Line]) -> list[Line]:
    """Return one line of each kind of damage and answer that there is a sample of, spread over releases and shapes."""
    alike: dict[tuple[str, bool, str], list[Line]] = {}
    for line in lines:
        if line.shape in CHOSEN.get(line.release, ()):
            alike.setdefault((line.damage, line.spark == RIGHT, line.verdict), []).append(line)
    return [some[crc32(repr(key).encode()) % len(some)] for key, some in alike.items()]


def pack(release: str) -> Path:
    """Pack what is chosen of a release."""
    spark, shapes = BY_VERSION[release], [BY_NAME[name] for name in CHOSEN[release]]
    recorded(spark, shapes)
    SAMPLES.mkdir(parents=True, exist_ok=True)
    path = SAMPLES / f"{release}.tar.xz"
    return write_archive(path, spark, shapes)


def unpack(release: str, target: Path) -> dict[str, Path]:
    """Unpack the sample of a release below *target*; return shape -> checkpoint."""
    write_files(SAMPLES / f"{release}.tar.xz", target)
    return {name: target / name / "checkpoint" for name in CHOSEN[release]}


if __name__ == "__main__":
    for version in CHOSEN:
        packed = pack(version)
        print(packed, packed.stat().st_size)
