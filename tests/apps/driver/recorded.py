"""A script with effects outside of its queries, which notes each of them. Arguments: input, output, notes, URL."""

import json
import os
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from airflow_provider_ha.driver import current


source, output, notes, url = sys.argv[1:5]


def note(what: str, value: object = None) -> None:
    """Write down what is done now, and by which driver."""
    line = json.dumps({"what": what, "by": os.environ["SPARK_HA_SUBMISSION_ID"], "value": value})
    with Path(notes).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


class NumberReader(DataSourceStreamReader):
    """Five numbers; Spark confirms those that are committed."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  # pyspark's name
        return {"next": 0}

    def latestOffset(self, *_: object) -> dict[str, int]:  # noqa: N802  # pyspark's name
        return {"next": 5}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(number) for number in range(start["next"], end["next"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield (int(partition.value),)

    def commit(self, end: dict[str, int]) -> None:
        note("source commit", end["next"])


class Numbers(DataSource):
    """A source in Python."""

    @classmethod
    def name(cls) -> str:
        return "numbers"

    def schema(self) -> str:
        return "number int"

    def streamReader(self, schema: object) -> NumberReader:  # noqa: N802  # pyspark's name
        return NumberReader()


def write(frame: DataFrame, batch: int) -> None:
    """Note the rows of a batch."""
    note("foreachBatch", [batch, sorted(row["value"] for row in frame.select("value").distinct().collect())])


note("module")
with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310  # of the test's own server
    answer.read()
note("request")
here = current()
assert here is not None
spark = SparkSession.builder.appName("recorded").config("spark.task.maxFailures", "7").getOrCreate()
note("session", [spark.conf.get("spark.task.maxFailures"), here.epoch])
spark.range(3).write.mode("append").json(f"{output}/written")
note("write")
spark.dataSource.register(Numbers)
files = spark.readStream.schema("ts timestamp, key string, value long").option("maxFilesPerTrigger", 1)
cleaned = files.option("cleanSource", "archive").option("sourceArchiveDir", f"{output}/archive")
cleaned.json(source).writeStream.queryName("files").foreachBatch(write).start()
numbers = spark.readStream.format("numbers").load()
numbers.writeStream.queryName("numbers").format("json").start(f"{output}/numbers")
other = spark.newSession()
again = other.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
for turn in range(2):
    query = (
        again.writeStream.queryName("again").format("json").trigger(processingTime="1 second").start(f"{output}/again")
    )
    while query.lastProgress is None:
        query.awaitTermination(1)
    note("start", turn)
    if turn == 0:
        query.stop()
note("wait", spark.streams.awaitAnyTermination(2))
spark.streams.awaitAnyTermination()
