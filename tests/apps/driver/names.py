"""Lines of text to one file sink for each name, which is any text. Arguments: input, output, names."""

import sys

from pyspark.sql import SparkSession


source, output, *names = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
lines = spark.readStream.text(source)
for number, name in enumerate(names):
    lines.writeStream.queryName(name).format("json").start(f"{output}/{number}")
spark.streams.awaitAnyTermination()
