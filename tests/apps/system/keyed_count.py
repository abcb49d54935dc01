"""A plain PySpark script that counts rows per key, with state, into nothing: it is killed and started again.

Its first batch has every key, so that the state has its size from then on.
"""

import sys

from pyspark.sql import SparkSession, functions


rows, keys = int(sys.argv[1]), int(sys.argv[2])
every = sys.argv[3] if len(sys.argv) > 3 else "1 second"
spark = SparkSession.builder.appName("keyed-count").getOrCreate()
source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", str(rows)).option("numPartitions", 4).load()
value = functions.col("value")
every_key = functions.sequence(value, functions.lit(max(keys, rows) - 1), functions.lit(rows))
key = functions.when(value < rows, every_key).otherwise(functions.array(value % keys))
counted = source.select(functions.explode(key).alias("key")).groupBy("key").count()
writer = counted.writeStream.queryName("counts").format("noop").outputMode("update")
writer.trigger(processingTime=every).start()
spark.streams.awaitAnyTermination()
spark.stop()
