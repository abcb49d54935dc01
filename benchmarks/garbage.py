"""What lies in a store beside the live files of a query, after many batches and takeovers.

A query with RocksDB, its changelog and four partitions writes to a real S3 server. Its JVM is killed again and again,
and the next one takes over: fence, new directory, base. Live is what Spark needs for the batches that it retains (100).
The rest is garbage. The collector removes what is older than its grace of 24 hours; here the grace is nothing, so what
is left is what it never finds while the query runs. What lies there before is what 24 hours like these leave.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path, PurePosixPath
from typing import Any

import psutil

from airflow_provider_ha.checkpoints.areas.layered.garbage import GarbageSearch, note_needs, remove, time_of
from airflow_provider_ha.checkpoints.areas.layered.layered_work_area import LayeredWorkArea
from airflow_provider_ha.checkpoints.areas.layered.needs import KEPT_BATCHES
from airflow_provider_ha.checkpoints.restore.plan_execution import prepare_recovery
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress
from airflow_provider_ha.checkpoints.spark.closure import closure
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.s3_store import S3Store
from benchmarks.component_batches import OWN, batch_of, conf
from benchmarks.shared import repeat, show
from tests.support.s3.s3_server import S3Access, real_server


JOB = JobKeys("flights")
QUERY = "counts"
MB = 1 << 20


@dataclass(frozen=True)
class Size:
    """What is played.

    :param takeovers: How often the driver is killed.
    :param batches: Of each driver.
    :param rows: Of each batch.
    :param keys: Of the state, when all of them were seen.
    """

    takeovers: int
    batches: int
    rows: int
    keys: int


@dataclass(frozen=True)
class Bytes:
    """What lies in the store.

    :param live: Of the files that a retained batch needs.
    :param all: Of every file.
    :param kinds: Ending of a name -> bytes of the files of it that no retained batch needs.
    """

    live: int
    all: int
    kinds: Counter[str]

    def row(self, name: str) -> tuple[str, ...]:
        """Return its row."""
        garbage = self.all - self.live
        kinds = ", ".join(f"{kind} {size / MB:,.1f}" for kind, size in self.kinds.most_common(3))
        sizes = (f"{each / MB:,.1f}" for each in (self.all, self.live, garbage))
        return name, *sizes, f"{garbage / self.live:.2f}", kinds


def play(values: dict[str, str], uri: str, epoch: int, size: Size, parent: Connection) -> None:
    """Execute batches until this process is killed; tell the parent which one is over."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    builder = SparkSession.builder
    for key, value in values.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    jvm: Any = spark._jvm  # noqa: SLF001  # it has no public name
    jvm.io.github.sparkha.Gate.bind(JOB.job_id, epoch, uri)
    jvm.io.github.sparkha.Gate.extend(int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1000) + 3_600_000)
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", size.rows).load()
    hashed = f.sha2(rows["value"].cast("string"), 512)  # what does not get smaller by compression
    keyed = rows.groupBy((rows["value"] % size.keys).alias("key")).agg(f.max(hashed).alias("last"))
    writer = keyed.writeStream.queryName(QUERY).outputMode("update").format("noop")
    query = writer.option("checkpointLocation", f"{uri}/{QUERY}").trigger(processingTime="0 seconds").start()
    while query.isActive:
        parent.send(batch_of(query))
        time.sleep(0.05)
    raise RuntimeError(str(query.exception()))


@contextmanager
def playing(values: dict[str, str], uri: str, epoch: int, size: Size) -> Iterator[Connection]:
    """Start a driver; it is killed in the end, with its JVM."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=play, args=(values, uri, epoch, size, theirs))
    process.start()
    theirs.close()
    try:
        yield ours
    finally:
        driver = psutil.Process(process.pid)
        for each in (*driver.children(recursive=True), driver):
            each.kill()
        process.join()


def until(said: Connection, batch: int) -> None:
    """Wait until a batch is over."""
    while said.recv() < batch:
        pass


def measured(area: LayeredWorkArea, files: S3Store, key: str) -> Bytes:
    """Add up what lies there, with closures alone: the collector is not asked what it thinks."""
    tree = area.tree(key)
    query = tree / QUERY
    last = progress(query).committed
    names: set[str] = set()
    for batch in range(max(last - KEPT_BATCHES + 1, 0), last + 1):
        names |= closure(query, batch, with_planned=True).keys()
    places = {entry.place: entry.length for name, entry in tree.entries().items() if name[len(QUERY) + 1 :] in names}
    every = {file.key: file.size for file in files.list(JOB.live)}
    kinds: Counter[str] = Counter()
    for place in every.keys() - places.keys():
        kinds[PurePosixPath(place).suffix or "logs"] += every[place]
    return Bytes(live=sum(places.values()), all=sum(every.values()), kinds=kinds)


def collected(files: S3Store, key: str) -> None:
    """Remove all that the collector finds, however young it is."""
    search = GarbageSearch(files, JOB.live, {}, key, time_of(files) + 60_000, grace=timedelta(0))
    for _ in search.steps():
        pass
    for _ in remove(files, search.garbage, lambda: None):
        pass


def look(files: S3Store, key: str) -> None:
    """Note what the next takeover needs, as a driver does after its start, and later once an hour."""
    search = GarbageSearch(files, JOB.live, {}, key, time_of(files))
    for _ in search.steps():
        pass
    note_needs(files, search.known, lambda: None)


def played(s3: S3Access, size: Size) -> tuple[Bytes, Bytes, int]:
    """Play it; returns what lies there before and after the collector, and how many batches were executed."""
    bucket = s3.new_bucket()
    files = S3Store(f"s3://{bucket}", s3.options())
    area = LayeredWorkArea(files)
    changelog = {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true"}
    lost, batch = "", -1
    for epoch in range(1, size.takeovers + 2):
        key = JOB.working_directory(epoch, "driver")
        if lost:
            fenced = area.fence(lost)
            area.create(key)
            if not prepare_recovery(area, fenced, key):
                raise RuntimeError(f"nothing was taken over from {lost}")
            area.remove(lost)
            batch = progress(area.tree(key) / QUERY).committed
            look(files, key)
        else:
            area.create(key)
        values = conf(OWN, s3, s3.endpoint, bucket) | changelog
        values |= {
            "spark.hadoop.fs.ha.writer": f"{epoch}/s/process",
            "spark.sql.streaming.minBatchesToRetain": str(KEPT_BATCHES),
        }
        with playing(values, area.uri(key), epoch, size) as said:
            until(said, batch + size.batches)
        lost = key
        print(f"driver {epoch}: batch {progress(area.tree(key) / QUERY).committed}", flush=True)
    before = measured(area, files, lost)
    collected(files, lost)
    return before, measured(area, files, lost), progress(area.tree(lost) / QUERY).committed + 1


def measure_once(quick: bool) -> None:
    """Measure and print."""
    size = Size(1, 4, 100, 200) if quick else Size(20, 48, 2000, 400_000)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    with tempfile.TemporaryDirectory() as folder, real_server() as s3:
        os.chdir(Path(folder))  # where Spark leaves what it leaves
        before, after, batches = played(s3, size)
    show(
        f"MB after {batches:,} batches and {size.takeovers} takeovers",
        ("", "in the store", "live", "garbage", "ratio to live", "most of it"),
        [before.row("before the collector"), after.row("after it")],
    )


if __name__ == "__main__":
    repeat(__doc__, measure_once)
