"""Reads a topic in real-time mode with each of the checkpoints, one after the other; prints what came of it, as JSON.

``kafka_realtime.py SERVERS TOPIC TARGET JARS BATCHES CHECKPOINT...``; a checkpoint whose name begins with ``state``
belongs to a query that keeps state. Each runs until it has ended that many batches; with 0 until it is killed.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession


_PREFIX = "spark.sql.streaming"
CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "1",
    f"{_PREFIX}.realTimeMode.minBatchDuration": "1s",
    # Operators with state are not in the list yet; what they leave in the logs has to be read all the same.
    f"{_PREFIX}.realTimeMode.allowlistCheck": "false",
    f"{_PREFIX}.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}


def session(jars: str) -> SparkSession:
    """Return a session; a real-time query holds one core for each partition as long as it runs."""
    builder = SparkSession.builder.master("local[4]").config("spark.jars", jars)
    for key, value in CONF.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def run(spark: SparkSession, kafka: tuple[str, str, str], batches: int, checkpoint: Path) -> dict[str, Any]:
    """Run one query; returns its id, its error, and the offset that each batch began and ended with."""
    servers, topic, target = kafka
    rows = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("CAST(value AS STRING) value")
    )
    if checkpoint.name.startswith("state"):
        rows = rows.dropDuplicates(["value"])
    query = (
        rows.writeStream.format("kafka")  # type: ignore[call-overload]  # pyspark names no realTime in its overloads
        .outputMode("update")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", target)
        .option("checkpointLocation", str(checkpoint))
        .trigger(realTime="2 seconds")
        .start()
    )
    error = None
    try:
        while query.isActive and (batches == 0 or len(query.recentProgress) < batches):
            time.sleep(0.1)
        if (failure := query.exception()) is not None:
            raise failure
    except StreamingQueryException as failure:
        error = str(failure)
    read = [[_offset(each, "startOffset", topic), _offset(each, "endOffset", topic)] for each in query.recentProgress]
    told = {"id": str(query.id), "error": error, "read": read}
    query.stop()
    return told


def _offset(progress: Any, name: str, topic: str) -> int | None:
    said = progress["sources"][0][name]
    found = json.loads(said) if said and said != "null" else None
    return int(found[topic]["0"]) if found else None


def main(servers: str, topic: str, target: str, jars: str, batches: str, *checkpoints: str) -> None:
    """Run each query."""
    spark = session(jars)
    for checkpoint in checkpoints:
        try:
            told = run(spark, (servers, topic, target), int(batches), Path(checkpoint))
        except Exception as error:  # noqa: BLE001  # a start that is refused is an outcome
            told = {"id": None, "error": str(error), "read": []}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
