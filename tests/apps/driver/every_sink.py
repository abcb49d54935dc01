"""A plain PySpark script that writes numbers, one file a batch and each number once, to a sink of any type.

Arguments: type of the sink, input directory, output (a directory, the name of a table or a topic), directory of the
gates, and the broker of a topic. While ``plan`` is among the gates a batch does not get beyond its rows; once
``report`` is, the output is read and ``report.json`` made of it: number -> how often it is there.
"""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f


sink, source, output, folder, *broker = sys.argv[1:]
gates, into_table = Path(folder), "/" not in output and not broker
spark = SparkSession.builder.appName(sink).getOrCreate()


@f.udf("boolean", useArrow=False)
def admitted(_: int) -> bool:
    """Hold a row."""
    (gates / "plan-reached").touch()
    while (gates / "plan").exists():
        time.sleep(0.02)
    return True


def replace(frame: DataFrame, batch: int) -> None:
    """Write a batch where it is written again."""
    frame.write.mode("overwrite").json(f"{output}/batch={batch}")


def read() -> DataFrame:
    """Return the output as its readers see it."""
    if into_table:
        return spark.read.table(output)
    if sink == "delta":
        return spark.read.format(sink).load(output)
    return spark.read.parquet(output) if sink == "parquet" else spark.read.schema("number long").json(output)


def report() -> None:
    """Write how often each number is there; for a topic the test reads it."""
    counted = {} if broker else {row["number"]: row["count"] for row in read().groupBy("number").count().collect()}
    aside = gates / "aside"
    aside.write_text(json.dumps(counted))
    aside.rename(gates / "report.json")


rows = spark.readStream.schema("number long").option("maxFilesPerTrigger", 1).json(source)
numbers = rows.where(admitted("number")).dropDuplicates(["number"])
if sink == "foreachBatch":
    writer = numbers.writeStream.foreachBatch(replace)
elif sink == "kafka":
    texts = numbers.select(f.col("number").cast("string").alias("value"))
    writer = texts.writeStream.format(sink).option("kafka.bootstrap.servers", broker[0]).option("topic", output)
elif sink == "parquet":
    parted = numbers.withColumn("part", f.col("number") % 3)
    writer = parted.writeStream.partitionBy("part").format(sink).option("path", output)
elif into_table:
    writer = numbers.writeStream.format(sink)
else:
    writer = numbers.writeStream.format(sink).option("path", output)
writer = writer.queryName("numbers")
if into_table:
    writer.toTable(output)
else:
    writer.start()
while not spark.streams.awaitAnyTermination(1):
    if (gates / "report").exists() and not (gates / "report.json").exists():
        report()
