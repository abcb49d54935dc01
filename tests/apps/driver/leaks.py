"""A script whose third batch fails with an exception full of secrets.

Arguments: what the exception says, its secrets included.
"""

import sys

from pyspark.sql import DataFrame, SparkSession


FAILS_AT = 2
spark = SparkSession.builder.config("spark.hadoop.fs.s3a.secret.key", "secret-of-the-script").getOrCreate()


def write(frame: DataFrame, batch: int) -> None:
    """Write twice, then fail as a driver of a database does."""
    frame.count()
    if batch >= FAILS_AT:
        raise RuntimeError(sys.argv[1])


rows = spark.readStream.format("rate").option("rowsPerSecond", 5).load()
rows.groupBy("value").count().writeStream.outputMode("update").queryName("counts").foreachBatch(write).start()
spark.streams.awaitAnyTermination()
