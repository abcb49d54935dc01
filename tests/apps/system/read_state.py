"""Reads the state of the flight job with plain Spark: ``read_state.py CHECKPOINTS OUT``, a directory for each query."""

import json
import sys
from pathlib import Path

from pyspark.sql import Column, SparkSession, functions


checkpoints, out = sys.argv[1:]
spark = SparkSession.builder.appName("read-state").config("spark.sql.session.timeZone", "UTC").getOrCreate()
spark._jsparkSession.streams()  # the data source takes it for granted
spark.conf.set("spark.sql.streaming.stateStore.checkpointFormatVersion", "2")
ISO = "yyyy-MM-dd'T'HH:mm:ss'Z'"


def state(query: str, *columns: str | Column) -> list[list[object]]:
    frame = spark.read.format("statestore").load(f"{checkpoints}/{query}")
    return [list(row) for row in frame.select("key.*", "value").select(*columns).collect()]


hour = functions.date_format(functions.col("window.start"), ISO)
late = functions.date_format("time_hour", ISO)
key = ["carrier", "flight", "origin", "dest", "year", "month", "day", "sched_dep_time"]
found = {
    "hourly_delays": state("hourly_delays", hour, "origin", "carrier", "value"),
    "long_delays": state("long_delays", *key, late),
}
Path(out).write_text(json.dumps(found))
spark.stop()
