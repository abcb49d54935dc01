"""A plain PySpark script that waits by itself: after it has started its query it never talks to the JVM again.

Arguments: input directory, output directory, anything.
"""

import sys
import time

from pyspark.sql import SparkSession


spark = SparkSession.builder.appName("sleeps").getOrCreate()
rows = spark.readStream.schema("ts timestamp, key string, value long").option("maxFilesPerTrigger", 1).json(sys.argv[1])
rows.writeStream.queryName("windows").format("json").option("path", sys.argv[2]).start()
while True:
    time.sleep(0.5)
