"""The query of ``stats.py`` in a script that holds something while it runs, and leaves traces when it lets go.

Arguments: input directory, output directory, directory of the traces.
"""

import atexit
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from airflow_provider_ha.driver import current


source, output, trace = sys.argv[1:]
leader = current()
if leader is None or not leader.rehearsal:
    Path(trace, "not-told").touch()
atexit.register(Path(trace, "atexit").touch)


@contextmanager
def lock_row() -> Iterator[None]:
    """Hold what the queries need."""
    try:
        yield
    finally:
        Path(trace, "released").touch()


spark = SparkSession.builder.appName("stats").getOrCreate()
rows = spark.readStream.schema("key string, at timestamp").option("maxFilesPerTrigger", 1).json(source)
counts = rows.withWatermark("at", "0 seconds").groupBy(f.window("at", "1 hour"), "key").count()
shaped = counts.select(f.col("window.start").cast("string").alias("hour"), "key", "count")
with lock_row():
    try:
        shaped.writeStream.queryName("stats").outputMode("append").format("json").option("path", output).start()
        spark.streams.awaitAnyTermination()
    finally:
        Path(trace, "finally").touch()
Path(trace, "after").touch()
