"""What Spark itself says to checkpoints: started from each of them, in one JVM.

``python tests/support/spark/spark_judge.py CASES.json`` reads ``[{"shape": ..., "checkpoint": ...}]`` and prints one
JSON line per case: ``{"error": text or null, "counts": {...}}`` after one more run over the input of the shape.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any


ROOT = Path(__file__).resolve().parents[3]


def judge(cases: list[tuple[str, Path]], scratch: Path) -> list[str]:
    """Return, for each (shape, checkpoint), ``"right"``, ``"wrong: ..."`` or ``"failed: ..."``.

    :param scratch: A directory of the test's own.
    """
    from tests.support.spark.corpus import truth  # this file is also a program, which has another path

    request = scratch / "cases.json"
    request.write_text(json.dumps([{"shape": shape, "checkpoint": str(path)} for shape, path in cases]))
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT)}
    with (scratch / "judge.log").open("wb") as log:
        done = subprocess.run(
            [sys.executable, __file__, str(request)],
            check=True,
            timeout=900,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b"{")]
    return [_outcome(answer, truth(shape)) for answer, (shape, _) in zip(answers, cases, strict=True)]


def _outcome(answer: dict[str, Any], truth: dict[str, int]) -> str:
    if answer["error"]:
        return f"failed: {answer['error']}"
    return "right" if answer["counts"] == truth else f"wrong: {answer['counts']} instead of {truth}"


def main(request: Path) -> None:
    """Run every case; a query that fails is an answer."""
    from tests.support.spark.corpus import configure, corpus, run, session  # starts Spark

    spark = session()
    place = corpus()
    for case in json.loads(request.read_text()):
        shape, error = case["shape"], None
        counts: dict[str, int] = {}
        configure(spark, shape)

        def keep(frame: Any, _batch: int, shape: str = shape, counts: dict[str, int] = counts) -> None:
            rows = [row.asDict() for row in frame.collect()]
            found = Counter[str]()
            for row in rows:
                found[row.get("key", "all")] += row.get("count", 1)
            if rows or shape not in {"stateless", "rocksdb2-join"}:
                counts.clear()
                counts.update(found)

        try:
            run(spark, shape, place / shape / "input", Path(case["checkpoint"]), keep)
        except Exception as failure:  # noqa: BLE001  # any exception of Spark is its answer
            error = str(failure)[:300]
        sys.stdout.write(json.dumps({"error": error, "counts": counts}) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
