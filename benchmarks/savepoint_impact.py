"""What the batches of a running query pay for savepoints that are taken of it: pairs of batches, with and without one.

A real Spark runs one stateful query (RocksDB, checkpoint format 2) whose every batch reads one file. Of each pair, in
an order that is drawn by lot, one batch runs alone and one beside a savepoint (copied, digested and verified, in the
driver's Python process, as a job takes its own). The interval is that of the median difference, from 10,000 resamples.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from airflow_provider_ha.checkpoints.store.savepoints.creation import take
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_directory import DirectoryLayout
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import SavepointSource
from benchmarks.shared import effort, median, show


KEYS, ROWS = 100_000, 20_000
_PREFIX = "spark.sql.streaming"
CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    f"{_PREFIX}.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{_PREFIX}.stateStore.checkpointFormatVersion": "2",
}


class RunningQuery:
    """A query that runs one batch for each file it is given.

    :param spark: The session.
    :param place: An empty directory.
    """

    def __init__(self, spark: Any, place: Path) -> None:
        self._place = place
        self._dice = random.Random(1)  # noqa: S311  # repeatable, not secret
        self._given = 0
        (place / "input").mkdir()
        lines = spark.readStream.schema("key long").json(str(place / "input"))
        counts = lines.groupBy("key").count().writeStream.outputMode("update").format("noop")
        self.checkpoint = place / "checkpoint"
        self._query = counts.option("checkpointLocation", str(self.checkpoint)).start()

    def batch(self) -> float:
        """Give it one file; returns the milliseconds of the batch that reads it, as Spark measured them."""
        rows = "".join(json.dumps({"key": self._dice.randrange(KEYS)}) + "\n" for _ in range(ROWS))
        hidden = self._place / "input" / f".{self._given:05d}"
        hidden.write_text(rows)
        hidden.rename(hidden.with_name(f"{self._given:05d}.json"))
        self._query.processAllAvailable()
        progress = next(each for each in reversed(self._query.recentProgress) if each["numInputRows"])
        if progress["batchId"] != self._given:
            raise RuntimeError(f"batch {progress['batchId']} read file {self._given}")
        self._given += 1
        return float(progress["durationMs"]["triggerExecution"])

    def stop(self) -> None:
        """End the query."""
        self._query.stop()

    def batch_beside_a_savepoint(self) -> float:
        """As :meth:`batch`, while a savepoint is taken and thrown away."""
        target = self._place / f"savepoint-{self._given}"
        failed: list[BaseException] = []

        def savepoint() -> None:
            try:
                take([SavepointSource(query="counts", directory=self.checkpoint)], DirectoryLayout(target))
            except BaseException as error:  # noqa: BLE001  # told below, in the thread that measures
                failed.append(error)

        taking = threading.Thread(target=savepoint)
        taking.start()
        milliseconds = self.batch()
        taking.join()
        if failed:
            raise failed[0]
        shutil.rmtree(target)
        return milliseconds


def interval(differences: list[float]) -> tuple[float, float]:
    """Return the 95 % interval of the median, by resampling."""
    dice = random.Random(2)  # noqa: S311  # repeatable, not secret
    medians = sorted(median(dice.choices(differences, k=len(differences))) for _ in range(10_000))
    return medians[249], medians[9749]


def paired(alone: Callable[[], float], beside: Callable[[], float], pairs: int) -> list[tuple[float, float]]:
    """Return (alone, beside a savepoint) of each pair, in milliseconds."""
    dice = random.Random(3)  # noqa: S311  # repeatable, not secret
    found = []
    for _ in range(pairs):
        if dice.choice((True, False)):
            first = alone()
            found.append((first, beside()))
        else:
            second = beside()
            found.append((alone(), second))
    return found


def main() -> None:
    """Measure and print."""
    given = effort(__doc__, pairs=100, few=5)
    pairs, warm = given.pairs, 3 if given.quick else 30
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession  # after the command line: --help needs no Spark

    builder = SparkSession.builder.master("local[2]").appName("savepoint-impact")
    for key, value in CONF.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as folder:
        query = RunningQuery(spark, Path(folder))
        for _ in range(warm):
            query.batch()
        measured = paired(query.batch, query.batch_beside_a_savepoint, pairs)
        query.stop()
        spark.stop()
    alone, beside = (median(column) for column in zip(*measured, strict=True))
    share = [100 * (second - first) / alone for first, second in measured]
    low, high = interval(share)
    rows = [
        ("a batch alone", f"{alone:.0f} ms", ""),
        ("beside a savepoint", f"{beside:.0f} ms", f"{median(share):+.1f} % ({low:+.1f} to {high:+.1f})"),
    ]
    show(f"{pairs} pairs of batches", ("what", "median", "median difference (95 % interval)"), rows)


if __name__ == "__main__":
    main()
