"""Logs to its own file, and leaves a file when the interpreter ends. Arguments: input, output, log file."""

import atexit
import logging
import sys
from pathlib import Path

from pyspark.sql import SparkSession


source, output, file = sys.argv[1:]
logging.basicConfig(filename=file, level=logging.DEBUG, format="MINE %(levelname)s %(message)s")
atexit.register(Path(file + ".end").touch)
log = logging.getLogger("app")
log.debug("started")
spark = SparkSession.builder.getOrCreate()
lines = spark.readStream.text(source)
query = lines.writeStream.queryName("lines").format("json").option("path", output).trigger(availableNow=True).start()
query.awaitTermination()
log.info("done")
