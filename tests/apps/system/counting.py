"""A plain PySpark script that counts: numbers from 0 on, fifty a second, each once, as JSON lines."""

import argparse

from pyspark.sql import SparkSession


parser = argparse.ArgumentParser()
parser.add_argument("--input", help="not needed: it counts by itself")
parser.add_argument("--output", required=True)
given = parser.parse_args()

spark = SparkSession.builder.appName("counting").getOrCreate()
numbers = spark.readStream.format("rate").option("rowsPerSecond", 50).option("numPartitions", 1).load()
counting = numbers.select("value").writeStream.queryName("counting").format("json").option("path", given.output)
counting.trigger(processingTime="1 second").start().awaitTermination()
