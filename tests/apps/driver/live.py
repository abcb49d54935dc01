"""A plain PySpark script that copies a Kafka topic to another one, in real-time or in continuous mode.

Arguments: name of the trigger (``realTime`` or ``continuous``), broker, topic to read, topic to write.
"""

import sys

from pyspark.sql import SparkSession


trigger, servers, topic, target = sys.argv[1:]
spark = SparkSession.builder.appName("live").getOrCreate()
rows = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", servers)
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .load()
    .selectExpr("CAST(value AS STRING) value")
)
writer = rows.writeStream.queryName("live").format("kafka").option("kafka.bootstrap.servers", servers)
writer = writer.option("topic", target).outputMode("update" if trigger == "realTime" else "append")
writer.trigger(**{trigger: "2 seconds"}).start()
spark.streams.awaitAnyTermination()
