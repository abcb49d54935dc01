"""Counts rows by key with a stateful processor of Python. Arguments: input, output."""

import sys
from collections.abc import Iterator

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle


class Counter(StatefulProcessor):
    """The number of rows so far, of each key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "n long")

    def handleInputRows(  # noqa: N802  # pyspark's name
        self,
        key: tuple[str],
        rows: Iterator[Row],
        timerValues: object,  # noqa: N803  # pyspark's name
    ) -> Iterator[Row]:
        before = self._count.get()
        number = (before[0] if before is not None else 0) + sum(1 for _ in rows)
        self._count.update((number,))
        yield Row(key=key[0], n=number)

    def close(self) -> None:
        """Keep nothing."""


source, output = sys.argv[1:3]
spark = SparkSession.builder.appName("transformed").getOrCreate()
stream = spark.readStream.schema("ts timestamp, key string, value long").option("maxFilesPerTrigger", 1)
counted = stream.json(source).groupBy("key").transformWithState(Counter(), "key string, n long", "Append", "None")
counted.writeStream.queryName("counts").outputMode("append").format("json").start(output).awaitTermination()
