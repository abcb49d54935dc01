"""A script that makes one mistake of its user, before or in its first batch.

Arguments: what the mistake is, the input directory, the output directory, and how often the source is read.
"""

import functools
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession


if sys.argv[1] == "arguments":
    print("usage: mistakes.py --input INPUT", file=sys.stderr)
    print("mistakes.py: error: the following arguments are required: --input", file=sys.stderr)
    sys.exit(2)
if sys.argv[1] == "file":
    Path(__file__).with_name("settings.ini").read_text()

how, source, output, times = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
spark = SparkSession.builder.getOrCreate()


def unread(frame: DataFrame, batch: int) -> None:
    """Do nothing today."""


def count(frame: DataFrame, batch: int) -> None:
    """Read the frame."""
    frame.count()


def price(frame: DataFrame, batch: int) -> None:
    """Fail as a function with a typo."""
    raise KeyError("price")


rows = spark.readStream.schema("ts timestamp, key string, value long").option("maxFilesPerTrigger", 1).json(source)
if how == "union":
    parts = [rows.filter(f"value % {times} = {number}") for number in range(times)]
    functools.reduce(DataFrame.union, parts).writeStream.queryName("rows").format("json").start(output)
elif how == "unread":
    rows.groupBy("key").count().writeStream.queryName("rows").outputMode("update").foreachBatch(unread).start()
elif how in ("counts", "schema"):
    counts = rows.dropDuplicates(["key"]) if times > 1 else rows
    counts.groupBy("key" if how == "counts" else "value").count().writeStream.queryName("rows").outputMode(
        "update"
    ).foreachBatch(count).start()
else:
    rows.writeStream.queryName("rows").foreachBatch(price).start()
spark.streams.awaitAnyTermination()
