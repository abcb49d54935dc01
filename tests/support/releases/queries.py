"""The queries that every release of Spark is recorded with, and how they are run.

A task is ``{"kind", "conf", "input", "checkpoint", "out"}``. Only PySpark of the release that runs is there, and Python
3.6 has to understand this file.
"""

import time
from pathlib import Path
from typing import Any


PREFIX = "spark.sql.streaming"
# One JVM makes all shapes of a release, so what one task sets, the next has to take back.
DEFAULTS = {
    PREFIX + ".minBatchesToRetain": "100",
    PREFIX + ".fileSource.log.compactInterval": "4",
    PREFIX + ".fileSink.log.compactInterval": "4",
    PREFIX + ".stateStore.minDeltasForSnapshot": "3",
}
COMPLETE = ("counts", "global", "chain")
DEADLINE = 300  # seconds; of a query that never ends by itself


def session() -> Any:
    """Start the one session: two threads, two partitions, nothing listening but loopback."""
    from pyspark.sql import SparkSession

    fixed = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        PREFIX + ".stateStore.maintenanceInterval": "300ms",
    }
    builder = SparkSession.builder.master("local[2]").appName("releases")
    for key, value in fixed.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def version(spark: Any) -> Any:
    """Return (major, minor) of the running Spark."""
    return tuple(int(part) for part in spark.version.split(".")[:2])


def lines(spark: Any, task: Any) -> Any:
    """Return the input: one file in each batch."""
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    schema = StructType([StructField("key", StringType()), StructField("value", LongType())])
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    if "sourceName" in task:
        reader = reader.name(task["sourceName"])
    return reader.json(task["input"])


def timed(rows: Any) -> Any:
    """Return *rows* with an event time, a second for each step of their value."""
    return rows.withColumn("at", rows["value"].cast("timestamp")).withWatermark("at", "1 second")


def windows(rows: Any) -> Any:
    """Return the counts of windows of ten seconds."""
    from pyspark.sql import functions as f

    counted = timed(rows).groupBy(f.window("at", "10 seconds")).count()
    return counted.select(f.col("window.start").cast("long").alias("key"), "count")


def windows_twice(rows: Any) -> Any:
    """Return the sums of larger windows over windows: two stateful operators, one behind the other."""
    from pyspark.sql import functions as f

    inner = timed(rows).groupBy(f.window("at", "10 seconds")).count()
    outer = inner.groupBy(f.window("window", "20 seconds").alias("outer")).agg(f.sum("count").alias("count"))
    return outer.select(f.col("outer.start").cast("long").alias("key"), "count")


def sessions(rows: Any) -> Any:
    """Return the counts of session windows."""
    from pyspark.sql import functions as f

    # Without another column it would be a global aggregation, which no release does with sessions.
    counted = timed(rows).groupBy(f.session_window("at", "3 seconds"), rows["value"] >= 0).count()
    return counted.select(f.col("session_window.start").cast("long").alias("key"), "count")


def deduplicated_within(rows: Any) -> Any:
    """Return the first row of each key within the watermark."""
    return timed(rows).dropDuplicatesWithinWatermark(["key"]).select("key", "value")


def counted_by_processor(rows: Any) -> Any:
    """Return running counts that ``transformWithState`` keeps: its own schema files, operator metadata of version 2."""
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Count(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.count = handle.getValueState("count", "n long")

        def handleInputRows(self, key: Any, rows: Any, timers: Any) -> Any:  # noqa: N802  # Spark's name
            del timers
            before = self.count.get()[0] if self.count.exists() else 0
            total = before + sum(1 for _ in rows)
            self.count.update((total,))
            yield Row(key=key[0], count=total)

        def close(self) -> None:
            pass

    return rows.groupBy("key").transformWithState(Count(), "key string, count long", "Append", "None")


KINDS = {
    "stateless": lambda rows: rows,
    "counts": lambda rows: rows.groupBy("key").count(),
    "global": lambda rows: rows.groupBy().count(),
    "chain": lambda rows: rows.dropDuplicates(["value"]).groupBy("key").count(),
    "dedup": lambda rows: rows.dropDuplicates(["key"]),
    "dedup-within": deduplicated_within,
    "join": lambda rows: rows.join(rows.withColumnRenamed("value", "other"), "key"),
    "limit": lambda rows: rows.limit(20),
    "windows": windows,
    "windows-twice": windows_twice,
    "sessions": sessions,
    "processor": counted_by_processor,
}


def configure(spark: Any, task: Any, known: Any) -> None:
    """Set the conf of a task, and take back what the ones before it have set."""
    for key in known:
        spark.conf.unset(key)
    for key, value in dict(DEFAULTS, **task["conf"]).items():
        spark.conf.set(key, value)
        known.add(key)


def writer(spark: Any, task: Any) -> Any:
    """Return the query of a task, with no sink yet."""
    mode = "complete" if task["kind"] in COMPLETE else "append"
    frame = KINDS[task["kind"]](lines(spark, task))
    return frame.writeStream.outputMode(mode).option("checkpointLocation", task["checkpoint"])


def run(spark: Any, started: Any) -> None:
    """Start a query and let it read all that is there, to a batch boundary where the release can be told to."""
    if version(spark) >= (3, 3):
        query = started.trigger(availableNow=True).start()
        if not query.awaitTermination(DEADLINE):
            query.stop()
            raise RuntimeError("it does not end")
        return
    query = started.start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()


def record(spark: Any, task: Any) -> None:
    """Run a query over its input; its rows go to files, or nowhere."""
    if task["kind"] in {"continuous", "async"}:
        record_endless(spark, task)
        return
    into = writer(spark, task)
    if task.get("snapshots"):
        run(spark, into.foreachBatch(lambda frame, batch: await_snapshot(frame, batch, task)))
    elif task.get("out"):
        run(spark, into.format("json").option("path", task["out"]))
    else:
        run(spark, into.format("noop" if version(spark) >= (3, 0) else "console"))
    if task.get("repartition"):
        manager = spark._jsparkSession.streamingCheckpointManager()
        manager.repartition(task["checkpoint"], task["repartition"], True)


def await_snapshot(frame: Any, batch: Any, task: Any) -> None:
    """Write a batch to nowhere, and wait until maintenance has made a snapshot of the state after it."""
    frame.write.format("noop").mode("overwrite").save()
    place, end = Path(task["checkpoint"], "state", "0"), time.time() + DEADLINE
    while any(not snapshots(place / part, batch + 1) for part in ("0", "1")):
        if time.time() > end:
            raise RuntimeError("there is no snapshot after batch {}".format(batch))  # noqa: EM103, UP032
        time.sleep(0.1)


def snapshots(store: Any, version: Any) -> Any:
    """Return the snapshots of one version of a store, of any provider and format."""
    return [path for path in store.glob("{}*".format(version)) if path.suffix in (".zip", ".snapshot")]  # noqa: UP032


def record_endless(spark: Any, task: Any, seen: Any = None) -> None:
    """Run a query that never ends until its log shows what it was started for, and stop it."""
    seen = seen or (lambda: enough(task))
    rows = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
    into = rows.writeStream.format("console" if version(spark) < (3, 0) else "noop")
    into = into.option("checkpointLocation", task["checkpoint"])
    if task["kind"] == "continuous":
        query = into.trigger(continuous="300 milliseconds").start()
    else:
        into = into.option("asyncProgressTrackingEnabled", "true")
        into = into.option("asyncProgressTrackingCheckpointIntervalMs", task.get("interval", "3000"))
        query = into.trigger(processingTime="0 seconds").start()
    end = time.time() + DEADLINE
    while time.time() < end and not seen():
        if query.exception() is not None:
            raise RuntimeError(str(query.exception()))
        time.sleep(0.2)
    query.stop()


def enough(task: Any) -> bool:
    """Whether the logs of an endless query say what is to be recorded: epochs, or batches that were left out."""
    batches = [int(path.name) for path in Path(task["checkpoint"], "commits").glob("*") if path.name.isdigit()]
    if task["kind"] == "continuous":
        return len(batches) >= task.get("epochs", 4)  # type: ignore[no-any-return]  # a new name would be new code
    if task.get("purged") and min(batches, default=0) < 3:
        return False
    return len(batches) >= 3 and max(batches) - min(batches) >= len(batches) + 1
