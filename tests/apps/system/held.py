"""A PySpark script that ticks: one row per second, to a function that hangs for as long as a file is there.

Argument: the file.
"""

import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession


hold = Path(sys.argv[1])


def take(_: DataFrame, __: int) -> None:
    """Hang, or do nothing."""
    while hold.exists():
        time.sleep(0.2)


spark = SparkSession.builder.appName("held").getOrCreate()
ticks = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
ticks.writeStream.queryName("ticks").foreachBatch(take).trigger(processingTime="1 second").start().awaitTermination()
