"""A plain PySpark script that counts rows per key, with state, into nothing: it is killed and started again."""

import sys

from pyspark.sql import SparkSession, functions


rows, keys = sys.argv[1], int(sys.argv[2])
every = sys.argv[3] if len(sys.argv) > 3 else "1 second"
spark = SparkSession.builder.appName("keyed-count").getOrCreate()
source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).option("numPartitions", 4).load()
counted = source.groupBy((functions.col("value") % keys).alias("key")).count()
writer = counted.writeStream.queryName("counts").format("noop").outputMode("update")
writer.trigger(processingTime=every).start()
spark.streams.awaitAnyTermination()
spark.stop()
