"""Delays of flights: statistics for every hour, and every long delay once.

Reads one CSV file per day as the files arrive. Two queries:

``hourly_delays``
    One row per hour, origin and carrier, written to JSON files once the hour is over.
``long_delays``
    Every departure that was at least an hour late, once, in a SQLite table. A file repeats the long delays of the day
    before, because they are confirmed only then.

Run it with ``spark-submit`` like any other script.
"""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Callable
from contextlib import closing

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the customary name


SCHEMA = """
    year int, month int, day int, dep_time int, sched_dep_time int, dep_delay long, arr_time int, sched_arr_time int,
    arr_delay long, carrier string, flight int, tailnum string, origin string, dest string, air_time int,
    distance int, hour int, minute int, time_hour timestamp
"""

# Files arrive in the order of their days, and nothing in a file is older than the day before it: a file holds the
# departures of one day in New York (05:00 to 04:59 UTC) and repeats the long delays of the day before. So when a file
# is read, the newest hour seen before it is at most 23 hours ahead of the file's oldest row: two days are never late.
WATERMARK = "2 days"

LONG_DELAY_MINUTES = 60
KEY = ["carrier", "flight", "origin", "dest", "year", "month", "day", "sched_dep_time"]

CREATE = """
    CREATE TABLE IF NOT EXISTS long_delays (
        carrier TEXT, flight INTEGER, origin TEXT, dest TEXT, year INTEGER, month INTEGER, day INTEGER,
        sched_dep_time INTEGER, dep_delay INTEGER NOT NULL,
        PRIMARY KEY (carrier, flight, origin, dest, year, month, day, sched_dep_time)
    )
"""
UPSERT = """
    INSERT INTO long_delays VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET dep_delay = excluded.dep_delay
"""


def read_flights(spark: SparkSession, directory: str, max_files: int) -> DataFrame:
    """Return the stream of departures."""
    return (
        spark.readStream.schema(SCHEMA)
        .option("header", value=True)
        .option("nullValue", "NA")
        .option("maxFilesPerTrigger", max_files)
        .csv(directory)
        .withWatermark("time_hour", WATERMARK)
    )


def hourly_delays(flights: DataFrame, airlines: DataFrame) -> DataFrame:
    """Return one row per hour, origin and carrier. Delays are in minutes; a cancelled flight has none."""
    per_hour = flights.groupBy(F.window("time_hour", "1 hour"), "origin", "carrier").agg(
        F.count("*").alias("flights"),
        F.count_if(F.col("dep_time").isNull()).alias("cancelled"),
        F.avg("dep_delay").alias("mean_departure_delay"),
        F.max("dep_delay").alias("worst_departure_delay"),
        F.sum("arr_delay").alias("total_arrival_delay"),
    )
    return per_hour.join(F.broadcast(airlines), "carrier", "left").select(
        F.date_format("window.start", "yyyy-MM-dd'T'HH:mm:ss'Z'").alias("hour"),
        "origin",
        "carrier",
        F.col("name").alias("airline"),
        "flights",
        "cancelled",
        "mean_departure_delay",
        "worst_departure_delay",
        "total_arrival_delay",
    )


def long_delays(flights: DataFrame) -> DataFrame:
    """Return every long delay once, however often it was reported."""
    late = flights.where(F.col("dep_delay") >= LONG_DELAY_MINUTES)
    return late.dropDuplicates([*KEY, "time_hour"]).select(*KEY, "dep_delay")


def upsert_into(table: str) -> Callable[[DataFrame, int], None]:
    """Return the function that writes a batch by key: writing it twice changes nothing."""

    def upsert(batch: DataFrame, _: int) -> None:
        rows = [tuple(row) for row in batch.collect()]
        with closing(sqlite3.connect(table, timeout=60)) as database, database:
            database.execute(CREATE)
            database.executemany(UPSERT, rows)

    return upsert


def main() -> None:
    """Start both queries and wait."""
    parser = argparse.ArgumentParser(description="Delays of flights, hour by hour")
    parser.add_argument("--input", required=True, help="directory in which one CSV file per day arrives")
    parser.add_argument("--output", required=True, help="directory of the hourly statistics")
    parser.add_argument("--table", required=True, help="SQLite file of the long delays")
    parser.add_argument("--airlines", required=True, help="CSV file with the names of the carriers")
    parser.add_argument("--max-files-per-trigger", type=int, default=10, help="files in one batch at most")
    arguments = parser.parse_args()

    # Hours are written as text: they must not depend on where the script runs.
    spark = SparkSession.builder.appName("flight-delays").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    airlines = spark.read.schema("carrier string, name string").option("header", value=True).csv(arguments.airlines)

    hourly_input = read_flights(spark, arguments.input, arguments.max_files_per_trigger)
    hourly = hourly_delays(hourly_input, airlines).writeStream.queryName("hourly_delays").outputMode("append")
    hourly.format("json").option("path", arguments.output).start()

    long_input = read_flights(spark, arguments.input, arguments.max_files_per_trigger)
    long_delays(long_input).writeStream.queryName("long_delays").foreachBatch(upsert_into(arguments.table)).start()

    spark.streams.awaitAnyTermination()
    spark.stop()


if __name__ == "__main__":
    main()
