"""The program of a training: load the classes that a streaming job needs. Argument: an empty folder.

It runs in Spark's own Python, without this package, and reads nothing of a user: a file source, state on RocksDB that
is loaded once more from its checkpoint, ``foreachBatch`` with a Python worker, a file sink. Its end in order makes the
JVM write the archive.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession  # noqa: TID253  # a program of Spark's own Python
from pyspark.sql import functions as f  # noqa: TID253  # as above


folder = Path(sys.argv[1])
(folder / "in").mkdir()
for minute in range(4):
    row = {"ts": f"2024-01-01T00:0{minute}:00Z", "key": "a", "value": minute}
    (folder / "in" / f"{minute}.json").write_text(json.dumps(row))
spark = SparkSession.builder.appName("class-archive").getOrCreate()
spark.conf.set(
    "spark.sql.streaming.stateStore.providerClass",
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
)


@f.udf("boolean", useArrow=False)
def positive(value: int) -> bool:
    """Start a Python worker."""
    return value >= 0


def rows() -> DataFrame:
    """Read two files per batch."""
    stream = spark.readStream.schema("ts timestamp, key string, value long").option("maxFilesPerTrigger", 2)
    return stream.json(f"{folder}/in").withWatermark("ts", "0 seconds")


def collect(frame: DataFrame, batch: int) -> None:
    """Read a batch."""
    del batch
    frame.collect()


counts = rows().where(positive("value")).groupBy("key").count().writeStream.outputMode("update")
windows = rows().groupBy(f.window("ts", "1 minute"), "key").agg(f.count("*").alias("n"), f.sum("value").alias("total"))
flat = windows.select(f.col("window.start").cast("long").alias("start"), "key", "n", "total").writeStream
for more in range(2):  # the second time from the checkpoint of the first
    (folder / "in" / f"more-{more}.json").write_text(json.dumps(row))
    for writer, name in (
        (counts.foreachBatch(collect), "counts"),
        (flat.format("json").option("path", f"{folder}/out"), "windows"),
        (rows().dropDuplicates(["key", "ts"]).writeStream.format("noop"), "rows"),
    ):
        started = writer.option("checkpointLocation", f"{folder}/checkpoints/{name}").trigger(availableNow=True).start()
        started.awaitTermination()
spark.stop()
