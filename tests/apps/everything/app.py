"""Uses everything that can travel with an application, and writes down what it found.

A sibling module, a sibling package, a module out of a zip (``py_files``), a module out of a wheel (``py_files``), a
class resource out of a jar, a data file, and arguments that were templates. The stream itself counts the lines of the
text files that arrive.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import from_wheel  # type: ignore[import-not-found]  # a test packs it into a wheel
import from_zip  # type: ignore[import-not-found]  # the same, into a zip
import sibling  # type: ignore[import-not-found]  # lies beside this file, which Spark runs as a script
from pyspark import SparkFiles
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # everybody's name for it
from reports.names import NAME_OF_SIBLING_PACKAGE  # type: ignore[import-not-found]  # the same


def jar_resource(spark: SparkSession, name: str) -> str:
    """Return a resource that only the jar has, as the JVM's class loader finds it."""
    jvm = spark.sparkContext._jvm  # the only way into the JVM
    assert jvm is not None  # always there with classic Spark
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    stream = loader.getResourceAsStream(name)
    return str(jvm.java.lang.String(stream.readAllBytes())) if stream is not None else ""


def found_by_an_executor(spark: SparkSession) -> str:
    """Return what a Python worker gets out of the zip."""

    @F.udf("string")
    def word(_: int) -> str:
        import from_zip as module  # in the worker, not in the driver

        return str(module.WORD)

    return str(spark.range(1).select(word("id")).first()[0])  # type: ignore[index]  # one row


def main() -> None:
    """Write what was found, then count lines until it is stopped."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--input", required=True)
    parser.add_argument("--found", required=True, help="JSON file that says what was found")
    parser.add_argument("--run", required=True, help="a template in the DAG, rendered by Airflow")
    arguments = parser.parse_args()

    spark = SparkSession.builder.appName("everything").getOrCreate()
    found = {
        "sibling_module": sibling.WORD,
        "sibling_package": NAME_OF_SIBLING_PACKAGE,
        "zip": from_zip.WORD,
        "zip_in_executor": found_by_an_executor(spark),
        "wheel": from_wheel.WORD,
        "jar": jar_resource(spark, "everything/word.txt"),
        "data_file": Path(SparkFiles.get("words.txt")).read_text().strip(),
        "run": arguments.run,
    }

    def count(batch: DataFrame, batch_id: int) -> None:
        Path(arguments.found).write_text(json.dumps(found | {"batch": batch_id, "lines": batch.count()}))

    spark.readStream.text(arguments.input).writeStream.queryName("lines").foreachBatch(count).start()
    spark.streams.awaitAnyTermination()
    spark.stop()


if __name__ == "__main__":
    main()
