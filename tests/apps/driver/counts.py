"""A plain PySpark script: windows of one minute into JSON files, and every row once into sqlite.

Arguments: input directory, output directory, sqlite file, seconds that each sqlite batch takes.
"""

import sqlite3
import sys
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f


source, output, database, slow = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
spark = SparkSession.builder.appName("counts").getOrCreate()


def rows() -> DataFrame:
    """Read one file per batch."""
    stream = spark.readStream.schema("ts timestamp, key string, value long").option("maxFilesPerTrigger", 1)
    return stream.json(source).withWatermark("ts", "0 seconds")


def upsert(frame: DataFrame, batch: int) -> None:
    """Write a batch; a row that is there already counts its writes."""
    found = [(row["key"], row["value"], batch) for row in frame.collect()]
    time.sleep(slow)
    with sqlite3.connect(database, timeout=30) as connection:
        connection.execute("create table if not exists seen (key, value, batch, writes, primary key (key, value))")
        connection.executemany(
            "insert into seen values (?, ?, ?, 1) on conflict do update set writes = writes + 1", found
        )


windows = rows().groupBy(f.window("ts", "1 minute"), "key").agg(f.count("*").alias("n"), f.sum("value").alias("total"))
flat = windows.select(f.col("window.start").cast("long").alias("start"), "key", "n", "total")
flat.writeStream.queryName("windows").outputMode("append").format("json").option("path", output).start()
rows().dropDuplicates(["key", "value", "ts"]).writeStream.queryName("rows").foreachBatch(upsert).start()
spark.streams.awaitAnyTermination()
spark.stop()
