"""What Spark does with sparse logs: the query without state of the corpus, with and without asynchronous progress.

``python tests/support/spark/async_judge.py CASES.json`` reads ``[{"checkpoint": ..., "asynchronous": ...}]`` and prints
one JSON line per case: ``{"error": text or null, "rows": how many rows were read}``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


ROOT = Path(__file__).resolve().parents[3]


def judge(cases: list[tuple[Path, bool]], scratch: Path) -> list[dict[str, Any]]:
    """Return Spark's answer to each (checkpoint, whether the query runs with asynchronous progress tracking)."""
    request = scratch / "cases.json"
    request.write_text(json.dumps([{"checkpoint": str(path), "asynchronous": flag} for path, flag in cases]))
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT)}
    with (scratch / "judge.log").open("wb") as log:
        done = subprocess.run(
            [sys.executable, __file__, str(request)],
            check=True,
            timeout=300,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    return [json.loads(line) for line in done.stdout.splitlines()]


def main(request: Path) -> None:
    """Run every case; a query that fails is an answer."""
    from tests.support.spark.corpus import configure, corpus, frame, session

    spark = session()
    configure(spark, "stateless")
    for case in json.loads(request.read_text()):
        writer = frame(spark, "stateless", corpus() / "stateless" / "input").writeStream.format("noop")
        if case["asynchronous"]:
            writer = writer.option("asyncProgressTrackingEnabled", "true")
        query = (
            writer.trigger(processingTime="10 milliseconds").option("checkpointLocation", case["checkpoint"]).start()
        )
        error = None
        try:
            query.processAllAvailable()
        except Exception as failure:  # noqa: BLE001  # any exception of Spark is its answer
            error = str(failure)[:300]
        rows = sum(progress["numInputRows"] for progress in query.recentProgress)
        query.stop()
        sys.stdout.write(json.dumps({"error": error, "rows": rows}) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
