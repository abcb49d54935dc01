"""A driver of the zombie matrix: ``python lab/zombie/driver_program.py FOLDER``.

It makes one session and plays one part after the other (``turn-1``, ``turn-2`` in its folder): it leads the epoch that
``go.json`` names, and runs one query with two stateful operators into a file sink, one input file a batch, until it is
told to stop or the query dies. What it saw goes to ``answer.json``. Its gate is open all the time: only exclusive
creates and the fence can stop a zombie here.
"""

from __future__ import annotations

import json
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any, cast


QUERY = "counts"
_POLL = 0.05  # seconds
MINUTES_KEPT = 2  # delay of the watermark: a count is built from the rows of three files
CONF = {
    "spark.master": "local-cluster[2,1,512]",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "640m",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "WARN",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.stateStore.maintenanceInterval": "300ms",
    "spark.sql.streaming.fileSource.log.compactInterval": "3",
    "spark.sql.streaming.fileSink.log.compactInterval": "3",
    # A frozen executor must not be taken for a lost one once its driver goes on.
    "spark.network.timeout": "3600s",
}
_SNAPSHOT = "java_method('io.github.sparkha.Counters', 'snapshot')"
_PID = "java_method('java.lang.ProcessHandle', 'current')"


class Driver:
    """One driver.

    :param folder: Holds its commands, and its answers.
    """

    def __init__(self, folder: Path) -> None:
        from pyspark.sql import SparkSession  # the harness imports this module, and needs no Spark

        builder = SparkSession.builder
        for key, value in {**CONF, **told(folder, "conf")}.items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        self.component = cast("Any", self.spark._jvm).io.github.sparkha
        self.spark.range(0, 2, 1, 2).count()  # the executors are up
        say(folder, "ready", True)

    def counters(self) -> dict[str, dict[str, int]]:
        """Return what the component has counted in each process: process id -> what -> how often."""
        tasks = self.spark.range(0, 4, 1, 4).selectExpr(f"{_PID} AS pid", f"{_SNAPSHOT} AS counts").collect()
        executors = {str(row["pid"]): _counted(str(row["counts"])) for row in tasks}
        return {"driver": dict(self.component.Counters.snapshot()), **executors}


class Turn:
    """One part.

    :param folder: Holds the note that this part has begun.
    :param go: Its command.
    """

    def __init__(self, driver: Driver, folder: Path, go: dict[str, Any]) -> None:
        self.driver, self.folder, self.go = driver, folder, go
        self.spark = driver.spark.newSession()
        for key, value in go["state"].items():
            self.spark.conf.set(key, value)
        self.output = str(go["output"])
        self.checkpoint = f"{go['directory']}/{QUERY}"

    def lead(self) -> None:
        """Open the gate, and execute again what the sink has and the checkpoint has not."""
        self.driver.component.Gate.bind("j", self.go["epoch"], self.go["directory"])
        self.driver.component.Gate.extend(_uptime() + 7_200_000)
        self.driver.component.SinkLogs.start(self.output, self.go["reached"])
        for _ in range(self.go["replays"]):
            self.writer().format("noop").outputMode("append").trigger(once=True).start().awaitTermination()

    def counts(self) -> Any:
        """Return how many distinct rows each key has in each minute."""
        from pyspark.sql.functions import col, window

        read = self.spark.readStream.schema("ts TIMESTAMP, key STRING, row STRING").option("maxFilesPerTrigger", 1)
        rows = read.json(self.go["input"]).withWatermark("ts", f"{MINUTES_KEPT} minutes")
        counted = rows.dropDuplicates(["row"]).groupBy(window("ts", "1 minute"), "key").count()
        return counted.select(col("window.start").cast("long").alias("start"), "key", "count")

    def writer(self) -> Any:
        """Return what the query is started with."""
        return self.counts().writeStream.queryName(QUERY).option("checkpointLocation", self.checkpoint)

    def start(self) -> Any:
        """Start the query."""
        return self.writer().format("json").option("path", self.output).outputMode("append").start()

    def play(self) -> dict[str, Any]:
        """Run the query to its end; return what was seen."""
        before = self.driver.counters()
        self.lead()
        query, failures = self.start(), []
        while not told(self.folder, "stop"):
            error = _error(query)
            if error is not None:
                failures.append(error)
                if not self.go["stubborn"]:
                    break
                self.purge()
                query = self.start()
            time.sleep(_POLL)
        query.stop()
        found = {} if failures else self.found()
        return {"failures": failures, "counters": _since(before, self.driver.counters()), **found}

    def purge(self) -> None:
        """Delete all that the query has, as Spark's purges and its maintenance delete."""
        hadoop = cast("Any", self.spark._jvm).org.apache.hadoop.fs
        conf = self.spark._jsc.hadoopConfiguration()
        place = hadoop.Path(self.checkpoint)
        manager = self.driver.component.HaCheckpointFileManager(place, conf)
        listed = place.getFileSystem(conf).listFiles(place, True)
        while listed.hasNext():
            path = listed.next().getPath()
            if path.getName() != "metadata":
                manager.delete(path)

    def found(self) -> dict[str, Any]:
        """Return output and state, as readers see them."""
        out = self.spark.read.schema("start LONG, key STRING, count LONG").json(self.output)
        _ = self.spark.streams.active  # else the reader finds no coordinator of the state
        state = [
            self.spark.read.format("statestore").option("operatorId", operator).load(self.checkpoint)
            for operator in (0, 1)
        ]
        counts, rows = sorted(state, key=lambda frame: "count" not in frame.select("value.*").columns)
        waiting = counts.selectExpr(
            "unix_timestamp(key.window.start) AS start", "key.key AS key", "value.count AS count"
        )
        return {
            "output": [[row["start"], row["key"], row["count"]] for row in out.collect()],
            "waiting": [[row["start"], row["key"], row["count"]] for row in waiting.collect()],
            "rows": [row["row"] for row in rows.selectExpr("key.row AS row").collect()],
        }


def _counted(text: str) -> dict[str, int]:
    parts = (part.partition("=") for part in text.strip("{}").split(", ") if part)
    return {name: int(number) for name, _, number in parts}


def _error(query: Any) -> str | None:
    """Return why a query has died; ``None`` while it has not."""
    if query.isActive:
        return None
    error = query.exception()
    return "it ended" if error is None else str(error)[:2000]


def _uptime() -> int:
    return int(float(Path("/proc/uptime").read_text(encoding="ascii").split()[0]) * 1000)


def _since(before: dict[str, dict[str, int]], now: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    return {
        process: {name: number - before.get(process, {}).get(name, 0) for name, number in counts.items()}
        for process, counts in now.items()
    }


def say(folder: Path, name: str, what: object) -> None:
    """Leave something for another process, whole or not at all."""
    aside = folder / f".{name}"
    aside.write_text(json.dumps(what), encoding="utf-8")
    aside.rename(folder / f"{name}.json")


def told(folder: Path, name: str) -> Any:
    """Return what another process has left; ``None`` while it has not."""
    file = folder / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def main(folder: Path) -> None:
    """Play every part."""
    driver = Driver(folder)
    for number in count(1):
        turn = folder / f"turn-{number}"
        while (go := told(turn, "go")) is None:
            time.sleep(_POLL)
        say(turn, "answer", Turn(driver, turn, go).play())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
