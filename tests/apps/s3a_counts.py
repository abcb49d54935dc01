"""Counts rows by key in a state store, and notes each batch in a file: ``s3a_counts.py CONF CHECKPOINT NOTES``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # Spark's own name for it


def main(conf: Path, checkpoint: str, notes: Path) -> None:
    """Run until it is killed."""
    builder = SparkSession.builder.master("local[2]").appName("s3a_counts")
    for name, value in json.loads(conf.read_text(encoding="utf-8")).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()

    def note(counts: DataFrame, batch: int) -> None:
        total = sum(row["count"] for row in counts.collect())
        prepared = notes / ".prepared"
        prepared.write_text(str(total), encoding="utf-8")
        prepared.replace(notes / str(batch))

    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    counts = rows.groupBy((F.col("value") % 5).alias("key")).count()
    query = counts.writeStream.outputMode("complete").foreachBatch(note).option("checkpointLocation", checkpoint)
    query.trigger(processingTime="500 milliseconds").start().awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
