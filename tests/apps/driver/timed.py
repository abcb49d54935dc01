"""A plain PySpark script with one query whose ``foreachBatch`` notes when it was called.

Arguments: input directory, file of the notes: one line per call with the batch and the wall-clock time of its begin.
"""

import sys
import time

from pyspark.sql import DataFrame, SparkSession


source, notes = sys.argv[1:]
spark = SparkSession.builder.appName("timed").getOrCreate()


def note(frame: DataFrame, batch: int) -> None:
    """Note the call, then read the rows."""
    with open(notes, "a", encoding="utf-8") as file:  # noqa: PTH123  # plain Python, as users write it
        file.write(f"{batch} {time.time()}\n")
    frame.count()


rows = spark.readStream.schema("ts timestamp, key string, value long").option("maxFilesPerTrigger", 1).json(source)
rows.writeStream.queryName("rows").foreachBatch(note).start()
spark.streams.awaitAnyTermination()
spark.stop()
