"""A plain PySpark script that is cheap to keep alive: one query, one row per second, into nothing."""

from pyspark.sql import SparkSession


spark = SparkSession.builder.appName("ticking").getOrCreate()
ticks = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
ticks.writeStream.queryName("ticks").format("noop").trigger(processingTime="1 second").start().awaitTermination()
