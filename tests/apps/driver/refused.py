"""A script that cannot be made highly available; the argument says in which way. It swallows the refusal."""

import contextlib
import sys

from pyspark.sql import SparkSession


way = sys.argv[1]
spark = SparkSession.builder.getOrCreate()
writer = spark.readStream.format("rate").load().writeStream.format("noop")
if way == "location":
    writer = writer.queryName("q").option("checkpointLocation", sys.argv[2])
elif way == "conf":
    spark.conf.set("spark.sql.streaming.checkpointLocation", sys.argv[2])
    writer = writer.queryName("q")
elif way == "twice":
    writer.queryName("q").start()
elif way == "continuous":
    writer = writer.queryName("q").trigger(continuous="1 second")
elif way == "table":
    with contextlib.suppress(Exception):
        writer.queryName("q").toTable("t")
    sys.exit(0)
elif way == "raises":
    raise RuntimeError("no such table")
with contextlib.suppress(Exception):
    writer.start()
