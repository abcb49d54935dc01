"""Linked savepoints: without digests against ``cp -al``, with digests against reading, and what a second one reads.

The checkpoints are cloned by program from real ones of the test corpus, as for the verification: one of many small
files, and two of large state. ``cp -al`` copies the closure and nothing else. The baseline of a digested savepoint is
one read of the bytes that are new to it. The last table is about the next batch: what was read for it, and what was
written beside links, which is its manifest and the digests for the savepoint after it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from unittest.mock import patch

from airflow_provider_ha.checkpoints.model import ManifestFile, Savepoint
from airflow_provider_ha.checkpoints.spark.checksums import Reader, digest_of
from airflow_provider_ha.checkpoints.store.savepoints import savepoint_directory
from airflow_provider_ha.checkpoints.store.savepoints.creation import take
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_directory import CACHE, DirectoryLayout
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import SavepointSource
from benchmarks.clones import cloned, lengthened
from benchmarks.shared import effort, median, show
from benchmarks.verification import (
    RELEASE,
    VERSIONS,
    files_of,
    forget,
    read_once,
    seconds,
    with_deltas,
    with_tables,
)
from tests.support.checkpoints.state_files import MB


LAST = VERSIONS - 1
# Prints the peak of memory of one process that makes a digested savepoint; see benchmarks/verification.py.
_PEAK = """
import sys
from pathlib import Path
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_directory import DirectoryLayout
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import SavepointSource as Source
from airflow_provider_ha.checkpoints.store.savepoints.creation import take
source = Source(query="query", directory=Path(sys.argv[1]))
take([source], DirectoryLayout(Path(sys.argv[2]), link=True), spark_version="4.2.0")
print(next(line.split()[1] for line in Path("/proc/self/status").open() if line.startswith("VmHWM")))
"""
_numbers = count()


def place_for(folder: Path) -> Path:
    """Return a directory for a savepoint that knows no digests yet."""
    place = folder / f"place-{next(_numbers)}"
    place.mkdir()
    return place


def aged(checkpoint: Path) -> Path:
    """Let no file be so young that its digest is not remembered."""
    for path in files_of(checkpoint):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return checkpoint


def save(checkpoint: Path, target: Path, *, digests: bool, batch: int | None = None) -> Savepoint:
    """Make a linked savepoint."""
    source = SavepointSource(query="query", directory=checkpoint, batch=batch)
    return take([source], DirectoryLayout(target, link=True, digests=digests), spark_version=RELEASE)


def against_cp(name: str, checkpoint: Path, folder: Path, rounds: int) -> tuple[str, ...]:
    """Return the row of a savepoint without digests."""
    closure = place_for(folder) / "closure"
    made = save(checkpoint, closure, digests=False)
    (closure / "manifest.json").unlink()
    pairs = []
    for _ in range(rounds):
        to, copy = place_for(folder) / "sp", place_for(folder) / "copy"
        command = ["cp", "-al", str(closure), str(copy)]
        pairs.append(
            (
                seconds(partial(subprocess.run, command, check=True)),
                seconds(partial(save, checkpoint, to, digests=False)),
            )
        )
        shutil.rmtree(to)
        shutil.rmtree(copy)
    copied, saved = (median(column) for column in zip(*pairs, strict=True))
    return name, f"{len(made.files):,}", f"{copied:.3f} s", f"{saved:.3f} s", f"{saved / copied:.2f}"


def against_reading(name: str, checkpoint: Path, folder: Path, rounds: int) -> list[tuple[str, ...]]:
    """Return the rows of a first digested savepoint, cold and warm."""
    sample = place_for(folder) / "sp"
    files = [checkpoint / path.partition("/")[2] for path in save(checkpoint, sample, digests=False).files]
    size = sum(path.stat().st_size for path in files)
    rows: list[tuple[str, ...]] = []
    for cold in (True, False):
        pairs = []
        for _ in range(rounds):
            to = place_for(folder) / "sp"
            works: tuple[Callable[[], object], ...] = (
                lambda: read_once(files),
                partial(save, checkpoint, to, digests=True),
            )
            times = []
            for work in works:
                if cold:
                    forget(files)
                times.append(seconds(work))
            pairs.append(times)
        read, saved = (median(column) for column in zip(*pairs, strict=True))
        what = f"{name}, {'cold' if cold else 'warm'}"
        rows.append((what, f"{size / MB:,.0f} MB", f"{read:.2f} s", f"{saved:.2f} s", f"{saved / read:.2f}"))
    return rows


def second(name: str, checkpoint: Path, folder: Path) -> tuple[str, ...]:
    """Return the row of the savepoint after one more batch."""
    place = place_for(folder)
    read: list[int] = []

    def counting(reader: Reader) -> ManifestFile:
        found = digest_of(reader)
        read.append(found.size)
        return found

    first = save(checkpoint, place / "first", digests=True, batch=LAST - 1)
    with patch.object(savepoint_directory, "digest_of", counting):  # counts, and does what it did
        made = save(checkpoint, place / "second", digests=True, batch=LAST)
    new = sum(file.size for path, file in made.files.items() if path not in first.files)
    written = sum(path.stat().st_size for path in (place / "second" / "manifest.json", place / CACHE))
    return name, f"{new / MB:.2f} MB", f"{sum(read) / MB:.2f} MB", f"{written / MB:.2f} MB"


def peak(checkpoint: Path, folder: Path) -> float:
    """Return the most memory that a digested savepoint took, in megabytes."""
    command = [sys.executable, "-c", _PEAK, str(checkpoint), str(place_for(folder) / "sp")]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(run.stdout) * 1024 / MB


def main() -> None:
    """Measure and print."""
    given = effort(__doc__, pairs=5, few=3)
    rounds, (partitions, versions, large) = given.pairs, (21, 20, 32 * MB) if given.quick else (1400, 120, 2048 * MB)
    digested: list[tuple[str, ...]] = []
    nexts: list[tuple[str, ...]] = []
    peaks: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        small = aged(cloned("hdfs", folder / "small", partitions))
        many = cloned("hdfs", folder / "many", partitions // 7)
        lengthened(many, versions)
        linked = [
            against_cp("few versions", small, folder, rounds),
            against_cp(f"{partitions // 7} partitions x {versions} versions", aged(many), folder, rounds),
        ]
        digested += against_reading("small files", small, folder, rounds)
        nexts.append(second("small files", small, folder))
        for shape, fill in (("hdfs", with_deltas), ("rocksdb1", with_tables)):
            sizes = []
            for size in (large // 32, large):
                checkpoint = cloned(shape, folder / f"{shape}-{size}", 8)
                fill(checkpoint, size)
                aged(checkpoint)
                sizes.append(peak(checkpoint, folder))
            digested += against_reading(f"large state, {shape}", checkpoint, folder, rounds)
            nexts.append(second(f"large state, {shape}", checkpoint, folder))
            peaks.append((shape, *(f"{size:.0f} MB" for size in sizes), f"{sizes[1] - sizes[0]:+.1f} MB"))
    show(
        f"without digests, median of {rounds}",
        ("checkpoint", "files", "cp -al of the closure", "savepoint", "ratio"),
        linked,
    )
    columns = ("digested for the first time", "bytes", "read once", "savepoint", "ratio")
    show(f"median of {rounds}", columns, digested)
    show("the next savepoint", ("after one more batch", "new in it", "read", "written beside links"), nexts)
    sizes_of = ("peak memory", f"{large / 32 / MB:.0f} MB", f"{large / MB:.0f} MB", "growth")
    show("of a process that makes a digested savepoint", sizes_of, peaks)


if __name__ == "__main__":
    main()
