"""What it costs to know that a query has committed a batch: listing its logs, ``lastProgress``, or a listener.

A real query with a trigger of 500 ms. Each side looks as often as the publisher of a driver does. Prints the CPU time
of one look in Python and in the JVM, and how long after the commit entry a look finds the batch.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from airflow_provider_ha.checkpoints.spark.checkpoint_layout import COMMITS, OFFSETS, progress
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.driver.checkpointing.progress import BatchRecorder
from airflow_provider_ha.driver.checkpointing.publish_loop import TICK_SECONDS
from benchmarks.shared import repeat, show


RETAINED = 100  # batches, Spark's own default
MISSING = "-"


class Listener:
    """Notes when the JVM has called it about a batch."""

    def __init__(self) -> None:
        self.seen: dict[int, float] = {}

    def of_pyspark(self) -> Any:
        """Return it as pyspark wants it."""
        from pyspark.sql.streaming.listener import StreamingQueryListener  # inside functions only

        seen = self.seen

        class Noting(StreamingQueryListener):
            def onQueryStarted(self, event: Any) -> None:  # noqa: N802  # pyspark's names
                """Nothing to note."""

            def onQueryProgress(self, event: Any) -> None:  # noqa: N802
                seen.setdefault(event.progress.batchId, time.time())

            def onQueryIdle(self, event: Any) -> None:  # noqa: N802
                """Nothing to note."""

            def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
                """Nothing to note."""

        return Noting()


def jvm_of(spark: Any) -> Any:
    """Return the gateway to the JVM of a session."""
    return spark._jvm  # noqa: SLF001  # it has no public name


class Bench:
    """One session, its JVM, and a query that commits twice a second."""

    def __init__(self, place: Path) -> None:
        from pyspark.sql import SparkSession  # inside functions only

        conf: dict[str, Any] = {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.ui.showConsoleProgress": "false",
        }
        self.spark: Any = SparkSession.builder.master("local[1]").config(map=conf).getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")
        self.jvm = psutil.Process(int(jvm_of(self.spark).java.lang.ProcessHandle.current().pid()))
        self.directory = place / "query"
        rows = self.spark.readStream.format("rate").option("rowsPerSecond", 10).load()
        writer = rows.writeStream.format("noop").option("checkpointLocation", str(self.directory))
        self.handle = writer.trigger(processingTime="500 milliseconds").start()
        while progress(LocalTree(self.directory)).committed < 1:
            time.sleep(TICK_SECONDS)

    def cpu(self) -> tuple[float, float]:
        """Return the CPU seconds of Python and of the JVM."""
        times = self.jvm.cpu_times()
        return time.process_time(), times.user + times.system

    def reported(self) -> int | None:
        """Return the batch of the last progress."""
        last = self.last()
        return None if last is None else int(last.batchId())

    def last(self) -> Any:
        """Return the last progress, as the JVM has it."""
        return self.handle._jsq.lastProgress()  # noqa: SLF001  # pyspark's own converts all of it

    def cost(self, look: Callable[[], object], rounds: int) -> tuple[float, float]:
        """Return the CPU microseconds of one look, in Python and in the JVM. The query has ended."""
        python, jvm = self.cpu()
        for _ in range(rounds):
            look()
        after = self.cpu()
        return (after[0] - python) / rounds * 1e6, (after[1] - jvm) / rounds * 1e6

    def delays(self, newest: Callable[[], int | None], batches: int) -> list[float]:
        """Return milliseconds from the commit entry of a batch to the look that finds it."""
        found: list[float] = []
        before = newest()
        while len(found) < batches:
            time.sleep(TICK_SECONDS)
            now = newest()
            if now is not None and now != before:
                found.append(self.since_commit(now, time.time()))
                before = now
        return found

    def since_commit(self, batch: int, moment: float) -> float:
        """Return the milliseconds from the commit entry to *moment*."""
        return (moment - (self.directory / COMMITS / str(batch)).stat().st_mtime) * 1e3


def logs_of(place: Path, query: Path) -> Path:
    """Return a directory with as many batches as Spark retains."""
    for log in (OFFSETS, COMMITS):
        (place / log).mkdir(parents=True)
        entry = (query / log / "0").read_bytes()
        for batch in range(RETAINED):
            (place / log / str(batch)).write_bytes(entry)
            (place / log / f".{batch}.crc").write_bytes(b"crc")
    return place


def listing(directory: Path) -> Callable[[], object]:
    """Return what a look at a directory does."""
    recorder = BatchRecorder(LocalTree(directory))
    recorder.poll()

    def look() -> None:
        recorder.poll()
        progress(LocalTree(directory))

    return look


def listened(bench: Bench, batches: int) -> tuple[list[float], int, float]:
    """Return the delays of a listener, the threads that it adds, and the CPU microseconds of an event in Python."""
    listener, threads = Listener(), threading.active_count()
    registered = listener.of_pyspark()
    bench.spark.streams.addListener(registered)
    begin, _ = bench.cpu()
    while len(listener.seen) < batches:
        time.sleep(TICK_SECONDS)
    spent = (bench.cpu()[0] - begin) / len(listener.seen) * 1e6
    added = threading.active_count() - threads
    bench.spark.streams.removeListener(registered)
    return [bench.since_commit(batch, moment) for batch, moment in listener.seen.items()], added, spent


def measure_once(quick: bool) -> None:
    """Measure and print."""
    batches, rounds = (3, 50) if quick else (20, 5000)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        full = logs_of(Path(folder) / "full", bench.directory)
        by_listing = bench.delays(lambda: progress(LocalTree(bench.directory)).committed, batches)
        by_report = bench.delays(bench.reported, batches)
        by_listener, threads, event = listened(bench, batches)
        bench.handle.stop()
        bench.cost(bench.last, rounds)  # compiled before it is measured
        sides = {
            f"listing, {RETAINED} batches retained": bench.cost(listing(full), rounds),
            "`lastProgress`": bench.cost(lambda: bench.last().timestamp(), rounds),
        }
        bench.spark.stop()
    delays = [by_listing, by_report]
    show(
        f"{rounds} looks a side, {batches} batches a side, a look every {TICK_SECONDS} s",
        ("source", "Python, a look", "JVM, a look", "commit to look, median", "greatest"),
        [
            *(
                (name, f"{python:.0f} µs", f"{jvm:.0f} µs", f"{statistics.median(late):.0f} ms", f"{max(late):.0f} ms")
                for (name, (python, jvm)), late in zip(sides.items(), delays, strict=True)
            ),
            (
                f"a listener in Python, {threads} more threads",
                f"{event:.0f} µs an event",
                MISSING,
                f"{statistics.median(by_listener):.0f} ms",
                f"{max(by_listener):.0f} ms",
            ),
        ],
    )


if __name__ == "__main__":
    repeat(__doc__, measure_once)
