"""Uses, in its executors, everything that can travel with an application, and writes down what they found.

Modules beside the script, a zip and a wheel (``py_files``), a class of a jar, a class of a Maven package, a data file,
an archive, and an environment that was packed: both driver and executors run in that.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from pathlib import Path

import beside  # type: ignore[import-not-found]  # lies beside this file, which Spark runs as a script
import packed  # type: ignore[import-not-found]  # a test packs it into an environment
from labels.names import LABEL  # type: ignore[import-not-found]  # the same as beside
from pyspark import SparkFiles
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # everybody's name for it


def in_executor(_: str) -> str:
    """Return what a Python worker finds."""
    import from_wheel  # type: ignore[import-not-found]  # a test packs it into a wheel
    import from_zip  # type: ignore[import-not-found]  # the same, into a zip

    return json.dumps(
        {
            "beside": beside.WORD,
            "label": LABEL,
            "zip": from_zip.WORD,
            "wheel": from_wheel.WORD,
            "environment": packed.WORD,
            "data_file": Path(SparkFiles.get("words.txt")).read_text().strip(),
            "archive": Path(SparkFiles.get("texts"), "deep", "word.txt").read_text(),
            "python": sys.prefix,
            "host": socket.gethostname(),
            "directory": str(Path.cwd()),
            "parent": os.getppid(),
        }
    )


def main() -> None:
    """Look once for each batch."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--input", required=True)
    parser.add_argument("--found", required=True, help="JSON file that says what was found")
    arguments = parser.parse_args()
    spark = SparkSession.builder.appName("carried").getOrCreate()
    look = F.udf(in_executor, "string")

    def write(batch: DataFrame, _: int) -> None:
        row = batch.select(
            look("value").alias("python"),
            F.expr("java_method('example.OfJar', 'word')").alias("jar"),
            F.expr("java_method('example.OfPackage', 'word')").alias("package"),
        ).first()
        if row is None:
            return
        found = {
            "executor": {**json.loads(row["python"]), "jar": row["jar"], "package": row["package"]},
            "driver": {
                "environment": packed.WORD,
                "python": sys.prefix,
                "archive": Path("texts/deep/word.txt").read_text(),
                "data_file": Path("words.txt").read_text().strip(),
                "directory": str(Path.cwd()),
            },
        }
        aside = Path(f"{arguments.found}.tmp")
        aside.write_text(json.dumps(found))
        aside.rename(arguments.found)

    spark.readStream.text(arguments.input).writeStream.queryName("lines").foreachBatch(write).start()
    spark.streams.awaitAnyTermination()
    spark.stop()


if __name__ == "__main__":
    main()
