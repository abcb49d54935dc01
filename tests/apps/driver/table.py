"""A script without a word of high availability: it names no query, has its own checkpoint location, and writes tables.

Arguments: input directory, directory of its checkpoints.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f


source, own = sys.argv[1:]
spark = SparkSession.builder.appName("tables").getOrCreate()
rows = spark.readStream.schema("ts timestamp, key string, value long").option("maxFilesPerTrigger", 1).json(source)
counted = rows.withWatermark("ts", "0 seconds").groupBy(f.window("ts", "1 minute"), "key")
totals = counted.agg(f.count("*").alias("n"), f.sum("value").alias("total"))
flat = totals.select(f.col("window.start").cast("long").alias("start"), "key", "n", "total")
flat.writeStream.format("json").option("checkpointLocation", f"{own}/windows").toTable("windows")
copies = rows.withColumn("minute", f.minute("ts")).writeStream.partitionBy("minute").option("checkpointLocation", own)
copies.toTable("copies", format="json")
spark.streams.awaitAnyTermination()
spark.stop()
