"""What is started with the PySpark of each release: records checkpoints, and goes on with copies of them.

``program.py make TASKS.json`` runs each query over its input, ``program.py judge TASKS.json`` starts each again from a
copy. One JSON line answers each task: ``{"error": text or null, "rows": [...]}``. Python 3.6 has to understand this.
"""

import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

# It lies beside this program: other releases of Spark run both without the rest of the repository.
from processors import counted  # type: ignore[import-not-found]
from queries import (  # type: ignore[import-not-found]
    COMPLETE,
    KINDS,
    configure,
    record,
    record_endless,
    run,
    session,
    writer,
)


KINDS["processor"] = partial(counted, otherwise=KINDS["processor"])


def judge(spark: Any, task: Any) -> Any:
    """Go on from a checkpoint over what is new; return the rows, of the last batch where each has all of them."""
    if task["kind"] in {"continuous", "async"}:
        return judge_endless(spark, task)
    found: list[dict[str, Any]] = []

    def keep(frame: Any, _batch: Any) -> None:
        rows = [row.asDict() for row in frame.collect()]
        if task["kind"] in COMPLETE:
            del found[:]
        found.extend(rows)

    run(spark, writer(spark, task).foreachBatch(keep))
    return found


def judge_endless(spark: Any, task: Any) -> Any:
    """Start an endless query again; it is right when it commits another epoch or batch."""
    before = newest(task)
    record_endless(spark, dict(task, interval="200"), lambda: newest(task) > before)
    return [{"key": "went on", "count": int(newest(task) > before)}]


def newest(task: Any) -> int:
    """Return the newest committed batch or epoch."""
    names = [path.name for path in Path(task["checkpoint"], "commits").glob("*")]
    return max((int(name) for name in names if name.isdigit()), default=-1)


def main(verb: Any, tasks: Any) -> None:
    """Do every task; of a query that fails, the failure is the answer."""
    spark = session()
    known: set[str] = set()
    for task in tasks:
        answer: dict[str, Any] = {"error": None, "rows": []}
        begun = time.time()
        configure(spark, task, known)
        try:
            answer["rows"] = (record if verb == "make" else judge)(spark, task) or []
        except Exception as failure:  # noqa: BLE001  # any exception of Spark is its answer
            answer["error"] = str(failure)[:600]
        sys.stderr.write(f"{task['checkpoint']} {time.time() - begun:.1f} s {answer['error']}\n")
        sys.stdout.write("\n" + json.dumps(answer) + "\n")
        sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], json.loads(Path(sys.argv[2]).read_text()))
