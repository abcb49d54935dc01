"""A plain PySpark script that goes on with the query of the recorded job: rows per hour and key, into JSON files.

Arguments: input directory, output directory.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f


source, output = sys.argv[1:]
spark = SparkSession.builder.appName("stats").getOrCreate()
rows = spark.readStream.schema("key string, at timestamp").option("maxFilesPerTrigger", 1).json(source)
counts = rows.withWatermark("at", "0 seconds").groupBy(f.window("at", "1 hour"), "key").count()
shaped = counts.select(f.col("window.start").cast("string").alias("hour"), "key", "count")
shaped.writeStream.queryName("stats").outputMode("append").format("json").option("path", output).start()
spark.streams.awaitAnyTermination()
spark.stop()
