"""Uses a module and a package beside the script in every way in which Spark runs Python.

What each way found goes into one JSON file per way below ``--found``: the value that a function of the package
computes from its data file, the word of the module, and the file that the package was imported from.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import near
import rules.rates
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # everybody's name for it
from pyspark.sql.streaming.state import GroupStateTimeout


def main() -> None:
    """Run one query per way, until they are stopped."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--input", required=True)
    parser.add_argument("--found", required=True, help="directory of what was found")
    arguments = parser.parse_args()
    os.chdir("/")  # what is beside the script is found from every working directory

    spark = SparkSession.builder.appName("shipped").getOrCreate()

    def keep(way: str) -> object:
        def write(batch: DataFrame, _: int) -> None:
            import near as again  # in the driver, after the script has started

            rows = [row.asDict() for row in batch.collect()]
            if rows:
                aside = Path(arguments.found) / f".{way}"
                aside.write_text(json.dumps(rows[0] | {"in_driver": again.WORD}))
                aside.rename(Path(arguments.found) / f"{way}.json")

        return write

    lines = spark.readStream.text(arguments.input)
    udf = F.udf(rules.rates.found, "struct<value:string,word:string,file:string>")  # pickled by name
    by_value = F.udf(lambda value: near.found(value), "struct<value:string,word:string,file:string>")
    ways = {
        "udf": lines.select(udf("value").alias("one")).select("one.*"),
        "udf_by_value": lines.select(by_value("value").alias("one")).select("one.*"),
        "map_in_pandas": lines.mapInPandas(rules.rates.of_frames, rules.rates.SCHEMA),
        "state_in_pandas": lines.groupBy("value").applyInPandasWithState(
            rules.rates.with_state, rules.rates.SCHEMA, "n long", "append", GroupStateTimeout.NoTimeout
        ),
        "transform_with_state": lines.groupBy("value").transformWithStateInPandas(
            rules.rates.Processor(), rules.rates.SCHEMA, "Append", "None"
        ),
    }
    for way, frame in ways.items():
        frame.writeStream.queryName(way).foreachBatch(keep(way)).start()  # type: ignore[arg-type]  # a closure
    spark.streams.awaitAnyTermination()
    spark.stop()


if __name__ == "__main__":
    main()
