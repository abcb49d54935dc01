"""A plain PySpark script that writes down what it was told, and then ticks: one row per second, into nothing."""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession


spark = SparkSession.builder.appName("told").getOrCreate()
conf = {name: spark.conf.get(name) for name in ("spark.sql.shuffle.partitions", "spark.told.words")}
Path(sys.argv[1]).write_text(json.dumps({"arguments": sys.argv[2:], "conf": conf}), encoding="utf-8")

ticks = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
ticks.writeStream.queryName("ticks").format("noop").trigger(processingTime="1 second").start().awaitTermination()
