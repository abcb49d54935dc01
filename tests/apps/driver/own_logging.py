"""Logs to its own file, and leaves a file when the interpreter ends.

Arguments: input, output, log file, and any word for a query that does not end.
"""

import atexit
import logging
import sys
from pathlib import Path

from pyspark.sql import SparkSession


source, output, file, *endless = sys.argv[1:]
logging.basicConfig(filename=file, level=logging.DEBUG, format="MINE %(levelname)s %(message)s")
atexit.register(Path(file + ".end").touch)
log = logging.getLogger("app")
log.debug("started")
spark = SparkSession.builder.getOrCreate()
lines = spark.readStream.text(source)
writer = lines.writeStream.queryName("lines").format("json").option("path", output)
(writer if endless else writer.trigger(availableNow=True)).start().awaitTermination()
log.info("done")
