"""A running query is judged as it stands: what Spark writes and purges under the eyes of the look is no damage.

``python tests/integration/checkpoints/test_verify_running.py DIRECTORY`` is the query.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.checkpoints.verify.verification_report import Finding
from airflow_provider_ha.testing.waiting import wait_until


ROOT = Path(__file__).resolve().parents[3]
FILES = 16


def main(place: Path) -> None:
    """Aggregate into a file sink, one batch for each file, and keep two batches only."""
    from pyspark.sql import functions

    from tests.support.spark.corpus import session, write_input

    for number in range(FILES):
        write_input(place / "input", number)
    conf = {"spark.sql.streaming.minBatchesToRetain": "2", "spark.sql.streaming.fileSink.log.compactInterval": "4"}
    spark = session(conf)
    rows = spark.readStream.schema("key string, value long").option("maxFilesPerTrigger", 1).json(str(place / "input"))
    timed = rows.withColumn("at", functions.timestamp_seconds(functions.col("value"))).withWatermark("at", "1 second")
    counts = timed.groupBy(functions.window("at", "1 second"), "key").count()
    writer = counts.writeStream.format("json").option("path", str(place / "out"))
    query = writer.trigger(availableNow=True).option("checkpointLocation", str(place / "checkpoint")).start()
    query.awaitTermination()
    spark.stop()


@pytest.mark.hours
@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_no_look_at_a_running_query_finds_damage(tmp_path: Path) -> None:
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT)}
    with (tmp_path / "log").open("wb") as log:
        query = subprocess.Popen([sys.executable, __file__, str(tmp_path)], env=environment, stdout=log, stderr=log)
    alarms: list[Finding] = []
    looks, seen = 0, set[int]()
    try:
        wait_until((tmp_path / "checkpoint" / "commits" / "0").exists, timeout=120, what="a first batch")
        while query.poll() is None:
            report = verify(LocalTree(tmp_path / "checkpoint"), sink=LocalTree(tmp_path / "out"))
            looks, seen = looks + 1, seen | {report.committed}
            alarms += [finding for finding in report.findings if finding.code.value != "SINK_AHEAD"]
            assert report.startable is True, report.findings
    finally:
        query.kill()
        query.wait()

    assert alarms == []
    assert query.returncode == 0, (tmp_path / "log").read_text()
    assert looks > FILES // 2
    assert len(seen) > FILES // 3
    assert verify(LocalTree(tmp_path / "checkpoint"), sink=LocalTree(tmp_path / "out")).findings == ()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
