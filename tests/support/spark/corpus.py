"""Real checkpoints, made once by a real Spark and kept in ``build/test-cache/corpus``.

Invariant: nothing in the cache is ever changed. A test copies a shape, and damages the copy.
One JVM makes all shapes; ``python tests/support/spark/corpus.py DIRECTORY`` is that program.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING


if TYPE_CHECKING:  # tests that need no Spark import this module
    from pyspark.sql import DataFrame, SparkSession


BATCHES = 9
ROWS_PER_FILE = 6
NEXT_FILE = 50
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PREFIX = "spark.sql.streaming.stateStore"

# Shape -> what its session says. Every shape has its own input directory; each batch reads one file of it.
SHAPES: dict[str, dict[str, str]] = {
    "hdfs": {},
    "rocksdb1": {f"{_PREFIX}.providerClass": _ROCKSDB},
    "rocksdb1-changelog": {
        f"{_PREFIX}.providerClass": _ROCKSDB,
        f"{_PREFIX}.rocksdb.changelogCheckpointing.enabled": "true",
    },
    "rocksdb2": {f"{_PREFIX}.providerClass": _ROCKSDB, f"{_PREFIX}.checkpointFormatVersion": "2"},
    "rocksdb2-changelog": {
        f"{_PREFIX}.providerClass": _ROCKSDB,
        f"{_PREFIX}.checkpointFormatVersion": "2",
        f"{_PREFIX}.rocksdb.changelogCheckpointing.enabled": "true",
    },
    "rocksdb2-join": {f"{_PREFIX}.providerClass": _ROCKSDB, f"{_PREFIX}.checkpointFormatVersion": "2"},
    "hdfs-zstd": {f"{_PREFIX}.compression.codec": "zstd"},
    "hdfs-snappy": {f"{_PREFIX}.compression.codec": "snappy"},
    "hdfs-global": {},
    "stateless": {},
}
# These need no long history: two batches say what is to be said.
SHORT_SHAPES = {"rocksdb2-join": 3, "hdfs-zstd": 3, "hdfs-snappy": 3, "hdfs-global": 3}
DEFAULTS = {
    f"{_PREFIX}.providerClass": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    f"{_PREFIX}.checkpointFormatVersion": "1",
    f"{_PREFIX}.rocksdb.changelogCheckpointing.enabled": "false",
    f"{_PREFIX}.compression.codec": "lz4",
}


def corpus(cache: Path | None = None) -> Path:
    """Return the directory of the corpus (``<shape>/checkpoint``, ``<shape>/input``), made when it is not there yet.

    :param cache: Where corpora are kept; the build folder of the repository when not given.
    """
    # Without links: source logs hold absolute paths, and clones may share one cache.
    cache = cache or (Path(__file__).resolve().parents[3] / "build" / "test-cache").resolve() / "corpus"
    program = Path(__file__).read_bytes()
    stamp = hashlib.sha256(program + importlib.metadata.version("pyspark").encode()).hexdigest()[:16]
    made = cache / stamp
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (made / "complete").exists():
            # Source logs hold absolute paths: the shapes are made in place, and the last file says that all are whole.
            shutil.rmtree(made, ignore_errors=True)
            made.mkdir()
            print("recording checkpoints of Spark, once for this machine", flush=True)
            _start_program(made)
            (made / "complete").touch()
    return made


def _start_program(made: Path) -> None:
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
    with (made / "log").open("wb") as log:
        subprocess.run(
            [sys.executable, __file__, str(made)], check=True, timeout=600, env=environment, stdout=log, stderr=log
        )


def checkpoint_copy(shape: str, target: Path) -> Path:
    """Copy the checkpoint of *shape* to *target* and return it: the copy may be damaged."""
    return Path(shutil.copytree(corpus() / shape / "checkpoint", target))


def write_input(directory: Path, number: int) -> None:
    """Write input file *number* of a shape: its keys and values follow from the number alone."""
    directory.mkdir(parents=True, exist_ok=True)
    aside = directory / f".{number}.aside"
    aside.write_text("".join(json.dumps(row) + "\n" for row in rows_of(number)))
    os.utime(aside, (1_700_000_000 + number,) * 2)
    aside.rename(directory / f"{number:03d}.json")


def rows_of(number: int) -> list[dict[str, str | int]]:
    """Return the rows of input file *number*."""
    return [{"key": f"k{(number + row) % 4}", "value": number * 10 + row} for row in range(ROWS_PER_FILE)]


def truth(shape: str) -> dict[str, int]:
    """Return what *shape* has to say after one more run: its counts over all its files, computed without Spark.

    A query without state says only what the one new file holds, and a join each pair that this file is part of.
    """
    old = [row for number in range(SHORT_SHAPES.get(shape, BATCHES)) for row in rows_of(number)]
    new = rows_of(NEXT_FILE)
    if shape == "rocksdb2-join":
        pairs = ((a, b) for a in old + new for b in old + new if a["key"] == b["key"] and (a in new or b in new))
        return dict(Counter(str(a["key"]) for a, _ in pairs))
    rows = new if shape == "stateless" else old + new
    return dict(Counter("all" if shape == "hdfs-global" else str(row["key"]) for row in rows))


def session(conf: dict[str, str] | None = None) -> SparkSession:
    """Start the one Spark session of this process: two threads, two partitions, nothing listening but loopback."""
    from pyspark.sql import SparkSession  # tests that need no Spark import this module

    builder = SparkSession.builder.master("local[2]").appName("corpus")
    fixed = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        f"{_PREFIX}.minDeltasForSnapshot": "3",
        f"{_PREFIX}.maintenanceInterval": "300ms",
        "spark.sql.streaming.fileSource.log.compactInterval": "4",
    }
    for key, value in (fixed | (conf or {})).items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def configure(spark: SparkSession, shape: str) -> None:
    """Set the session's conf to that of *shape*."""
    for key, value in (DEFAULTS | SHAPES[shape]).items():
        spark.conf.set(key, value)


def frame(spark: SparkSession, shape: str, directory: Path) -> DataFrame:
    """Return the streaming data frame of *shape* over the files of *directory*."""
    lines = spark.readStream.schema("key string, value long").option("maxFilesPerTrigger", 1).json(str(directory))
    if shape == "stateless":
        return lines
    if shape == "rocksdb2-join":
        return lines.join(lines.withColumnRenamed("value", "other"), "key")
    keys = [] if shape == "hdfs-global" else ["key"]
    return lines.groupBy(*keys).count()


def run(
    spark: SparkSession,
    shape: str,
    directory: Path,
    checkpoint: Path,
    on_batch: Callable[[DataFrame, int], None] | None = None,
) -> None:
    """Run *shape* over what *directory* holds, to a batch boundary; errors of the query are raised.

    :param on_batch: A ``foreachBatch`` function; without it the rows go nowhere.
    """
    mode = "append" if shape in {"stateless", "rocksdb2-join"} else "complete"
    writer = frame(spark, shape, directory).writeStream.outputMode(mode)
    writer = writer.foreachBatch(on_batch) if on_batch else writer.format("noop")
    query = writer.trigger(availableNow=True).option("checkpointLocation", str(checkpoint)).start()
    query.awaitTermination()


def main(made: Path) -> None:
    """Make every shape below *made*."""
    spark = session()
    for shape in SHAPES:
        configure(spark, shape)
        place = made / shape
        for number in range(SHORT_SHAPES.get(shape, BATCHES)):
            write_input(place / "input", number)
        run(spark, shape, place / "input", place / "checkpoint")
        # One file more than the checkpoint knows: a query that starts from a copy has something to go on with.
        write_input(place / "input", NEXT_FILE)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
