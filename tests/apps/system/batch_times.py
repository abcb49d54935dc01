"""A plain PySpark script that counts rows per key at several paces, and writes how long its batches took.

Arguments: file for the times, batches of each pace, and paces such as ``0.1,0.3,1`` in seconds.
"""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession, functions


WARM = 10  # batches of a pace that do not count
into, batches, paces = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3].split(",")
spark = SparkSession.builder.appName("batch-times").getOrCreate()
spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", batches + WARM + 100)
source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1000).option("numPartitions", 2).load()
counted = source.groupBy((functions.col("value") % 1000).alias("key")).count()
took = {}
for pace in paces:
    writer = counted.writeStream.queryName("counts").format("noop").outputMode("update")
    query = writer.trigger(processingTime=f"{float(pace) * 1000:.0f} milliseconds").start()
    while len(query.recentProgress) < WARM + batches:
        if query.exception() is not None:
            raise RuntimeError(str(query.exception()))
        time.sleep(float(pace))
    done = [each for each in query.recentProgress if each["durationMs"].get("addBatch") is not None]
    took[pace] = [each["durationMs"]["triggerExecution"] for each in done[WARM : WARM + batches]]
    if pace != paces[-1]:  # the last one goes on until it is killed
        query.stop()
part = into.with_name(f"{into.name}.part")
part.write_text(json.dumps(took), encoding="utf-8")
part.rename(into)
spark.streams.awaitAnyTermination()
