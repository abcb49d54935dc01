"""Batches of a query with state on S3, behind the component and behind Spark's own manager for S3.

Each run is a separate JVM with a real S3 server, `local[2]`, RocksDB with checkpoint format 2 and four partitions. It
executes batches one after the other, of 1,000 rows each; those before the purge begins are not counted. The time of a
batch is the one that Spark reports, without a proxy. Requests are counted by a proxy in another run.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.counted import KINDS, counting_proxy
from benchmarks.shared import effort, median, show
from java.build_component import build
from tests.support.ivy import Wanted, jars
from tests.support.s3.s3_server import S3Access, real_server
from tests.support.s3.s3a_jars import s3a_jars


KEPT = 10  # batches; the purge begins after them
OWN = "component"
SPARK = "Spark's manager"
_MANAGERS = {
    OWN: "io.github.sparkha.HaCheckpointFileManager",
    SPARK: "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager",
}
_STATE = "spark.sql.streaming.stateStore."
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def conf(manager: str, s3: S3Access, endpoint: str, bucket: str) -> dict[str, str]:
    """Return the conf of one run."""
    of_component = {
        "spark.hadoop.fs.has3a.impl": "io.github.sparkha.HaFileSystem",
        "spark.hadoop.fs.ha.root": f"s3a://{bucket}",
        "spark.hadoop.fs.ha.writer": "1/s/process",
    }
    return {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.jars": ",".join(map(str, (build(), *s3a_jars(), *_of_spark()))),
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.streaming.minBatchesToRetain": str(KEPT),
        "spark.sql.streaming.checkpointFileManagerClass": _MANAGERS[manager],
        f"{_STATE}providerClass": _ROCKSDB,
        f"{_STATE}checkpointFormatVersion": "2",
        f"{_STATE}maintenanceInterval": "5s",
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": s3.access_key,
        "spark.hadoop.fs.s3a.secret.key": s3.secret_key,
        **(of_component if manager == OWN else {}),
    }


def _of_spark() -> tuple[Path, ...]:
    """Return the jar with Spark's manager, in the release of docs/how-to/s3.md."""
    wanted = Wanted("org.apache.spark", "spark-hadoop-cloud_2.13", "4.1.2", transitive=False)
    return jars("hadoop-cloud-4.1.2", (wanted,))


def batch_of(query: Any) -> int:
    """Return the last batch that is over; -1 before the first."""
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])


def play(values: dict[str, str], checkpoint: str, batches: int, parent: Connection) -> None:
    """Execute batches in this process; tell the parent when those that count begin, and the times of all at the end."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in values.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    if checkpoint.startswith("ha"):
        jvm: Any = spark._jvm  # noqa: SLF001  # it has no public name
        jvm.io.github.sparkha.Gate.bind("j", 1, checkpoint)
        jvm.io.github.sparkha.Gate.extend(int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1000) + 3_600_000)
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1000).load()
    counted = rows.groupBy((rows["value"] % 500).alias("key")).count()
    writer = counted.writeStream.outputMode("update").format("noop")
    query = writer.option("checkpointLocation", f"{checkpoint}/counts").trigger(processingTime="0 seconds").start()
    for last in (KEPT + 5, KEPT + 5 + batches):
        while (at := batch_of(query)) < last:
            if query.exception() is not None:
                raise RuntimeError(str(query.exception()))
            time.sleep(0.005)
        parent.send(at)
    times = [each["durationMs"]["triggerExecution"] for each in query.recentProgress if each["batchId"] > KEPT + 5]
    query.stop()
    parent.send(times)
    spark.stop()


@contextmanager
def playing(manager: str, s3: S3Access, endpoint: str, batches: int) -> Iterator[Connection]:
    """Start a run; yields what it says."""
    bucket = s3.new_bucket()
    checkpoint = f"{'ha' if manager == OWN else ''}s3a://{bucket}/jobs/j/e1-x"
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    values = conf(manager, s3, endpoint, bucket)
    process = context.Process(target=play, args=(values, checkpoint, batches, theirs))
    process.start()
    theirs.close()
    try:
        yield ours
    finally:
        process.join()


def time_of_a_batch(manager: str, s3: S3Access, batches: int) -> float:
    """Return the median of one run in milliseconds."""
    with playing(manager, s3, s3.endpoint, batches) as said:
        said.recv(), said.recv()
        return median(said.recv())


def requests_of_a_batch(manager: str, s3: S3Access, batches: int) -> dict[str, float]:
    """Return kind -> requests of one batch."""
    with counting_proxy(s3.endpoint) as (endpoint, counts), playing(manager, s3, endpoint, batches) as said:
        first = said.recv()
        before = counts.copy()
        done = said.recv() - first
        after = counts.copy()
        said.recv()
    return {kind: (after[kind] - before[kind]) / done for kind in KINDS}


def main() -> None:
    """Measure and print."""
    given = effort(__doc__, pairs=5)
    rounds, batches = given.pairs, 10 if given.quick else 100
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    with tempfile.TemporaryDirectory() as folder, real_server() as s3:
        os.chdir(Path(folder))  # where Spark leaves what it leaves
        asked = {manager: requests_of_a_batch(manager, s3, batches) for manager in _MANAGERS}
        pairs = [tuple(time_of_a_batch(manager, s3, batches) for manager in _MANAGERS) for _ in range(rounds)]
    own, spark = (sum(asked[manager].values()) for manager in (OWN, SPARK))
    rows = [
        (name, *(f"{asked[name][kind]:.1f}" for kind in KINDS), f"{total:.1f}", f"{total / spark:.2f}")
        for name, total in ((SPARK, spark), (OWN, own))
    ]
    show(f"requests of a batch, mean of {batches}", ("manager", *KINDS, "all", "ratio"), rows)
    ratio = median([mine / of_spark for mine, of_spark in pairs])
    times = [
        (SPARK, f"{median([pair[1] for pair in pairs]):.0f} ms", "1.00"),
        (OWN, f"{median([pair[0] for pair in pairs]):.0f} ms", f"{ratio:.2f}"),
    ]
    show(f"time of a batch, median of {rounds} pairs of runs", ("manager", "median", "ratio"), times)


if __name__ == "__main__":
    main()
