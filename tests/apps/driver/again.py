"""A script that starts its query again whenever that has failed, with a stop by itself in between.

Arguments: input directory, output directory, directory of the gates. While ``fail`` is among the gates every row fails;
while ``hold`` is, the query is stopped and started again once.
"""

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery


source, output, gates = sys.argv[1:4]
spark = SparkSession.builder.appName("again").getOrCreate()


@f.udf("boolean", useArrow=False)
def admitted(_: int) -> bool:
    """Fail while the gate is closed."""
    if Path(gates, "fail").exists():
        Path(gates, "fail-reached").touch()
        raise ValueError("the gate is closed")
    return True


def start() -> StreamingQuery:
    """Start the query."""
    stream = spark.readStream.schema("ts timestamp, key string, value long").option("maxFilesPerTrigger", 1)
    counted = stream.json(source).withWatermark("ts", "0 seconds").where(admitted("value"))
    totals = counted.groupBy(f.window("ts", "1 minute"), "key").agg(
        f.count("*").alias("n"), f.sum("value").alias("total")
    )
    flat = totals.select(f.col("window.start").cast("long").alias("start"), "key", "n", "total")
    return flat.writeStream.queryName("windows").outputMode("append").format("json").option("path", output).start()


while True:
    try:
        query = start()
        while not query.awaitTermination(1):
            if Path(gates, "again").exists():
                Path(gates, "again").unlink()
                query.stop()
    except Exception as error:  # noqa: BLE001  # the common loop: it starts the query again after any error
        print(f"started again after: {error}", flush=True)  # for the driver's log
        time.sleep(0.5)
