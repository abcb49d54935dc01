"""A plain PySpark script whose batches can be held: windows of one minute into JSON files, rows once into sqlite.

Arguments: input directory, output directory, sqlite file, directory of the gates, queries to start. While ``plan`` is
among the gates the windows' batches do not get beyond their rows; while ``batch`` is, no batch is written to sqlite;
while ``script`` is, the script does not go on after it has started the windows.
"""

import sqlite3
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f


source, output, database, gates = sys.argv[1:5]
queries = sys.argv[5].split(",")
spark = SparkSession.builder.appName("gated").getOrCreate()


def wait_at(gate: str) -> None:
    """Say that this gate was reached, and wait until it is open."""
    Path(gates, f"{gate}-reached").touch()
    while Path(gates, gate).exists():
        time.sleep(0.02)


@f.udf("boolean", useArrow=False)
def admitted(_: int) -> bool:
    """Hold a row of the plan."""
    wait_at("plan")
    return True


def rows() -> DataFrame:
    """Read one file per batch."""
    stream = spark.readStream.schema("ts timestamp, key string, value long").option("maxFilesPerTrigger", 1)
    return stream.json(source).withWatermark("ts", "0 seconds")


def upsert(frame: DataFrame, batch: int) -> None:
    """Write a batch; a row that is there already counts its writes."""
    wait_at("batch")
    found = [(row["key"], row["value"], batch) for row in frame.collect()]
    with sqlite3.connect(database, timeout=30) as connection:
        connection.execute("create table if not exists seen (key, value, batch, writes, primary key (key, value))")
        connection.executemany(
            "insert into seen values (?, ?, ?, 1) on conflict do update set writes = writes + 1", found
        )


if "windows" in queries:
    counted = rows().where(admitted("value")).groupBy(f.window("ts", "1 minute"), "key")
    totals = counted.agg(f.count("*").alias("n"), f.sum("value").alias("total"))
    flat = totals.select(f.col("window.start").cast("long").alias("start"), "key", "n", "total")
    flat.writeStream.queryName("windows").outputMode("append").format("json").option("path", output).start()
    wait_at("script")
if "rows" in queries:
    rows().dropDuplicates(["key", "value", "ts"]).writeStream.queryName("rows").foreachBatch(upsert).start()
spark.streams.awaitAnyTermination()
spark.stop()
