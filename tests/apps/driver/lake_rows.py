"""A plain PySpark script that reads a table of numbers, each commit a batch, into JSON files, and adds to the table.

Arguments: type of the table, its name, output directory, directory of the gates. Each time that ``more`` is among the
gates a number is added; then it is taken away.
"""

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession


provider, table, output, gates = sys.argv[1:]
spark = SparkSession.builder.appName(provider).getOrCreate()
spark.sql(f"CREATE TABLE IF NOT EXISTS {table} (number BIGINT) USING {provider}")
rows = spark.readStream.table(table)
query = rows.writeStream.queryName("numbers").format("json").option("path", output).start()
while query.isActive:
    more = Path(gates, "more")
    if more.exists():
        spark.createDataFrame([(1,)], "number BIGINT").writeTo(table).append()
        more.unlink()
    time.sleep(0.1)
query.awaitTermination()
