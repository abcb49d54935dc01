"""Reads a topic to its end, ten rows a batch; prints the rows of each batch and why the query failed, as JSON.

``kafka_rows.py SERVERS TOPIC CHECKPOINT JARS [FAIL_ON_DATA_LOSS]``
"""

from __future__ import annotations

import json
import sys

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession


def main(servers: str, topic: str, checkpoint: str, jars: str, fail_on_data_loss: str = "true") -> None:
    """Run the query until it has read everything."""
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    rows = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "10")
        .option("failOnDataLoss", fail_on_data_loss)
        .load()
    )
    read: dict[int, int] = {}
    query = (
        rows.writeStream.foreachBatch(lambda frame, batch: read.update({batch: frame.count()}))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    error = None
    try:
        query.awaitTermination()
    except StreamingQueryException as failure:
        error = str(failure)
    print(json.dumps({"rows": read, "error": error}))


if __name__ == "__main__":
    main(*sys.argv[1:])
