"""Two streams, each started in a thread that waits for it; the main thread has nothing more to do.

Arguments: input directory, output directory, ``threads`` or ``pool``.
"""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import SparkSession


source, output, kind = sys.argv[1:]
spark = SparkSession.builder.appName("threads").getOrCreate()
POOL = ThreadPoolExecutor(2)


def run(name: str) -> None:
    """Start a query, and wait for it."""
    lines = spark.readStream.text(f"{source}/{name}")
    query = lines.writeStream.queryName(name).format("json").option("path", f"{output}/{name}").start()
    query.awaitTermination()


for each in ("orders", "payments"):
    if kind == "pool":
        POOL.submit(run, each)
    else:
        threading.Thread(target=run, args=(each,)).start()
