"""A plain PySpark script that reads a table of numbers, each commit a batch, into JSON files, and adds to the table.

Arguments: type of the table, its path or its name in a catalog, output directory, directory of the gates. Each time
that ``more`` is among the gates a number is added; then it is taken away.
"""

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession


provider, table, output, gates = sys.argv[1:]
by_path = "/" in table
spark = SparkSession.builder.appName(provider).getOrCreate()
if not by_path:
    spark.sql(f"CREATE TABLE IF NOT EXISTS {table} (number BIGINT) USING {provider}")
elif not Path(table).exists():
    spark.createDataFrame([], "number BIGINT").write.format(provider).save(table)
reader = spark.readStream.format(provider)
rows = reader.load(table) if by_path else spark.readStream.table(table)
query = rows.writeStream.queryName("numbers").format("json").option("path", output).start()
while query.isActive:
    more = Path(gates, "more")
    if more.exists():
        number = spark.createDataFrame([(1,)], "number BIGINT")
        if by_path:
            number.write.format(provider).mode("append").save(table)
        else:
            number.writeTo(table).append()
        more.unlink()
    time.sleep(0.1)
query.awaitTermination()
