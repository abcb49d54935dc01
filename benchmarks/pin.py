"""A pin (the closure of a committed batch, by hard links) against ``cp -al`` of the whole checkpoint directory.

The checkpoint is a real one of the test corpus (RocksDB, format 2). Prints medians and the ratio.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from airflow_provider_ha.checkpoints.areas.pins import pin
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from benchmarks.shared import effort
from tests.support.spark import corpus


def milliseconds(work: Callable[[], object]) -> float:
    """Return how long one call takes."""
    begin = time.perf_counter()
    work()
    return (time.perf_counter() - begin) * 1e3


def main() -> None:
    """Measure and print."""
    rounds = effort(__doc__, pairs=50, few=3).pairs
    with tempfile.TemporaryDirectory() as folder:
        live = Path(folder) / "live"
        corpus.checkpoint_copy("rocksdb2", live / "query")
        cut = {"query": progress(LocalTree(live / "query")).committed}
        pairs = []
        for number in range(rounds):
            target = Path(folder) / f"pin-{number}"
            copy = Path(folder) / f"copy-{number}"
            pairs.append(
                (
                    milliseconds(partial(pin, live, target, cut)),
                    milliseconds(partial(subprocess.run, ["cp", "-al", str(live), str(copy)], check=True)),
                )
            )
        files = sum(1 for path in (Path(folder) / "pin-0").rglob("*") if path.is_file())
    pinned, copied = (statistics.median(column) for column in zip(*pairs, strict=True))
    table = Table("one checkpoint", "median", "ratio", title=f"{len(pairs)} alternating pairs, {files} files pinned")
    table.add_row("cp -al of the whole directory", f"{copied:.1f} ms", "1.00")
    table.add_row("pin of the closure", f"{pinned:.1f} ms", f"{pinned / copied:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
