"""A real ``transformWithState`` query: the one shape of a checkpoint that names its own files by absolute path.

``python tests/support/spark/tws_job.py make PLACE`` runs it over three files; ``… continue SPEC`` starts it once from
each checkpoint of a JSON file over one file more, and prints what it counted, or what Spark said, one JSON line each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any


QUERY = "counts"
FILES = 3


def make(place: Path) -> Path:
    """Make ``live/counts`` and ``input`` below *place*, with a file more than was read; return the checkpoint."""
    for number in range(FILES):
        _write(place / "input", number)
    _start("make", place, log=place / "make.log")
    _write(place / "input", FILES)
    return place / "live" / QUERY


def go_on(checkpoints: list[Path], source: Path, scratch: Path) -> list[dict[str, Any]]:
    """Start the query from each checkpoint; return ``{"error": text or None, "counts": {...}}`` of each."""
    spec = scratch / "spec.json"
    spec.write_text(json.dumps({"input": str(source), "checkpoints": [str(path) for path in checkpoints]}))
    output = _start("continue", spec, log=scratch / "continue.log")
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def truth() -> dict[str, int]:
    """Return what the query has to say of the one new file: the count of each of its keys over all files."""
    counts = Counter(row["key"] for number in range(FILES + 1) for row in _rows(number))
    return {row["key"]: counts[row["key"]] for row in _rows(FILES)}


def _rows(number: int) -> list[dict[str, str]]:
    return [{"key": f"k{(number + row) % 4}"} for row in range(6 + number)]


def _write(directory: Path, number: int) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{number}.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in _rows(number)))
    os.utime(path, (1_700_000_000 + number,) * 2)


def _start(verb: str, argument: Path, *, log: Path) -> str:
    root = Path(__file__).resolve().parents[3]
    # The processor runs in workers: without a word they are the python3 of the path, which may have no pyspark.
    environment = os.environ | {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": str(root),
        "PYSPARK_PYTHON": sys.executable,
    }
    with log.open("wb") as stream:
        done = subprocess.run(
            [sys.executable, __file__, verb, str(argument)],
            check=False,
            timeout=400,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=stream,
        )
    assert done.returncode == 0, log.read_text(errors="replace")[-3000:]
    return done.stdout.decode()


def _session() -> Any:
    from pyspark.sql import SparkSession  # tests that need no Spark import this module

    prefix = "spark.sql.streaming.stateStore"
    builder = SparkSession.builder.master("local[2]").appName("tws-job")
    conf = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        f"{prefix}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        f"{prefix}.checkpointFormatVersion": "2",
    }
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _run(spark: Any, source: Path, checkpoint: Path) -> dict[str, int]:
    from pyspark.sql import Row  # as above
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Count(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.count = handle.getValueState("count", "n long")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timers: Any) -> Iterator[Any]:  # noqa: N802  # Spark's
            del timers
            before = self.count.get()[0] if self.count.exists() else 0
            total = before + sum(1 for _ in rows)
            self.count.update((total,))
            yield Row(key=key[0], n=total)

        def close(self) -> None:
            pass

    counts: dict[str, int] = {}

    def keep(frame: Any, _batch: int) -> None:
        counts.update({row["key"]: row["n"] for row in frame.collect()})

    lines = spark.readStream.schema("key string").option("maxFilesPerTrigger", 1).json(str(source))
    counted = lines.groupBy("key").transformWithState(Count(), "key string, n long", "Update", "None")
    writer = counted.writeStream.queryName(QUERY).outputMode("update").foreachBatch(keep)
    writer.trigger(availableNow=True).option("checkpointLocation", str(checkpoint)).start().awaitTermination()
    return counts


def _make(place: Path) -> None:
    spark = _session()
    _run(spark, place / "input", place / "live" / QUERY)
    spark.stop()


def _continue(path: Path) -> None:
    spec = json.loads(path.read_text())
    spark = _session()
    for checkpoint in spec["checkpoints"]:
        answer: dict[str, Any] = {"error": None, "counts": {}}
        try:
            answer["counts"] = _run(spark, Path(spec["input"]), Path(checkpoint))
        except Exception as error:  # noqa: BLE001  # any exception of Spark is its answer
            answer["error"] = str(error)[:2000]
        sys.stdout.write(json.dumps(answer) + "\n")
    spark.stop()


if __name__ == "__main__":
    {"make": _make, "continue": _continue}[sys.argv[1]](Path(sys.argv[2]))
