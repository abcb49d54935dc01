"""Restart of a query with state on S3, with and without copies on the local disk, and what the copies cost per batch.

A proxy delays each answer of a real S3 server by 30 ms and sends 80 MB/s per connection. Each run is a separate JVM
with `local[2]`, RocksDB with checkpoint format 2 and four partitions, and one key per kilobyte of state. Each side has
its own state, so that its copies are always those of its last run; the sides alternate. Bytes are those of state files.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.component_batches import OWN, conf
from benchmarks.shared import command, effort, median, show
from tests.support.s3.s3_faults import FOR_EVER, Exchange, Fault, s3_proxy
from tests.support.s3.s3_server import S3Access, real_server


LATENCY = 0.03
RATE = 80e6  # bytes per second and connection
ROWS = 2000  # of a batch; the first one makes every key
MEGABYTE = 1_000_000
WITH, WITHOUT = "with copies", "without"
_STATE_FILE = re.compile(r"/state/\d+/\d+/.*\.(zip|changelog|sst|crc)")


@dataclass(frozen=True)
class Side:
    """One state, with or without copies.

    :param folder: Where its copies are; ``None`` without.
    """

    bucket: str
    folder: Path | None

    @property
    def checkpoint(self) -> str:
        """Where its query works."""
        return f"has3a://{self.bucket}/jobs/j/live/e1-x"

    def conf(self, s3: S3Access, endpoint: str) -> dict[str, str]:
        """Return the conf of one run."""
        values = conf(OWN, s3, endpoint, self.bucket) | {"spark.driver.memory": "2g"}
        if self.folder is not None:
            copies = "spark.hadoop.fs.ha.copies"
            values |= {copies: "true", f"{copies}.directory": str(self.folder), f"{copies}.mb": "50000"}
        return values


@dataclass(frozen=True)
class Seen:
    """What a run has shown.

    :param first_commit: Seconds from the start of the query to the end of its first batch.
    :param batches: Milliseconds of each later batch.
    """

    first_commit: float
    batches: list[float]


def play(values: dict[str, str], checkpoint: str, keys: int, batches: int, parent: Connection) -> None:
    """Start the query in this process and execute batches; tell the parent the times."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    builder = SparkSession.builder.config("spark.sql.streaming.numRecentProgressUpdates", batches + 10)
    for key, value in values.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    jvm: Any = spark._jvm  # noqa: SLF001  # it has no public name
    jvm.io.github.sparkha.Gate.bind("j", 1, checkpoint)
    jvm.io.github.sparkha.Gate.extend(int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1000) + 3_600_000)
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).load()
    number = f.col("value")
    every = f.sequence(number, f.lit(keys - 1), f.lit(ROWS))
    later = f.array((number * 7919) % keys)
    flat = source.select("value", f.explode(f.when(number < ROWS, every).otherwise(later)).alias("key"))
    payload = f.transform(f.sequence(f.lit(1), f.lit(125)), lambda i: f.xxhash64("key", "value", i))
    counted = flat.groupBy("key").agg(f.count("*").alias("n"), f.max(payload).alias("payload"))
    writer = counted.writeStream.queryName("counts").outputMode("update").format("noop")
    began = time.monotonic()
    query = writer.option("checkpointLocation", f"{checkpoint}/counts").trigger(processingTime="0 seconds").start()
    first = 0.0
    while len(query.recentProgress) <= batches:
        if query.exception() is not None:
            raise RuntimeError(str(query.exception()))
        if not first and query.lastProgress is not None:
            first = time.monotonic() - began
        time.sleep(0.01)
    times = [float(each["durationMs"]["triggerExecution"]) for each in query.recentProgress[1 : batches + 1]]
    query.stop()
    parent.send(Seen(first, times))
    spark.stop()


def run(side: Side, s3: S3Access, endpoint: str, megabytes: int, batches: int) -> Seen:
    """Execute a run in another process."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    arguments = (side.conf(s3, endpoint), side.checkpoint, megabytes * 1000, batches, theirs)
    process = context.Process(target=play, args=arguments)
    process.start()
    theirs.close()
    try:
        seen: Seen = ours.recv()
        return seen
    finally:
        process.join()


@contextmanager
def slow_proxy(upstream: str) -> Iterator[tuple[str, Counter[str]]]:
    """Yield the URL of a slow proxy, and the bytes of state that were read through it."""
    read: Counter[str] = Counter()

    def slow(exchange: Exchange) -> None:
        exchange.wait(LATENCY)
        status, headers, body = exchange.ask()
        exchange.wait(len(body) / RATE)
        if _STATE_FILE.search(exchange.path):
            read["state"] += len(body)
        exchange.reply(status, headers, body)

    methods = ("GET", "HEAD", "PUT", "POST", "DELETE")
    with s3_proxy(upstream, *(Fault(slow, method, times=FOR_EVER) for method in methods)) as endpoint:
        yield endpoint, read


def restarts(s3: S3Access, folder: Path, megabytes: int, pairs: int) -> list[tuple[str, ...]]:
    """Measure restarts at one size; return the rows of the table."""
    sides = {
        WITHOUT: Side(s3.new_bucket(), None),
        WITH: Side(s3.new_bucket(), folder / f"copies-{megabytes}"),
    }
    for side in sides.values():
        run(side, s3, s3.endpoint, megabytes, 2)
    seconds: dict[str, list[float]] = {WITHOUT: [], WITH: []}
    size: dict[str, list[float]] = {WITHOUT: [], WITH: []}
    for number in range(pairs):
        for name in (WITHOUT, WITH) if number % 2 == 0 else (WITH, WITHOUT):
            with slow_proxy(s3.endpoint) as (endpoint, read):
                seen = run(sides[name], s3, endpoint, megabytes, 1)
            seconds[name].append(seen.first_commit)
            size[name].append(read["state"] / MEGABYTE)
            print(f"{megabytes} MB, {name}: {seen.first_commit:.1f} s, {size[name][-1]:.2f} MB", flush=True)
    ratio = median([mine / other for mine, other in zip(seconds[WITH], seconds[WITHOUT], strict=True)])
    return [
        (f"{megabytes} MB", name, f"{median(size[name]):.2f} MB", f"{median(seconds[name]):.1f} s", shown)
        for name, shown in ((WITHOUT, "1.00"), (WITH, f"{ratio:.2f}"))
    ]


def cost(s3: S3Access, folder: Path, pairs: int, batches: int) -> list[tuple[str, ...]]:
    """Measure batches with 30 MB of state, without the proxy; return the rows of the table."""
    times: dict[str, list[float]] = {WITHOUT: [], WITH: []}
    for number in range(pairs):
        for name in (WITHOUT, WITH) if number % 2 == 0 else (WITH, WITHOUT):
            side = Side(s3.new_bucket(), folder / f"copies-cost-{number}" if name == WITH else None)
            times[name].append(median(run(side, s3, s3.endpoint, 30, 5 + batches).batches[5:]))
            print(f"batch {name}: {times[name][-1]:.0f} ms", flush=True)
    ratio = median([mine / other for mine, other in zip(times[WITH], times[WITHOUT], strict=True)])
    return [
        (name, f"{median(times[name]):.0f} ms", shown) for name, shown in ((WITHOUT, "1.00"), (WITH, f"{ratio:.2f}"))
    ]


def main() -> None:
    """Measure and print."""
    parser = command(__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=[30, 500, 2000], help="megabytes of state")
    parser.add_argument("--batches", type=int, default=100, help="batches whose time is compared; 0 compares none")
    chosen = parser.parse_args()
    pairs = effort(chosen, pairs=5).pairs
    sizes, batches = ([5], 5) if chosen.quick else (chosen.sizes, chosen.batches)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    with tempfile.TemporaryDirectory() as name, real_server() as s3:
        folder = Path(name)
        os.chdir(folder)  # where Spark leaves what it leaves
        rows = [row for megabytes in sizes for row in restarts(s3, folder, megabytes, pairs)]
        columns = ("state", "", "state from the store", "first commit after the start of the query", "ratio")
        show(f"restarts, median of {pairs} pairs, load {os.getloadavg()[0]:.1f}", columns, rows)
        if batches:
            rows = cost(s3, folder, pairs, batches)
            show(f"time of a batch, 30 MB of state, median of {pairs} pairs", ("", "median", "ratio"), rows)


if __name__ == "__main__":
    main()
