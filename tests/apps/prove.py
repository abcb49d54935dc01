"""Scripts as users write them, over the input of a shape of the corpus; what leaves a trace must not happen.

``prove.py INPUT CHECKPOINT TRACE KIND``: counts by key; *KIND* says where it writes and what else the script does.
"""

import atexit
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ha.driver import current


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

if kind == "not-asked-for":
    # The script has two queries, and no "counts": what follows the waits must not happen.
    other = lines.writeStream.queryName("other").format("json")
    other.option("checkpointLocation", f"{trace}/other-checkpoint").start(f"{trace}/other").awaitTermination()
    Path(trace, "behind-a-wait").touch()
    sys.exit()

if kind == "never":
    spark.stop()
    sys.exit()

if kind == "other-schema":
    counts = lines.groupBy("key", "value").count()
elif kind == "raises":
    raise ValueError("no such table")
else:
    counts = lines.groupBy("key").count()


@contextmanager
def lock_row() -> Iterator[None]:
    """What a script holds while its queries run."""
    try:
        yield
    finally:
        Path(trace, "released").touch()


def started() -> None:
    """Start the query in a thread, as a script with several queries does."""
    try:
        writer.foreachBatch(leave_trace).start().awaitTermination()
    finally:
        Path(trace, "finally-of-a-thread").touch()


writer = counts.writeStream.queryName("counts").outputMode("complete").option("checkpointLocation", checkpoint)
if kind == "file":
    lines.writeStream.queryName("plain").format("json").option("checkpointLocation", checkpoint).start(f"{trace}/out")
elif kind == "finally":
    atexit.register(Path(trace, "atexit").touch)
    with lock_row():
        try:
            writer.foreachBatch(leave_trace).start().awaitTermination()
        finally:
            Path(trace, "finally").touch()
elif kind == "thread":
    leader = current()
    if os.environ["SPARK_HA_REHEARSAL"] != "1" or leader is None or not leader.rehearsal:
        Path(trace, "not-told").touch()
    threading.Thread(target=started).start()
    lines.writeStream.queryName("other").format("json").start(f"{trace}/other").awaitTermination()
    Path(trace, "behind-a-wait").touch()
elif kind == "table":
    writer.toTable("counted")
else:
    writer.foreachBatch(leave_trace).trigger(processingTime="1 second").start()
spark.streams.awaitAnyTermination()
Path(trace, "after").touch()
