"""A real job with a file source, event-time windows in RocksDB and a file sink, and what a replay makes of it.

Invariant: nothing of the cached job is changed; a test copies it, output included. ``python
tests/support/spark/recorded_job.py make DIRECTORY`` makes it; ``… continue SPEC`` starts the query once for each entry
of a JSON file, as the driver would. Both logs compact every fourth entry, so that twenty batches cross several
compactions.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import inspect
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from datetime import datetime, timedelta, timezone
from functools import cache
from pathlib import Path
from typing import Any

from airflow_provider_ha.checkpoints.areas.source_logs import compact_sources, write_sources
from airflow_provider_ha.checkpoints.areas.working_records import put_offsets
from airflow_provider_ha.checkpoints.model import BatchEntry
from airflow_provider_ha.checkpoints.restore.plan_execution import decide_start
from airflow_provider_ha.checkpoints.sinks.file_sink_log import FileSinkLog
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree


QUERY = "stats"
FILES = 13  # read by the cached job, one per batch
MORE = 6  # read after a restore, the last one closes every window before it
INTERVAL = 4  # of both logs
START = datetime(2013, 1, 1, tzinfo=timezone.utc)


@cache
def recorded_job() -> Path:
    """Return the cached job: ``live/stats``, ``out`` and ``input``; made when it is not there yet."""
    # Resolved: the source's log names the input by its path, and the cache may be a link to that of another clone.
    cache = (Path(__file__).resolve().parents[3] / "build" / "test-cache" / "recorded-job").resolve()
    program = "".join(inspect.getsource(part) for part in (rows_of, write_inputs, _session, _writer, _make))
    stamp = hashlib.sha256((program + importlib.metadata.version("pyspark")).encode()).hexdigest()[:16]
    made = cache / stamp
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (made / "complete").exists():
            shutil.rmtree(made, ignore_errors=True)
            made.mkdir()
            print("recording a job of Spark, once for this machine", flush=True)
            run_program("make", made, log=made / "log")
            (made / "complete").touch()
    return made


def copy_live(target: Path) -> Path:
    """Copy the working directory of the cached job to *target* and return it."""
    return Path(shutil.copytree(recorded_job() / "live", target))


def copy_output(target: Path) -> Path:
    """Copy the output of the cached job to *target*; its log goes on naming the cached data files."""
    return Path(shutil.copytree(recorded_job() / "out", target))


def continue_query(spec: list[dict[str, Any]], place: Path) -> None:
    """Start the query of each entry: ``checkpoint``, ``out``, and maybe ``recorded``, ``once`` and ``interval``."""
    path = place / "spec.json"
    defaults = {"input": str(recorded_job() / "input"), "recorded": [], "once": False, "interval": INTERVAL}
    path.write_text(json.dumps([defaults | item for item in spec], default=str))
    run_program("continue", path, log=place / "spark.log")


def run_program(*arguments: object, log: Path) -> None:
    """Run this file in a separate process; its output is in the error when it fails."""
    root = Path(__file__).resolve().parents[3]
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(root)}
    environment.pop("SPARK_HOME", None)  # of a test that has put something else in Spark's place
    with log.open("wb") as stream:
        done = subprocess.run(
            [sys.executable, __file__, *map(str, arguments)],
            check=False,
            timeout=400,
            env=environment,
            stdout=stream,
            stderr=stream,
        )
    assert done.returncode == 0, log.read_text(errors="replace")[-3000:]


def rows_of(number: int) -> list[dict[str, str]]:
    """Return the rows of input file *number*: some in its own hour, some in the next one."""
    return [
        {"key": f"k{key}", "at": (START + timedelta(hours=number + ahead, minutes=10 - 5 * ahead)).isoformat()}
        for ahead in (0, 1)
        for key in range(3)
        for _ in range(number % 3 + 1)
    ]


def write_inputs(directory: Path, first: int, last: int) -> None:
    """Write the input files from *first* to before *last*, in the order of their modification times."""
    directory.mkdir(parents=True, exist_ok=True)
    for number in range(first, last):
        path = directory / f"{number:03d}.json"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows_of(number)))
        os.utime(path, (1_700_000_000 + number,) * 2)


def truth(files: int) -> Counter[tuple[str, str]]:
    """Return (hour, key) -> rows, of every window that is closed once *files* files were read."""
    rows = [row for number in range(files) for row in rows_of(number)]
    counts = Counter((row["at"][:13], row["key"]) for row in rows)
    open_from = (START + timedelta(hours=files)).isoformat()[:13]
    return Counter({place: count for place, count in counts.items() if place[0] < open_from})


def written(out: Path) -> list[tuple[str, str, int]]:
    """Return every row that readers of the sink's log see: hour, key, count."""
    log = FileSinkLog(out)
    names = log.closure_names(log.max_batch())
    lines = [line for name in names for line in (out / "_spark_metadata" / name).read_text().split("\n")[1:] if line]
    files = {json.loads(line)["path"].removeprefix("file://") for line in lines}
    rows = [json.loads(line) for file in sorted(files) for line in Path(file).read_text().splitlines()]
    return [(str(row["hour"])[:13].replace(" ", "T"), str(row["key"]), int(row["count"])) for row in rows]


def assert_exact(out: Path, files: int) -> None:
    """Every closed window is there once, with the right count."""
    rows = written(out)
    expected = truth(files)
    assert len(rows) == len(expected)
    assert {(hour, key): count for hour, key, count in rows} == dict(expected)


def _session() -> Any:
    from pyspark.sql import SparkSession  # tests that need no Spark import this module

    prefix = "spark.sql.streaming"
    conf = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        f"{prefix}.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        f"{prefix}.stateStore.checkpointFormatVersion": "2",
        **_interval(INTERVAL),
    }
    builder = SparkSession.builder.master("local[2]").appName("recorded-job")
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _interval(interval: int) -> dict[str, str]:
    return {f"spark.sql.streaming.{log}.log.compactInterval": str(interval) for log in ("fileSource", "fileSink")}


def _writer(spark: Any, source: Path, out: Path, checkpoint: Path, *, noop: bool = False) -> Any:
    from pyspark.sql import functions as f  # as above

    rows = spark.readStream.schema("key string, at timestamp").option("maxFilesPerTrigger", 1).json(str(source))
    counts = rows.withWatermark("at", "0 seconds").groupBy(f.window("at", "1 hour"), "key").count()
    shaped = counts.select(f.col("window.start").cast("string").alias("hour"), "key", "count")
    writer = shaped.writeStream.queryName(QUERY).outputMode("append").option("checkpointLocation", str(checkpoint))
    return writer.format("noop") if noop else writer.format("json").option("path", str(out))


def _make(place: Path) -> None:
    write_inputs(place / "input", 0, FILES)
    spark = _session()
    writer = _writer(spark, place / "input", place / "out", place / "live" / QUERY)
    writer.trigger(availableNow=True).start().awaitTermination()
    spark.stop()
    # In the directory that the source log names: a query that goes on from a copy reads them there.
    write_inputs(place / "input", FILES, FILES + MORE)


def _continue(path: Path) -> None:
    spark = _session()
    for item in json.loads(path.read_text()):
        source, out, checkpoint = (Path(item[name]) for name in ("input", "out", "checkpoint"))
        for key, value in _interval(item["interval"]).items():
            spark.conf.set(key, value)
        recorded = [BatchEntry.model_validate(entry) for entry in item["recorded"]]
        steps = decide_start(progress(LocalTree(checkpoint)), recorded, FileSinkLog(out).max_batch())
        write_sources(LocalTree(checkpoint), [step.entry for step in steps if step.entry is not None])
        compact_sources(LocalTree(checkpoint), item["interval"])
        for step in steps:
            if step.entry is not None:
                put_offsets(LocalTree(checkpoint), step.entry)
            writer = _writer(spark, source, out, checkpoint, noop=step.into == "noop")
            writer.trigger(once=True).start().awaitTermination()
            assert progress(LocalTree(checkpoint)).committed == step.batch
        how = {"once": True} if item["once"] else {"availableNow": True}
        _writer(spark, source, out, checkpoint).trigger(**how).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    {"make": _make, "continue": _continue}[sys.argv[1]](Path(sys.argv[2]))
