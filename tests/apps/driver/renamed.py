"""A script that gives its query a new name with every start.

Arguments: input directory, output directory.
"""

import sys
import time

from pyspark.sql import DataFrame, SparkSession


source, output = sys.argv[1:3]
spark = SparkSession.builder.appName("renamed").getOrCreate()
rows = spark.readStream.schema("ts timestamp, key string, value long").option("maxFilesPerTrigger", 1).json(source)
name = f"rows_{time.time_ns()}"


def count(frame: DataFrame, batch: int) -> None:
    """Read a batch."""
    frame.count()


rows.writeStream.queryName(name).foreachBatch(count).start()
spark.streams.awaitAnyTermination()
