"""A script that writes a Kafka topic of numbers into two Delta tables, ten rows a batch, each in its own way.

Arguments: brokers, topic, directory of the tables. ``sink`` writes by Delta's own sink, which remembers the batches of
the query. ``function`` writes from a ``foreachBatch`` function, and the table drops the numbers of batches that it has
under the id of the query's past.
"""

import sys

from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ha.driver import context


servers, topic, tables = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()


def write(frame: DataFrame, batch: int) -> None:
    """Write a batch once, however often it is given."""
    leader = context.current()
    assert leader is not None, "it runs with high availability"
    writer = frame.write.format("delta").mode("append").option("txnVersion", batch)
    writer = writer.option("txnAppId", leader.query_id("function"))
    writer.save(f"{tables}/function")


rows = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", servers)
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", "10")
    .load()
    .selectExpr("cast(cast(value as string) as int) as number")
)
rows.writeStream.queryName("sink").format("delta").start(f"{tables}/sink")
rows.writeStream.queryName("function").foreachBatch(write).start()
spark.streams.awaitAnyTermination()
