"""Quick verification of a checkpoint of 200 partitions and 120 versions against listing the same tree.

The checkpoint is cloned by program from a real one of the test corpus. Listing reads every directory and asks every
file for its size, as ``find -size`` does. The listing and the verification alternate, warm.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.verification import verify
from benchmarks.clones import cloned, lengthened
from benchmarks.shared import effort, median, show


RELEASE = "4.2.0"


def seconds(work: Callable[[], object]) -> float:
    """Return how long one call takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def listed(place: Path) -> int:
    """Return the number of files below a directory, having asked for the size of each."""
    count = 0
    for folder, _, names in os.walk(place):
        for name in names:
            os.stat(f"{folder}/{name}")  # noqa: PTH116  # the baseline is as fast as it can be
            count += 1
    return count


def check(checkpoint: Path, versions: int) -> None:
    """Verify names, sizes and chains; what is measured must have been whole."""
    report = verify(LocalTree(checkpoint), depth="quick", spark_version=RELEASE)
    if not report.startable or len(report.restorable) != versions:
        raise RuntimeError(f"{checkpoint} is not whole: {report.findings}")


def main() -> None:
    """Measure and print."""
    given = effort(__doc__, pairs=15, few=2)
    rounds, (partitions, versions) = given.pairs, (10, 20) if given.quick else (200, 120)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = cloned("hdfs", Path(folder) / "many", partitions)
        lengthened(checkpoint, versions)
        files = listed(checkpoint)
        pairs = [
            (seconds(lambda: listed(checkpoint)), seconds(lambda: check(checkpoint, versions))) for _ in range(rounds)
        ]
    listing, verified = (median(column) for column in zip(*pairs, strict=True))
    rows = [
        ("list and ask for sizes", f"{listing:.2f} s", "1.00"),
        ("quick verification", f"{verified:.2f} s", f"{median([pair[1] / pair[0] for pair in pairs]):.2f}"),
    ]
    title = f"{partitions} partitions x {versions} versions, {files:,} files, median of {rounds} pairs"
    show(title, ("one checkpoint", "median", "ratio"), rows)


if __name__ == "__main__":
    main()
