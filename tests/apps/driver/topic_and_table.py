"""A plain PySpark script that writes the rows of its input, each once, to a Kafka topic and to a Delta table.

Arguments: input directory, brokers, topic, directory of the table. A row of the topic has the epoch that wrote it.
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from airflow_provider_ha.driver import context


source, servers, topic, table = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
leader = context.current()
assert leader is not None, "it runs with high availability"


def rows() -> DataFrame:
    """Read one file per batch."""
    stream = spark.readStream.schema("ts timestamp, key string, value long").option("maxFilesPerTrigger", 1)
    return stream.json(source).withWatermark("ts", "0 seconds").dropDuplicates(["key", "value", "ts"])


texts = rows().select(f.to_json(f.struct("key", "value", f.lit(leader.epoch).alias("epoch"))).alias("value"))
to_topic = texts.writeStream.queryName("topic").format("kafka")
to_topic.option("kafka.bootstrap.servers", servers).option("topic", topic).start()
rows().writeStream.queryName("table").format("delta").start(table)
spark.streams.awaitAnyTermination()
