"""A script whose query fails at its second batch, in the way that it is told.

Arguments: input directory, ``mistake``, ``udf``, ``server`` or ``never``.
"""

import socket
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f


source, how = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.appName("fails").getOrCreate()


@f.udf("long")
def priced(value: int) -> int:
    """Look up the price of a row."""
    return {1: 10, 2: 20}[value]


def write(frame: DataFrame, batch: int) -> None:
    """Take the first batch, and fail at the next one."""
    if batch == 0 or how == "never":
        frame.count()
    elif how == "mistake":
        raise KeyError("price")
    elif how == "udf":
        frame.select(priced("value")).collect()
    else:
        socket.create_connection(("127.0.0.1", 1), timeout=1)


rows = spark.readStream.schema("ts timestamp, key string, value long").option("maxFilesPerTrigger", 1).json(source)
rows.writeStream.queryName("rows").foreachBatch(write).start()
spark.streams.awaitAnyTermination()
