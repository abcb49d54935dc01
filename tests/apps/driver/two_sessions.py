"""Stops its session, and goes on with another one. Arguments: input, output."""

import sys
from pathlib import Path

from pyspark.sql import SparkSession


source, output = sys.argv[1:]
spark = SparkSession.builder.appName("first").getOrCreate()
spark.stop()
spark = SparkSession.builder.appName("second").config("spark.task.maxFailures", "7").getOrCreate()
Path(output, "conf").write_text(f"{spark.sparkContext.appName} {spark.conf.get('spark.task.maxFailures')}")
lines = spark.readStream.text(source)
first = lines.writeStream.queryName("first").format("json").start(f"{output}/first")
first.processAllAvailable()
spark.stop()
spark = SparkSession.builder.appName("third").getOrCreate()
Path(output, "ended").write_text(f"{first.isActive} {len(spark.streams.active)}")
lines = spark.readStream.text(source)
lines.writeStream.queryName("second").format("json").start(f"{output}/second").awaitTermination()
