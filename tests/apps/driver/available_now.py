"""A script that ends by itself: copies what is there, stops its session, exits with 0."""

import sys

from pyspark.sql import SparkSession


spark = SparkSession.builder.getOrCreate()
frame = spark.readStream.schema("ts timestamp, key string, value long").json(sys.argv[1])
query = frame.writeStream.format("json").trigger(availableNow=True).start(sys.argv[2], queryName="copy")
query.awaitTermination()
spark.stop()
sys.exit(0)
