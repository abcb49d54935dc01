"""A script with every query that cannot be made highly available. It swallows the refusals and writes them down.

Arguments: a file for what was refused (way -> reason), a directory with checkpoints of the script's own time.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.streaming import StreamingContext


report, own = sys.argv[1:]
spark = SparkSession.builder.config("spark.sql.streaming.checkpointLocation", f"{own}/none").getOrCreate()
refused: dict[str, str] = {}


def writer() -> DataStreamWriter:
    """Write nothing, slowly."""
    stream = spark.readStream.format("rate").load().writeStream
    return stream.format("noop").trigger(processingTime="1 hour")


def attempt(way: str, start: Callable[[], Any]) -> None:
    """Try, and go on."""
    try:
        start()
    except Exception as error:  # noqa: BLE001  # this script hides what it can
        refused[way] = str(error)


attempt("good", lambda: writer().queryName("q").start())
attempt("new location", lambda: writer().queryName("n").option("checkpointLocation", f"{own}/new").start())
attempt("unnamed", lambda: writer().foreachBatch(lambda *_: None).start())
attempt("unnamed output", lambda: writer().format("json").start(f"{own}-rows"))
attempt("unnamed output again", lambda: writer().format("csv").start(f"{own}-rows/"))
attempt("twice", lambda: writer().queryName("q").start())
attempt("location", lambda: writer().queryName("a").option("checkpointLocation", f"{own}/a").start())
attempt("location as keyword", lambda: writer().start(queryName="b", checkpointLocation=f"{own}/a"))
attempt("continuous", lambda: writer().queryName("c").trigger(continuous="1 second").start())
attempt("table", lambda: writer().queryName("d").format("hudi").toTable("t"))
attempt("table elsewhere", lambda: writer().queryName("d").format("json").toTable("other.db.t"))
attempt("table in the warehouse", lambda: writer().queryName("d").format("json").toTable("streamed"))
attempt("sink", lambda: writer().queryName("e").format("json").start("s3a://bucket/out"))
attempt("relative", lambda: writer().queryName("g").format("json").start("out"))
attempt("relative option", lambda: writer().queryName("h").format("csv").option("PATH", "file:out").start())
attempt("batch", lambda: spark.range(1).write.mode("append").parquet("rows"))
attempt("batch option", lambda: spark.range(1).write.option("path", "rows").save(format="orc"))
attempt("batch table", lambda: spark.range(1).write.saveAsTable("t", path="rows"))
attempt("stream", lambda: spark.readStream.text("input"))
attempt("stream option", lambda: spark.readStream.format("csv").option("Path", "file:input").load())
attempt("warehouse", lambda: spark.range(1).write.saveAsTable("t"))
attempt("dstreams", lambda: StreamingContext(spark.sparkContext, 1).start())
spark.range(1).write.json(f"{own}-absolute")
spark.conf.set("spark.sql.streaming.checkpointLocation", own)
attempt("conf", lambda: writer().queryName("a").start())
Path(report).write_text(json.dumps(refused))
