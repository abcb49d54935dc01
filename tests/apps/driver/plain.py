"""A plain PySpark script: windows of one minute into JSON files, with its own checkpoint or the one of the package.

Arguments: input directory, output directory, and the checkpoint location when the job is not managed.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f


source, output, *checkpoint = sys.argv[1:]
spark = SparkSession.builder.appName("plain").getOrCreate()
rows = spark.readStream.schema("ts timestamp, key string, value long").option("maxFilesPerTrigger", 1).json(source)
counted = rows.withWatermark("ts", "0 seconds").groupBy(f.window("ts", "1 minute"), "key")
totals = counted.agg(f.count("*").alias("n"), f.sum("value").alias("total"))
flat = totals.select(f.col("window.start").cast("long").alias("start"), "key", "n", "total")
writer = flat.writeStream.queryName("windows").outputMode("append").format("json").option("path", output)
if checkpoint:
    writer = writer.option("checkpointLocation", checkpoint[0])
writer.start()
spark.streams.awaitAnyTermination()
spark.stop()
