"""Two writers of one name on S3A, at the same moment: ``s3a_race.py CONF URI`` prints what became of each.

Three ways to write: ``spark`` is what writes offsets and commits, ``plain`` is S3A told not to overwrite, and
``conditional`` is S3A asked for a conditional create.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession


def main(conf: Path, uri: str) -> None:
    """Race in every way, and print as JSON how many have written."""
    builder = SparkSession.builder.master("local[1]").appName("s3a_race")
    for name, value in json.loads(conf.read_text(encoding="utf-8")).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    jvm: Any = spark._jvm  # there is no other way to Hadoop
    hadoop = spark._jsc.hadoopConfiguration()
    folder = jvm.org.apache.hadoop.fs.Path(uri)
    files = folder.getFileSystem(hadoop)
    files.mkdirs(folder)
    manager = jvm.org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager(folder, hadoop)
    ways: dict[str, Callable[[Any], Any]] = {
        "spark": lambda path: manager.createAtomic(path, False),  # a Java method
        "plain": lambda path: files.create(path, False),  # the same
        "conditional": lambda path: (
            files.createFile(path).opt("fs.option.create.conditional.overwrite", "true").build()
        ),
    }
    written = {way: race(opener, jvm.org.apache.hadoop.fs.Path(folder, way)) for way, opener in ways.items()}
    print(json.dumps(written), flush=True)
    spark.stop()


def race(opener: Callable[[Any], Any], path: Any) -> int:
    """Let two write a name that is not there yet; how many were told that they did."""
    streams = [opener(path) for _ in range(2)]

    def write(number: int) -> bool:
        try:
            streams[number].write(bytearray(f"writer {number}".encode()))
            streams[number].close()
        except Py4JJavaError as error:
            if "RemoteFileChanged" in str(error.java_exception) or "FileAlreadyExists" in str(error.java_exception):
                return False
            raise
        return True

    with ThreadPoolExecutor(2) as pool:
        return sum(pool.map(write, range(2)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
