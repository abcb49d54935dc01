"""Two real queries that run and purge while savepoints are taken of them: ``up`` writes files, ``down`` counts them.

``python tests/support/spark/running_queries.py run PLACE`` runs both until it is killed; ``… finish SPEC`` starts
``down`` from each checkpoint of a JSON file, to the end of what ``up`` has written, and prints what it counted, one
JSON line each.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from airflow_provider_ha.checkpoints.sinks.file_sink_log import FileSinkLog


FILES = 400  # more than are read before the savepoints are taken
RETAINED = 4  # batches that Spark keeps: a purge at nearly each batch


@contextlib.contextmanager
def running(place: Path) -> Iterator[Path]:
    """Run both queries below *place* (``live/up``, ``live/down``, ``out``); killed at the end of the block."""
    source = place / "input"
    source.mkdir(parents=True)
    for number in range(FILES):
        path = source / f"{number:03d}.json"
        path.write_text("".join(json.dumps({"key": f"k{(number + row) % 5}"}) + "\n" for row in range(4)))
        os.utime(path, (1_700_000_000 + number,) * 2)
    with (place / "run.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, __file__, "run", str(place)],
            env=_environment(),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield place
            assert process.poll() is None, (place / "run.log").read_text(errors="replace")[-3000:]
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def finish(checkpoints: list[Path], place: Path) -> list[dict[str, int]]:
    """Start ``down`` from each checkpoint; return the counts of each at the end of the input."""
    spec = place / "spec.json"
    spec.write_text(json.dumps({"place": str(place), "checkpoints": [str(path) for path in checkpoints]}))
    with (place / "finish.log").open("wb") as log:
        done = subprocess.run(
            [sys.executable, __file__, "finish", str(spec)],
            check=False,
            timeout=400,
            env=_environment(),
            stdout=subprocess.PIPE,
            stderr=log,
        )
    assert done.returncode == 0, (place / "finish.log").read_text(errors="replace")[-3000:]
    return [json.loads(line) for line in done.stdout.decode().splitlines() if line.startswith("{")]


def written(log: FileSinkLog, names: list[str]) -> set[str]:
    """Return the data files that entries of a file sink's log name, as paths."""
    lines = [line for name in names for line in (log.path / "_spark_metadata" / name).read_text().splitlines()[1:]]
    return {json.loads(line)["path"].removeprefix("file://") for line in lines if line}


def truth(out: Path) -> dict[str, int]:
    """Return how often each key is in what ``up`` has written, computed without Spark."""
    log = FileSinkLog(out)
    files = written(log, log.closure_names(log.max_batch()))
    return dict(Counter(json.loads(line)["key"] for file in files for line in Path(file).read_text().splitlines()))


def _environment() -> dict[str, str]:
    return os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(Path(__file__).resolve().parents[3])}


def _session() -> Any:
    from pyspark.sql import SparkSession  # tests that need no Spark import this module

    prefix = "spark.sql.streaming"
    conf = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        f"{prefix}.minBatchesToRetain": str(RETAINED),
        f"{prefix}.stateStore.maintenanceInterval": "300ms",
        f"{prefix}.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        f"{prefix}.stateStore.checkpointFormatVersion": "2",
        f"{prefix}.fileSource.log.compactInterval": "4",
        f"{prefix}.fileSink.log.compactInterval": "4",
    }
    builder = SparkSession.builder.master("local[2]").appName("running-queries")
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _down(spark: Any, place: Path, checkpoint: Path) -> Any:
    lines = spark.readStream.schema("key string").option("maxFilesPerTrigger", 1).json(str(place / "out"))
    counts = lines.groupBy("key").count()
    return counts.writeStream.outputMode("complete").option("checkpointLocation", str(checkpoint))


def _run(place: Path) -> None:
    spark = _session()
    lines = spark.readStream.schema("key string").option("maxFilesPerTrigger", 1).json(str(place / "input"))
    up = lines.writeStream.format("json").option("path", str(place / "out"))
    up.option("checkpointLocation", str(place / "live" / "up")).start()
    _down(spark, place, place / "live" / "down").format("noop").start()
    spark.streams.awaitAnyTermination()


def _finish(path: Path) -> None:
    spec = json.loads(path.read_text())
    spark = _session()
    for checkpoint in spec["checkpoints"]:
        counts: dict[str, int] = {}

        def keep(frame: Any, _batch: int, counts: dict[str, int] = counts) -> None:
            counts.update({row["key"]: row["count"] for row in frame.collect()})

        query = _down(spark, Path(spec["place"]), Path(checkpoint)).foreachBatch(keep)
        query.trigger(availableNow=True).start().awaitTermination()
        sys.stdout.write(json.dumps(counts) + "\n")
    spark.stop()


if __name__ == "__main__":
    {"run": _run, "finish": _finish}[sys.argv[1]](Path(sys.argv[2]))
