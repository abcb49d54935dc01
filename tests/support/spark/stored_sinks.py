"""One epoch of a query that writes files behind the component: ``python tests/support/spark/stored_sinks.py REQUEST``.

The request is a JSON file, see :class:`Request`. The epoch does what a driver does at the start of a query: it executes
again what the sink has and the checkpoint has not, into a noop sink, and goes on to the end of the input.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast


ROOT = Path(__file__).resolve().parents[3]
QUERY = "rows"
FILES, ROWS = 8, 12
CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "768m",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.sql.streaming.fileSource.log.compactInterval": "3",
    "spark.sql.streaming.fileSink.log.compactInterval": "3",
    "spark.sql.streaming.checkpointFileManagerClass": "io.github.sparkha.HaCheckpointFileManager",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@dataclass(frozen=True)
class Request:
    """What an epoch is to do.

    :param shape: ``"json"``, ``"parquet"`` or ``"partitioned"``.
    :param checkpoint: Directory of the query in the epoch's working directory.
    :param output: Where the script writes, as Spark is given it.
    :param s3: Fields of ``S3Options``, for the look at the sink.
    :param hdfs: Fields of ``HdfsOptions``, as above.
    """

    shape: str
    input: str
    checkpoint: str
    output: str
    jars: str
    conf: dict[str, str] = field(default_factory=dict)
    s3: dict[str, Any] = field(default_factory=dict)
    hdfs: dict[str, Any] = field(default_factory=dict)
    master: str = "local[2]"


@dataclass
class Epoch:
    """A running epoch."""

    process: subprocess.Popen[bytes]
    log: Path

    def kill(self) -> None:
        """Kill the driver with all that it has started, at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def text(self) -> str:
        """Return what it has said, or its end."""
        return self.log.read_text(errors="replace")[-6000:]

    def answer(self, timeout: float = 600) -> dict[str, Any]:
        """Wait for its end; return what it saw."""
        code = self.process.wait(timeout)
        assert code == 0, self.text()
        answer: dict[str, Any] = json.loads(Path(f"{self.log}.out").read_text().splitlines()[-1])
        return answer


@contextmanager
def epoch(request: Request, scratch: Path, name: str) -> Iterator[Epoch]:
    """Run one, and leave nothing of it."""
    file, log = scratch / f"{name}.json", scratch / f"{name}.log"
    file.write_text(json.dumps(asdict(request)), encoding="utf-8")
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT)}
    with log.open("wb") as errors, Path(f"{log}.out").open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, __file__, file], env=environment, stdout=out, stderr=errors, start_new_session=True
        )
    running = Epoch(process, log)
    try:
        yield running
    finally:
        running.kill()


def write_input(directory: Path) -> None:
    """Write the input: one file a batch."""
    directory.mkdir(parents=True)
    for number in range(FILES):
        path = directory / f"{number:03d}.json"
        rows = range(number * ROWS, (number + 1) * ROWS)
        path.write_text("".join(json.dumps({"row": row, "part": row % 3}) + "\n" for row in rows), encoding="utf-8")
        os.utime(path, (1_700_000_000 + number,) * 2)


def truth() -> dict[str, int]:
    """Return row -> how often it is written: what one batch over all of the input gives."""
    return {str(row): 1 for row in range(FILES * ROWS)}


def _session(request: Request) -> Any:
    from pyspark.sql import SparkSession  # tests that need no Spark import this module

    builder = SparkSession.builder.master(request.master)
    conf = {**CONF, **request.conf, "spark.jars": request.jars}
    for key, value in conf.items():
        if value:  # else Spark's own
            builder = builder.config(key, value)
    return builder.getOrCreate()


def _writer(spark: Any, request: Request, *, noop: bool = False) -> Any:
    rows = spark.readStream.schema("row LONG, part LONG").option("maxFilesPerTrigger", 1).json(request.input)
    writer = rows.dropDuplicates(["row"]).writeStream.queryName(QUERY).option("checkpointLocation", request.checkpoint)
    if noop:
        return writer.format("noop")
    if request.shape == "partitioned":
        writer = writer.partitionBy("part")
    return writer.format("json" if request.shape == "json" else "parquet").option("path", request.output)


def _work(request: Request) -> dict[str, Any]:
    from airflow_provider_ha.checkpoints.restore.plan_execution import decide_start
    from airflow_provider_ha.checkpoints.sinks.file_sink import FileSink
    from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress
    from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
    from airflow_provider_ha.checkpoints.spark.places import StorageAccess, output_place
    from airflow_provider_ha.config import HdfsOptions, S3Options

    spark = _session(request)
    gate = cast("Any", spark._jvm).io.github.sparkha.Gate
    gate.bind("j", 1, Path(request.checkpoint).parent.as_uri())
    gate.extend(int(float(Path("/proc/uptime").read_text(encoding="ascii").split()[0]) * 1000) + 900_000)
    place = LocalTree(Path(request.checkpoint))
    sink = FileSink(output_place(request.output), StorageAccess(S3Options(**request.s3), HdfsOptions(**request.hdfs)))
    steps = decide_start(progress(place), (), sink.reached())
    for step in steps:
        _writer(spark, request, noop=step.into == "noop").trigger(once=True).start().awaitTermination()
        assert progress(place).committed == step.batch
    _writer(spark, request).trigger(availableNow=True).start().awaitTermination()
    read = spark.read.schema("row LONG, part LONG") if request.shape == "json" else spark.read
    frame = read.format("json" if request.shape == "json" else "parquet").load(request.output)
    rows = Counter(str(row["row"]) for row in frame.collect())
    processes = int(spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size())
    spark.stop()
    return {"rows": dict(rows), "replayed": [step.batch for step in steps], "processes": processes}


if __name__ == "__main__":
    print(json.dumps(_work(Request(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))))
