"""Full verification of a checkpoint against reading the same bytes once, and the memory that it takes at two sizes.

The checkpoints are cloned by program from real ones of the test corpus: one of many small files, and two whose state is
large (LZ4 records of the HDFS provider, tables of RocksDB). Each pair is measured cold, when the bytes have to come
from the disk, and warm. Reading is one ``read`` after another of a megabyte. Verified is by one process, and by one on
each core, which only large state is worth.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from random import Random

from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.state_content import cores
from airflow_provider_ha.checkpoints.verify.verification import verify
from benchmarks.clones import cloned, hadoop_sums
from benchmarks.shared import effort, median, show
from tests.support.checkpoints.state_files import END, LZ4_END, MB, lz4_block, pairs, write, zip_stream
from tests.support.checkpoints.table_files import block_of, table
from tests.support.spark import corpus


RELEASE = "4.2.0"
VERSIONS = corpus.BATCHES
# Prints the peak of memory of one full verification. Of this process alone: what the system reports for a process
# begins with the peak of the one that started it.
_PEAK = """
import sys
from pathlib import Path
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.state_content import cores
from airflow_provider_ha.checkpoints.verify.verification import verify
verify(LocalTree(Path(sys.argv[1])), spark_version="4.2.0")
print(next(line.split()[1] for line in Path("/proc/self/status").open() if line.startswith("VmHWM")))
"""


def with_deltas(checkpoint: Path, size: int) -> None:
    """Give the stores of the HDFS provider deltas and no snapshots, *size* bytes in all: rows of two columns."""
    dice = Random(1)  # noqa: S311  # repeatable, not secret
    rows = [
        [
            (b"\0" * 8 + b"\x18\0\0\0\x08\0\0\0" + b"k%07d" % dice.randrange(10**7), dice.randbytes(24))
            for _ in range(580)
        ]
        for _ in range(32)
    ]
    blocks = [lz4_block(pairs(*part)) for part in rows]
    stores = [path for path in (checkpoint / "state/0").iterdir() if path.name.isdigit()]
    each = size // (len(stores) * VERSIONS)
    for store in stores:
        clear(store)
        for version in range(1, VERSIONS + 1):
            write(store / f"{version}.delta", (*of_size(blocks, each), lz4_block(END), LZ4_END))


def with_tables(checkpoint: Path, size: int) -> None:
    """Give the stores of the RocksDB provider tables of *size* bytes in all, one for each version, with their sums."""
    dice = Random(1)  # noqa: S311  # repeatable, not secret
    blocks = [block_of((dice.randbytes(16), dice.randbytes(48)) for _ in range(60)) for _ in range(32)]
    stores = [path for path in (checkpoint / "state/0").iterdir() if path.name.isdigit()]
    each = size // (len(stores) * VERSIONS)
    for store in stores:
        clear(store)
        for version in range(1, VERSIONS + 1):
            made = write(store / "SSTs" / f"00000{version}-x.sst", table(of_size(blocks, each)))
            named = {"localFileName": "1.sst", "dfsSstFileName": made.name, "sizeBytes": made.stat().st_size}
            inner = b"v1\n" + json.dumps({"sstFiles": [named], "numKeys": 1}).encode()
            members = {"metadata": [inner], "CURRENT": [b"MANIFEST-1\n"], "MANIFEST-1": [b"manifest"]}
            for path in (made, write(store / f"{version}.zip", zip_stream(members))):
                write(path.parent / f".{path.name}.crc", hadoop_sums(path))


def clear(store: Path) -> None:
    """Remove the state of a store, and leave its schema."""
    for path in store.iterdir():
        if path.name != "_metadata":
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def of_size(blocks: list[bytes], size: int) -> Iterator[bytes]:
    """Yield blocks until they have *size* bytes."""
    for block in cycle(blocks):
        if size <= 0:
            return
        size -= len(block)
        yield block


def files_of(checkpoint: Path) -> list[Path]:
    """Return all files of a checkpoint."""
    return sorted(path for path in checkpoint.rglob("*") if path.is_file())


def read_once(files: list[Path]) -> None:
    """Read every byte."""
    for path in files:
        with path.open("rb", buffering=0) as file:
            while file.read(MB):
                pass


def forget(files: list[Path]) -> None:
    """Have the system drop what it holds of the files."""
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def check(checkpoint: Path, processes: int = 1) -> None:
    """Verify every byte; what is measured must have been whole."""
    report = verify(LocalTree(checkpoint), spark_version=RELEASE, processes=processes)
    if not report.startable or len(report.restorable) != VERSIONS:
        raise RuntimeError(f"{checkpoint} is not whole: {report.findings}")


def seconds(work: Callable[[], object]) -> float:
    """Return how long one call takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def measured(name: str, checkpoint: Path, rounds: int) -> list[tuple[str, ...]]:
    """Return the rows of a table: cold and warm."""
    files = files_of(checkpoint)
    total = sum(path.stat().st_size for path in files)
    rows: list[tuple[str, ...]] = []
    works = (lambda: read_once(files), lambda: check(checkpoint), lambda: check(checkpoint, cores()))
    for cold in (True, False):
        times: list[list[float]] = [[] for _ in works]
        for _ in range(rounds):
            for work, taken in zip(works, times, strict=True):
                if cold:
                    forget(files)
                taken.append(seconds(work))
        read, alone, together = map(median, times)
        what = f"{name}, {'cold' if cold else 'warm'}"
        compared = (f"{alone:.2f} s", f"{alone / read:.2f}", f"{together:.2f} s", f"{together / read:.2f}")
        rows.append((what, f"{len(files):,}", f"{total / MB:,.0f} MB", f"{read:.2f} s", *compared))
    return rows


def peak(checkpoint: Path) -> float:
    """Return the most memory that a verification took, in megabytes."""
    command = [sys.executable, "-c", _PEAK, str(checkpoint)]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(run.stdout) * 1024 / MB


def main() -> None:
    """Measure and print."""
    given = effort(__doc__, pairs=3)
    rounds, (partitions, large) = given.pairs, (20, 32 * MB) if given.quick else (1400, 2048 * MB)
    rows: list[tuple[str, ...]] = []
    peaks: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        rows += measured("small files", cloned("hdfs", place / "small", partitions), rounds)
        for shape, fill in (("hdfs", with_deltas), ("rocksdb1", with_tables)):
            sizes = []
            for size in (large // 32, large):
                checkpoint = cloned(shape, place / f"{shape}-{size}", 8)
                fill(checkpoint, size)
                sizes.append(peak(checkpoint))
            rows += measured(f"large state, {shape}", checkpoint, rounds)
            small, all_of_it = sizes
            peaks.append((shape, f"{small:.0f} MB", f"{all_of_it:.0f} MB", f"{all_of_it - small:+.1f} MB"))
    columns = ("checkpoint", "files", "bytes", "read once", "one process", "ratio", f"{cores()} processes", "ratio")
    show(f"full verification, median of {rounds}", columns, rows)
    sizes_of = ("checkpoint", f"{large / 32 / MB:.0f} MB", f"{large / MB:.0f} MB", "growth")
    show("peak memory of a process that verifies a checkpoint", sizes_of, peaks)


if __name__ == "__main__":
    main()
