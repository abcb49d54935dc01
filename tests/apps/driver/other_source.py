"""A script that reads a topic or a table, by name, into JSON files.

Arguments: format of the source, its name (a topic, the directory of a Delta table, the name of an Iceberg table),
output directory, and the brokers of a topic. A table that is not there is made, with ten rows.
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession


form, name, output, *servers = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
stream = spark.readStream.format(form)
if form == "kafka":
    stream = stream.option("kafka.bootstrap.servers", servers[0]).option("startingOffsets", "earliest")
    rows = stream.option("subscribe", name).load().selectExpr("cast(value as string) as id")
elif form == "delta":
    if not Path(name, "_delta_log").exists():
        spark.range(10).write.format(form).save(name)
    rows = stream.load(name)
else:
    if not spark.catalog.tableExists(name):
        spark.range(10).writeTo(name).using(form).create()
    rows = stream.load(name)
rows.writeStream.queryName("rows").format("json").start(output)
spark.streams.awaitAnyTermination()
