"""A plain PySpark script that waits on its first query before it starts the second.

Arguments: input directory, output directory, sqlite file, directory of the gates, names of both queries in the order of
their start. While ``warm`` is among the gates the script waits on the first one.
"""

import sqlite3
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery


source, output, database, gates = sys.argv[1:5]
first, second = sys.argv[5].split(",")
spark = SparkSession.builder.appName("warmup").getOrCreate()


def rows() -> DataFrame:
    """Read one file per batch."""
    stream = spark.readStream.schema("ts timestamp, key string, value long").option("maxFilesPerTrigger", 1)
    return stream.json(source).withWatermark("ts", "0 seconds")


def upsert(frame: DataFrame, batch: int) -> None:
    """Write a batch; a row that is there already counts its writes."""
    found = [(row["key"], row["value"], batch) for row in frame.collect()]
    with sqlite3.connect(database, timeout=30) as connection:
        connection.execute("create table if not exists seen (key, value, batch, writes, primary key (key, value))")
        connection.executemany(
            "insert into seen values (?, ?, ?, 1) on conflict do update set writes = writes + 1", found
        )


def start(name: str) -> StreamingQuery:
    """Start one of the two queries."""
    if name == "rows":
        return rows().dropDuplicates(["key", "value", "ts"]).writeStream.queryName(name).foreachBatch(upsert).start()
    totals = (
        rows().groupBy(f.window("ts", "1 minute"), "key").agg(f.count("*").alias("n"), f.sum("value").alias("total"))
    )
    flat = totals.select(f.col("window.start").cast("long").alias("start"), "key", "n", "total")
    return flat.writeStream.queryName(name).outputMode("append").format("json").option("path", output).start()


warming = start(first)
while Path(gates, "warm").exists() and not warming.awaitTermination(1):
    pass
start(second)
spark.streams.awaitAnyTermination()
spark.stop()
