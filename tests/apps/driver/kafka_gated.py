"""A plain PySpark script that reads a Kafka topic of numbers, ten a batch, into JSON files.

Arguments: broker, topic, output directory, directory of the gates, and a topic that gets the numbers as well, when it
is given. While ``plan`` is among the gates a batch of the files does not get beyond its rows.
"""

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f


servers, topic, output, gates, *copied_to = sys.argv[1:]
spark = SparkSession.builder.appName("kafka").getOrCreate()


@f.udf("boolean", useArrow=False)
def admitted(_: int) -> bool:
    """Hold a row."""
    Path(gates, "plan-reached").touch()
    while Path(gates, "plan").exists():
        time.sleep(0.02)
    return True


rows = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", servers)
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", "10")
    .load()
)
numbers = rows.select(f.col("value").cast("string").cast("int").alias("number")).where(admitted("number"))
numbers.writeStream.queryName("numbers").format("json").option("path", output).start()
if copied_to:
    copies = rows.select("value").writeStream.queryName("copies").format("kafka")
    copies.option("kafka.bootstrap.servers", servers).option("topic", copied_to[0]).start()
spark.streams.awaitAnyTermination()
