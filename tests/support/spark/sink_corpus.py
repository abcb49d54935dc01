"""Real checkpoints together with the output of their file sink, made once by a real Spark.

Kept in ``build/test-cache/sink-corpus``, as ``tests/support/spark/corpus.py`` keeps its own. Each shape is
``<shape>/input``, ``<shape>/checkpoint``, ``<shape>/out`` after ``FILES`` of its input files. ``python
tests/support/spark/sink_corpus.py DIRECTORY`` makes it; with ``judge CASES.json`` it starts Spark on damaged copies and
prints one JSON line for each.
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
from pathlib import Path
from typing import Any


ROOT = Path(__file__).resolve().parents[3]
FILES, ALL_FILES = 5, 9
# The log is compacted at 3 and 7: a judge that goes on over all files meets the second.
INTERVAL = 4
LOG = "_spark_metadata"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
SHAPES: dict[str, tuple[str, str]] = {
    "stateless": (_HDFS, "1"),
    "hdfs": (_HDFS, "1"),
    "rocksdb2": (_ROCKSDB, "2"),
}


def sink_corpus() -> Path:
    """Return the directory of the corpus, made when it is not there yet."""
    cache = (ROOT / "build" / "test-cache").resolve() / "sink-corpus"
    program = Path(__file__).read_bytes() + (Path(__file__).with_name("corpus.py")).read_bytes()
    made = cache / hashlib.sha256(program + importlib.metadata.version("pyspark").encode()).hexdigest()[:16]
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (made / "complete").exists():
            shutil.rmtree(made, ignore_errors=True)
            made.mkdir()
            print("recording checkpoints and outputs of Spark, once for this machine", flush=True)
            _program(made / "log", str(made))
            (made / "complete").touch()
    return made


def sink_copy(shape: str, target: Path) -> Path:
    """Copy checkpoint and output of *shape* below *target* and return it; its log names the files of the copy."""
    source = sink_corpus() / shape
    for part in ("checkpoint", "out"):
        shutil.copytree(source / part, target / part)
    for entry in (target / "out" / LOG).iterdir():
        if not entry.name.startswith("."):
            entry.write_text(entry.read_text().replace(str(source / "out"), str(target / "out")))
            entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)
    return target


def judge(cases: list[tuple[str, Path]], scratch: Path) -> list[str]:
    """Go on with each (shape, copy) over all input files; ``"right"``, ``"wrong: ..."`` or ``"failed: ..."``."""
    request = scratch / "cases.json"
    request.write_text(json.dumps([{"shape": shape, "place": str(place)} for shape, place in cases]))
    answers = [json.loads(line) for line in _program(scratch / "judge.log", "judge", str(request)).splitlines()]
    outcomes = []
    for answer, (shape, _) in zip(answers, cases, strict=True):
        expected = truth(shape)
        short = f"{len(answer['rows'])} rows instead of {len(expected)}"
        outcomes.append(answer["error"] or ("right" if answer["rows"] == expected else f"wrong: {short}"))
    return outcomes


def truth(shape: str) -> list[str]:
    """Return the rows of the output over all input files, sorted, computed without Spark."""
    from tests.support.spark.corpus import rows_of

    rows = [row for number in range(ALL_FILES) for row in rows_of(number)]
    if shape == "stateless":
        return sorted(json.dumps(row, separators=(",", ":")) for row in rows)
    # A window of one second for each value; it is written once the watermark, a second behind, has passed its end.
    values = Counter(int(row["value"]) for row in rows)
    closed = {value: count for value, count in values.items() if value + 1 <= max(values) - 1}
    return sorted(json.dumps({"at": at, "count": count}, separators=(",", ":")) for at, count in closed.items())


def _program(log: Path, *arguments: str) -> str:
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT)}
    with log.open("wb") as errors:
        done = subprocess.run(
            [sys.executable, __file__, *arguments],
            check=True,
            timeout=600,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    return done.stdout


def _run(spark: Any, shape: str, source: Path, place: Path) -> None:
    """Run *shape* over the input in *source* to a batch boundary, into checkpoint and out of *place*."""
    from pyspark.sql import functions

    from tests.support.spark.corpus import _PREFIX, DEFAULTS

    provider, version = SHAPES[shape]
    conf = {**DEFAULTS, f"{_PREFIX}.providerClass": provider, f"{_PREFIX}.checkpointFormatVersion": version}
    for key, value in conf.items():
        spark.conf.set(key, value)
    rows = spark.readStream.schema("key string, value long").option("maxFilesPerTrigger", 1).json(str(source / "input"))
    if shape != "stateless":
        timed = rows.withColumn("at", functions.timestamp_seconds(functions.col("value")))
        window = functions.window("at", "1 second")
        rows = (
            timed.withWatermark("at", "1 second")
            .groupBy(window)
            .count()
            .selectExpr("cast(window.start as long) as at", "count")
        )
    writer = rows.writeStream.outputMode("append").format("json").option("path", str(place / "out"))
    query = writer.trigger(availableNow=True).option("checkpointLocation", str(place / "checkpoint")).start()
    query.awaitTermination()


def _rows(place: Path) -> list[str]:
    """Return the rows of an output as its log names them, sorted: what a reader of the output is given."""
    out = place / "out" / LOG
    entries = {int(path.name.removesuffix(".compact")): path for path in out.iterdir() if path.name[0] != "."}
    compact = max((entry for entry, path in entries.items() if path.name.endswith(".compact")), default=0)
    lines = [line for entry, path in entries.items() if entry >= compact for line in path.read_text().split("\n")[1:]]
    named = {json.loads(line)["path"].removeprefix("file:") for line in lines if line}
    return sorted(row for path in named for row in Path(path).read_text().splitlines())


def main(made: Path) -> None:
    """Make every shape below *made*."""
    from tests.support.spark.corpus import session, write_input

    spark = session({"spark.sql.streaming.fileSink.log.compactInterval": str(INTERVAL)})
    for shape in SHAPES:
        place = made / shape
        for number in range(FILES):
            write_input(place / "input", number)
        _run(spark, shape, place, place)
        for number in range(FILES, ALL_FILES):
            write_input(place / "input", number)
    spark.stop()


def main_judge(request: Path) -> None:
    """Go on with every case; a query that fails is an answer."""
    from tests.support.spark.corpus import session

    spark = session({"spark.sql.streaming.fileSink.log.compactInterval": str(INTERVAL)})
    for case in json.loads(request.read_text()):
        place, error, rows = Path(case["place"]), None, []
        try:
            _run(spark, case["shape"], sink_corpus() / case["shape"], place)
            rows = _rows(place)
        except Exception as failure:  # noqa: BLE001  # any exception of Spark is its answer
            error = f"failed: {str(failure)[:400]}"
        sys.stdout.write(json.dumps({"error": error, "rows": rows}) + "\n")
    spark.stop()


if __name__ == "__main__":
    if sys.argv[1] == "judge":
        main_judge(Path(sys.argv[2]))
    else:
        main(Path(sys.argv[1]))
