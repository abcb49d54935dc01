"""A script that writes to a relative path: "query" by its sink, "batch" inside ``foreachBatch``."""

import sys

from pyspark.sql import DataFrame, SparkSession


spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.format("rate").load().writeStream.queryName("q")


def write(batch: DataFrame, _: int) -> None:
    """Write a batch where the driver happens to stand."""
    batch.write.mode("append").parquet("out")


if sys.argv[1] == "query":
    rows.format("json").start("out")
else:
    rows.foreachBatch(write).start()
spark.streams.awaitAnyTermination()
