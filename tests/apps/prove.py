"""Scripts as users write them, over the input of a shape of the corpus; what leaves a trace must not happen.

``prove.py INPUT CHECKPOINT TRACE KIND``: counts by key; *KIND* says where it writes and what else the script does.
"""

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession


source, checkpoint, trace, kind = sys.argv[1:]
spark = SparkSession.builder.appName("prove").master("local[1]").getOrCreate()
lines = spark.readStream.schema("key string, value long").option("maxFilesPerTrigger", 1).json(source)


def leave_trace(frame: DataFrame, batch: int) -> None:
    """What a foreachBatch sink does."""
    Path(trace, f"batch-{batch}").write_text(str(frame.count()))


if kind == "other-first":
    # A query that is not asked for, and that the script waits for.
    other = lines.writeStream.queryName("other").format("json").option("path", f"{trace}/other")
    other.option("checkpointLocation", f"{trace}/other-checkpoint").start().awaitTermination()

if kind == "never":
    spark.stop()
    sys.exit()

if kind == "other-schema":
    counts = lines.groupBy("key", "value").count()
elif kind == "raises":
    raise ValueError("no such table")
else:
    counts = lines.groupBy("key").count()

writer = counts.writeStream.queryName("counts").outputMode("complete").option("checkpointLocation", checkpoint)
if kind == "file":
    lines.writeStream.queryName("plain").format("json").option("checkpointLocation", checkpoint).start(f"{trace}/out")
elif kind == "table":
    writer.toTable("counted")
else:
    writer.foreachBatch(leave_trace).trigger(processingTime="1 second").start()
spark.streams.awaitAnyTermination()
Path(trace, "after").touch()
