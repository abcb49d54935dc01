"""A script that reads a topic; its client gives up after seconds, not minutes.

Arguments: brokers, topic.
"""

import sys

from pyspark.sql import DataFrame, SparkSession


servers, topic = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.appName("topic").getOrCreate()
rows = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", servers)
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .option("kafka.request.timeout.ms", "5000")
    .option("kafka.default.api.timeout.ms", "10000")
    .option("fetchOffset.numRetries", "1")
    .load()
)


def count(frame: DataFrame, _: int) -> None:
    """Read the rows of a batch."""
    frame.count()


rows.writeStream.queryName("rows").foreachBatch(count).start()
spark.streams.awaitAnyTermination()
