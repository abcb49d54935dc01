"""A plain PySpark script that writes numbers, one file a batch, to sinks that keep no record of batches.

Arguments: input directory, output directory: ``foreach`` and ``custom`` there get a line for each number.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import Row, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType


source, output = sys.argv[1:]


def note(name: str, numbers: list[int]) -> None:
    """Add lines."""
    with Path(output, name).open("a", encoding="utf-8") as file:
        file.writelines(f"{number}\n" for number in numbers)


class Custom(DataSource):
    """A sink of DataSource V2, in Python."""

    @classmethod
    def name(cls) -> str:
        """Return its format."""
        return "custom"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802  # PySpark's names
        """Return what writes a query."""
        del schema, overwrite
        return CustomWriter()


class CustomWriter(DataSourceStreamWriter):
    """Writes batches."""

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        """Write the rows of a partition."""
        note("custom", [row["number"] for row in iterator])
        return WriterCommitMessage()


spark = SparkSession.builder.appName("plain sinks").getOrCreate()
spark.dataSource.register(Custom)
rows = spark.readStream.schema("number long").option("maxFilesPerTrigger", 1).json(source)
rows.writeStream.queryName("custom").format("custom").start()
rows.writeStream.queryName("foreach").foreach(lambda row: note("foreach", [row["number"]])).start()
rows.writeStream.queryName("console").format("console").start()
spark.streams.awaitAnyTermination()
