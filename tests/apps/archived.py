"""Touch the classes that tests use: a file source, state, a file sink, foreachBatch, S3A. Argument: a folder."""

import contextlib
import json
import sys
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f


folder = Path(sys.argv[1])
(folder / "in").mkdir()
for minute in range(3):
    row = {"ts": f"2024-01-01T00:0{minute}:00Z", "key": "a", "value": minute}
    (folder / "in" / f"{minute}.json").write_text(json.dumps(row))
conf: dict[str, bool | float | int | str | None] = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.checkpointLocation": f"{folder}/checkpoints",
    "spark.sql.warehouse.dir": f"{folder}/warehouse",
}
spark = SparkSession.builder.config(map=conf).getOrCreate()


def rows() -> DataFrame:
    """Read one file per batch."""
    stream = spark.readStream.schema("ts timestamp, key string, value long").option("maxFilesPerTrigger", 1)
    return stream.json(f"{folder}/in").withWatermark("ts", "0 seconds")


def collect(frame: DataFrame, batch: int) -> None:
    """Read a batch."""
    del batch
    frame.collect()


windows = rows().groupBy(f.window("ts", "1 minute"), "key").agg(f.count("*").alias("n"))
flat = windows.select(f.col("window.start").cast("long").alias("start"), "key", "n")
queries = [
    flat.writeStream.format("json").option("path", f"{folder}/out").trigger(availableNow=True).start(),
    rows().dropDuplicates(["key", "ts"]).writeStream.foreachBatch(collect).trigger(availableNow=True).start(),
]
for query in queries:
    query.awaitTermination()
rocksdb = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
spark.conf.set("spark.sql.streaming.stateStore.providerClass", rocksdb)
counts = rows().groupBy("key").count().writeStream.outputMode("update")
counts.format("noop").trigger(availableNow=True).start().awaitTermination()
context = spark.sparkContext
jvm = context._jvm  # PySpark has no other way to Hadoop's classes
assert jvm is not None
if "hadoop-aws" in jvm.java.lang.System.getProperty("java.class.path"):
    store = jvm.org.apache.hadoop.conf.Configuration()
    for name, value in {
        "fs.s3a.endpoint": "http://127.0.0.1:9",
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.access.key": "a",
        "fs.s3a.secret.key": "b",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.attempts.maximum": "1",
        "fs.s3a.retry.limit": "0",
        "fs.s3a.connection.establish.timeout": "1s",
    }.items():
        store.set(name, value)
    opened = jvm.org.apache.hadoop.fs.Path("s3a://bucket/").getFileSystem(store)
    with contextlib.suppress(Py4JJavaError):  # nothing listens there: the classes of a request are loaded by then
        opened.getFileStatus(jvm.org.apache.hadoop.fs.Path("s3a://bucket/a"))
    opened.close()
spark.stop()
