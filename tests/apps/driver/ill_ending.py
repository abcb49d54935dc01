"""A plain PySpark script whose end goes wrong, as the files in a directory say.

Arguments: input directory, output directory, sqlite file, directory of the signs. ``batch``: writing a batch fails;
``hold``: no batch is written; ``second run``: the script fails when it runs again in the same process, which is how a
job is drained; ``linger``: the script does not end after its queries.
"""

import os
import sqlite3
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession


source, _, database, signs = sys.argv[1:5]
again = os.environ.get("ILL_ENDING_RAN") == str(os.getpid())
os.environ["ILL_ENDING_RAN"] = str(os.getpid())
if again and Path(signs, "second run").exists():
    raise RuntimeError("the second run fails")
spark = SparkSession.builder.appName("ill-ending").getOrCreate()


def upsert(frame: DataFrame, batch: int) -> None:
    """Write a batch, or fail."""
    Path(signs, "hold-reached").touch()
    while Path(signs, "hold").exists():
        time.sleep(0.02)
    if Path(signs, "batch").exists():
        raise RuntimeError("the batch fails")
    found = [(row["key"], row["value"], batch) for row in frame.collect()]
    with sqlite3.connect(database, timeout=30) as connection:
        connection.execute("create table if not exists seen (key, value, batch, primary key (key, value))")
        connection.executemany("insert or ignore into seen values (?, ?, ?)", found)


rows = spark.readStream.schema("ts timestamp, key string, value long").option("maxFilesPerTrigger", 1).json(source)
rows.writeStream.queryName("rows").foreachBatch(upsert).start()
spark.streams.awaitAnyTermination()
while Path(signs, "linger").exists():
    time.sleep(0.1)
