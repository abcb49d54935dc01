"""Lines of text to a file sink, looked at in a console and in memory. Arguments: input, output (``-`` for none)."""

import os
import sys

from pyspark.sql import SparkSession


spark = SparkSession.builder.getOrCreate()
lines = spark.readStream.text(sys.argv[1])
if sys.argv[2] != "-":
    lines.writeStream.queryName("lines").format("json").option("path", sys.argv[2]).start()
    lines.writeStream.queryName("seen").format("memory").outputMode("append").start()
    lines.writeStream.queryName(f"look_{os.getpid()}").format("console").start()
    lines.writeStream.queryName("look").format("console").start()
    lines.groupBy("value").count().writeStream.queryName("counts").format("memory").outputMode("complete").start()
lines.writeStream.format("console").start()
spark.streams.awaitAnyTermination()
