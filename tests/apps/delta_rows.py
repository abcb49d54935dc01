"""Runs one stateful query into a Delta table, step by step, and prints what came of each step, as JSON.

``delta_rows.py STEPS``: a JSON file with a list of ``{"checkpoint", "table", "sink", "batches", "copy_of", "forget",
"query_id"}``. A step with ``copy_of`` begins with a copy of another checkpoint, ``forget`` takes that commit
out of it, ``query_id`` gives it another id. Each batch brings five rows that no other batch has.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession


def main(steps: Path, ivy: str, packages: str) -> None:
    """Carry out the steps in one session."""
    streaming = "spark.sql.streaming.stateStore"
    conf = {
        "spark.jars.ivy": ivy,
        "spark.jars.packages": packages,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.databricks.delta.properties.defaults.checkpointInterval": "3",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        f"{streaming}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        f"{streaming}.checkpointFormatVersion": "2",
    }
    builder = SparkSession.builder.master("local[1]")
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    print(json.dumps([_step(spark, **step) for step in json.loads(steps.read_text(encoding="utf-8"))]))


def _step(spark: Any, *, checkpoint: str, table: str, sink: str = "delta", batches: int = 1, **change: Any) -> Any:
    _change(Path(checkpoint), **change)
    error = None
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load().dropDuplicates(["value"])
    for _ in range(batches):
        writer = rows.writeStream.format(sink).option("checkpointLocation", checkpoint).trigger(once=True)
        try:
            (writer.start(table) if sink == "delta" else writer.start()).awaitTermination()
        except StreamingQueryException as failure:
            error = str(failure)
            break
    values = spark.read.format("delta").load(table).select("value")
    return {"error": error, "rows": values.count(), "distinct": values.distinct().count()}


def _change(
    checkpoint: Path, *, copy_of: str | None = None, forget: int | None = None, query_id: str | None = None
) -> None:
    if copy_of is not None:
        shutil.copytree(copy_of, checkpoint)
    if forget is not None:
        for name in (str(forget), f".{forget}.crc"):
            (checkpoint / "commits" / name).unlink(missing_ok=True)
    if query_id is not None:
        (checkpoint / ".metadata.crc").unlink(missing_ok=True)
        (checkpoint / "metadata").write_text(json.dumps({"id": query_id}), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
