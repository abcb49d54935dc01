"""Real queries behind the component, over two epochs: ``python tests/support/spark/component_queries.py REQUEST``.

The request is a JSON file: ``jars``, ``root`` (of the storage), ``output`` (of a file sink), ``conf``, ``scratch`` and
``shapes``. Epoch 1 reads the first half of the input, a base is made of its directory, and epoch 2 goes on from that to
the end. What was seen is printed as one JSON line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast


ROOT = Path(__file__).resolve().parents[3]
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
HDFS_BACKED = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
STATE = "spark.sql.streaming.stateStore."
SHAPES: dict[str, dict[str, str]] = {
    "rocksdb2": {f"{STATE}providerClass": ROCKSDB, f"{STATE}checkpointFormatVersion": "2"},
    "changelog2": {
        f"{STATE}providerClass": ROCKSDB,
        f"{STATE}checkpointFormatVersion": "2",
        f"{STATE}rocksdb.changelogCheckpointing.enabled": "true",
    },
    "rocksdb1": {f"{STATE}providerClass": ROCKSDB, f"{STATE}checkpointFormatVersion": "1"},
    "hdfs_backed": {f"{STATE}providerClass": HDFS_BACKED, f"{STATE}checkpointFormatVersion": "1"},
    "join": {f"{STATE}providerClass": ROCKSDB, f"{STATE}checkpointFormatVersion": "2"},
}
CONF = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.stateStore.maintenanceInterval": "300ms",
    "spark.sql.streaming.fileSource.log.compactInterval": "3",
    "spark.sql.streaming.fileSink.log.compactInterval": "3",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
FILES, KEYS, ROWS = 8, 5, 12


def run(request: dict[str, Any], scratch: Path, python: str = sys.executable, **environment: str) -> dict[str, Any]:
    """Run the program; return what it saw."""
    file, log = scratch / "request.json", scratch / "queries.log"
    file.write_text(json.dumps(request), encoding="utf-8")
    with log.open("wb") as stream:
        done = subprocess.run(
            [python, __file__, file],
            check=False,
            timeout=900,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT), **environment},
            stdout=subprocess.PIPE,
            stderr=stream,
        )
    assert done.returncode == 0, log.read_text(errors="replace")[-4000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def truth(shape: str) -> dict[str, int]:
    """Return key -> number of rows in all of the input; of the join, in its first half, which the second half meets."""
    counts = {f"k{key}": 0 for key in range(KEYS)}
    for number in range(FILES * ROWS // 2 if shape == "join" else FILES * ROWS):
        counts[f"k{number % KEYS}"] += 1
    return counts


class Epochs:
    """Two epochs of each shape, in one session."""

    def __init__(self, request: dict[str, Any]) -> None:
        from pyspark.sql import SparkSession

        self.request = request
        self.root = request["root"]
        builder = SparkSession.builder
        for key, value in {**CONF, **request["conf"], "spark.jars": request["jars"]}.items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        self.jvm = cast("Any", self.spark._jvm)
        self.component = self.jvm.io.github.sparkha
        self.input = Path(request["scratch"]) / "input"
        self.input.mkdir()

    def files(self, numbers: range) -> None:
        """Write files of the input."""
        for number in numbers:
            rows = [{"key": f"k{row % KEYS}", "row": row} for row in range(number * ROWS, (number + 1) * ROWS)]
            path = self.input / f"{number:03d}.json"
            path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
            os.utime(path, (1_700_000_000 + number,) * 2)

    def lead(self, epoch: int) -> None:
        """Open the gate for an epoch."""
        now = int(float(Path("/proc/uptime").read_text(encoding="ascii").split()[0]) * 1000)
        self.component.Gate.bind("j", epoch, self.directory(epoch))
        self.component.Gate.extend(now + 600_000)

    def directory(self, epoch: int) -> str:
        return f"ha{self.root}/jobs/j/e{epoch}-x"

    def start(self, shape: str, epoch: int) -> dict[str, int]:
        """Run one shape to the end of the input; return what it counted."""
        for key, value in SHAPES[shape].items():
            self.spark.conf.set(key, value)
        counts: dict[str, int] = {}

        def keep(batch: Any, _: int) -> None:
            counts.update({row["key"]: row["count"] for row in batch.collect()})

        def add(batch: Any, _: int) -> None:
            for row in batch.collect():
                counts[row["key"]] = counts.get(row["key"], 0) + 1

        if shape == "join":
            writer = self.join().writeStream.queryName(shape).outputMode("append").foreachBatch(add)
        else:
            rows = self.rows().dropDuplicates(["row"]).groupBy("key").count()
            writer = rows.writeStream.queryName(shape).outputMode("update").foreachBatch(keep)
        location = f"{self.directory(epoch)}/{shape}"
        writer.option("checkpointLocation", location).trigger(availableNow=True).start().awaitTermination()
        return counts

    def rows(self) -> Any:
        """Return the input as a stream, one file a batch."""
        frame = self.spark.readStream.schema("key STRING, row LONG").option("maxFilesPerTrigger", 1)
        return frame.json(str(self.input))

    def join(self) -> Any:
        """Return each row of the first half with the one of the second half that follows it: it waits in the state."""
        later = self.rows().selectExpr(f"row - {FILES * ROWS // 2} AS earlier")
        return self.rows().join(later, on=[self.column("row") == self.column("earlier")]).select("key")

    def column(self, name: str) -> Any:
        """Return a column."""
        from pyspark.sql.functions import col

        return col(name)

    def sink(self, epoch: int) -> int:
        """Write rows into a file sink; return how many it has."""
        output = f"{self.request['output']}"
        writer = self.rows().writeStream.format("json").option("path", output)
        location = f"{self.directory(epoch)}/sink"
        writer.option("checkpointLocation", location).trigger(availableNow=True).start().awaitTermination()
        return int(self.spark.read.schema("key STRING, row LONG").json(output).distinct().count())

    def fork(self, query: str) -> dict[str, str]:
        """Have epoch 2 begin with all that epoch 1 left; return that, with digests."""
        from tests.support.spark.component_jvm import base

        path = self.jvm.org.apache.hadoop.fs.Path
        old = path(f"{self.root}/jobs/j/e1-x/{query}")
        files = old.getFileSystem(self.spark._jsc.hadoopConfiguration())
        above = path(self.root).toUri().getPath()
        entries, digests = {}, {}
        listed = files.listFiles(old, True)
        while listed.hasNext():
            status = listed.next()
            place = str(status.getPath().toUri().getPath())[len(above) + 1 :]
            name = place.partition(f"/e1-x/{query}/")[2]
            if not name.startswith("."):
                entries[name] = (place, int(status.getLen()), int(status.getModificationTime()), "")
                digests[name] = self.digest(files, status.getPath())
        stream = files.create(path(f"{self.root}/jobs/j/e2-x/{query}/_ha_base"), False)
        stream.write(base(entries, epoch=2))
        stream.close()
        return digests

    def digest(self, files: Any, path: Any) -> str:
        stream = files.open(path)
        try:
            return str(self.jvm.org.apache.commons.codec.digest.DigestUtils.md5Hex(stream))
        finally:
            stream.close()

    def unchanged(self, query: str, before: dict[str, str]) -> bool:
        """Whether all that epoch 1 left is as it was."""
        path = self.jvm.org.apache.hadoop.fs.Path
        files = path(self.root).getFileSystem(self.spark._jsc.hadoopConfiguration())
        place = f"{self.root}/jobs/j/e1-x/{query}"
        return {name: self.digest(files, path(f"{place}/{name}")) for name in before} == before

    def without_a_lease(self) -> str:
        """Return why a query ends whose leader has none."""
        self.component.Gate.close("the leadership is lost")
        try:
            self.start("rocksdb2", 3)
        except Exception as error:  # noqa: BLE001  # the question is why it ends
            return str(error)
        return "it went on"

    def guards(self) -> dict[str, str]:
        """Return what the driver's checks say of sessions and queries."""
        from airflow_provider_ha.driver.jvm.component import Component, check_driver, check_executors
        from airflow_provider_ha.jobs.options.conf import MANAGER

        check_driver(self.jvm)
        check_executors(self.spark)
        component = Component(self.jvm, lambda: 60.0, 1.0, lambda _: None)
        told = {}
        new = self.spark.newSession()
        told["new session"] = outcome(lambda: component.check_session(new))
        unset = self.spark.newSession()
        unset.conf.unset(MANAGER)
        told["unset"] = outcome(lambda: component.check_session(unset))
        other = self.spark.newSession()
        other.conf.set(
            MANAGER, "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        )
        told["other"] = outcome(lambda: component.check_session(other))
        self.lead(4)
        for name, session in (("query", new), ("query of another manager", other)):
            rows = session.readStream.format("rate").load().writeStream.format("noop")
            place = self.directory(4) if name == "query" else f"file://{self.request['scratch']}/other"
            query = rows.option("checkpointLocation", f"{place}/q").start()
            told[name] = outcome(lambda query=query, name=name: component.check_query(query, name))
            told[f"{name} runs"] = str(query.isActive)
            query.stop()
        return told


def outcome(check: Any) -> str:
    """Return the output of a check, or ``fine`` without output."""
    from airflow_provider_ha.errors import ApplicationRefusedError

    try:
        check()
    except ApplicationRefusedError as error:
        return str(error)
    return "fine"


def main(request: dict[str, Any]) -> None:
    """Do what the request says."""
    epochs = Epochs(request)
    epochs.files(range(FILES // 2))
    epochs.lead(1)
    for shape in request["shapes"]:
        epochs.start(shape, 1)
    told: dict[str, Any] = {"rows": epochs.sink(1), "counts": {}, "unchanged": {}}
    epochs.files(range(FILES // 2, FILES))
    before = {query: epochs.fork(query) for query in (*request["shapes"], "sink")}
    epochs.lead(2)
    for shape in request["shapes"]:
        told["counts"][shape] = epochs.start(shape, 2)
    told["rows"] = epochs.sink(2)
    told["unchanged"] = {query: epochs.unchanged(query, was) for query, was in before.items()}
    told["counters"] = dict(epochs.component.Counters.snapshot())
    reads = epochs.component.StateReads
    told["reads"] = {shape: reads.of(f"{epochs.directory(2)}/{shape}").split() for shape in request["shapes"]}
    told["lease"] = epochs.without_a_lease()
    if request.get("guards"):
        told["guards"] = epochs.guards()
    print(json.dumps(told))
    epochs.spark.stop()


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
