"""Ends well at a SIGTERM, as a script of a service does. Arguments: input, output."""

import signal
import sys
import threading

from pyspark.sql import SparkSession


spark = SparkSession.builder.getOrCreate()
lines = spark.readStream.text(sys.argv[1])
query = lines.writeStream.queryName("lines").format("json").option("path", sys.argv[2]).start()
ended = threading.Event()
signal.signal(signal.SIGTERM, lambda number, frame: ended.set())
while not ended.wait(0.2):
    pass
query.stop()
sys.exit(0)
