"""Rows looked at in a console, epoch by epoch: Spark reports no progress of such a query."""

from pyspark.sql import SparkSession


spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.format("rate").load()
rows.selectExpr("concat('row ', value)").writeStream.format("console").trigger(continuous="1 second").start()
spark.streams.awaitAnyTermination()
