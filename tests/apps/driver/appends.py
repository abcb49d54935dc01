"""A plain PySpark script whose function of ``foreachBatch`` appends numbers, with the id of its past. One file a batch.

Arguments: input directory, output file, "plain" or "fenced".
"""

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from airflow_provider_ha.driver import context


source, output, how = sys.argv[1:]
found = context.current()
assert found is not None, "it has to run as a job"
leader: context.DriverContext = found


def append(frame: DataFrame, batch: int) -> None:
    """Add a line for each number."""
    numbers = [row["number"] for row in frame.collect()]
    with Path(output).open("a", encoding="utf-8") as file:
        file.writelines(f"{number} {leader.query_id('orders')}\n" for number in numbers)


spark = SparkSession.builder.appName("appends").getOrCreate()
rows = spark.readStream.schema("number long").option("maxFilesPerTrigger", 1).json(source).dropDuplicates(["number"])
function = leader.fenced(append) if how == "fenced" else append
rows.writeStream.queryName("orders").foreachBatch(function).start().awaitTermination()
