"""What is started with the PySpark of each release to ask it about many copies: three at a time, several starts of one.

``restarts.py TASKS.json`` goes on from each copy, once with each of the task's ``inputs``. A JSON line says that a case
is begun, another one that it is answered: ``{"case": its name, "starts": [{"error": text or null, "rows": [...]}]}``.
The first start that fails is the last one. Python 3.6 has to understand this.
"""

import json
import os
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

from program import judge  # type: ignore[import-not-found]  # both lie beside this program
from queries import configure, session  # type: ignore[import-not-found]


AT_ONCE = 3
# Spark's own default: with fewer a new snapshot would soon cover what a stale one does.
DELTAS = "spark.sql.streaming.stateStore.minDeltasForSnapshot"
# Copies of one recording have one query id, and Spark stops a query when another one of its id is started.
STOP_THE_OTHER = "spark.sql.streaming.stopActiveRunOnRestart"
# What Spark and Py4J put around a cause.
WRAPPERS = ("STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR", "Py4JJavaError", "SparkException", "Py4JError")
_printing = threading.Lock()


def starts(spark: Any, task: Any) -> Any:
    """Start a copy as often as it is asked for."""
    answers: list[dict[str, Any]] = []
    for source in task["inputs"]:
        answer: dict[str, Any] = {"error": None, "rows": []}
        try:
            answer["rows"] = judge(spark, dict(task, input=source))
        except Exception as failure:  # noqa: BLE001  # any exception of Spark is its answer
            if is_gone(failure):
                os._exit(1)  # no answer: the copies that were begun are asked of another JVM, one by one
            answer["error"] = cause(str(failure)) or type(failure).__name__
        answers.append(answer)
        if answer["error"]:
            break
    return answers


def is_gone(failure: Any) -> Any:
    """Whether an error says that there is no JVM any more, and nothing of the copy."""
    return isinstance(failure, ConnectionError) or type(failure).__name__ == "Py4JNetworkError"


def cause(text: str) -> str:
    """Return the words of an error that say why, at most 160 characters."""
    named = [name for name in re.findall(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]", text) if name not in WRAPPERS]
    thrown = [
        found for found in re.findall(r"([A-Za-z0-9]+(?:Exception|Error)): ([^\n]*)", text) if found[0] not in WRAPPERS
    ]
    ended = text.rpartition("terminated with exception: ")[2]
    if named:
        found = named[0]
    elif "Python Proxy" in ended and thrown:
        found = ": ".join(thrown[-1])
    else:
        found = ended
    return " ".join(found.split())[:160]


def say(answer: Any) -> None:
    """Print one line, whole."""
    with _printing:
        sys.stdout.write("\n" + json.dumps(answer) + "\n")
        sys.stdout.flush()


class Queue:
    """The tasks that are left; of those with one ``alone`` only one is out at a time."""

    def __init__(self, tasks: Any) -> None:
        self._left = list(tasks)
        self._out: set[str] = set()
        self._changed = threading.Condition()

    def take(self) -> Any:
        """Return the next task that may run now; ``None`` when none is left."""
        with self._changed:
            while self._left:
                for task in self._left:
                    if task["alone"] not in self._out:
                        self._left.remove(task)
                        self._out.add(task["alone"])
                        return task
                self._changed.wait()
            return None

    def done(self, task: Any) -> None:
        """Let the next one of its kind run."""
        with self._changed:
            self._out.discard(task["alone"])
            self._changed.notify_all()


def work(root: Any, queue: Any) -> None:
    """Ask about one copy after the other, each in a new session, because conf differs."""
    spark = root.newSession()
    known: set[str] = set()
    for task in iter(queue.take, None):
        begun = time.time()
        say({"begun": task["case"]})
        configure(spark, dict(task, conf=dict(task["conf"], **{DELTAS: "10", STOP_THE_OTHER: "false"})), known)
        say({"case": task["case"], "starts": starts(spark, task), "seconds": round(time.time() - begun, 1)})
        queue.done(task)


def main(tasks: Any) -> None:
    """Ask about every copy."""
    spark, queue = session(), Queue(tasks)
    workers = [threading.Thread(target=work, args=(spark, queue)) for _ in range(AT_ONCE)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    spark.stop()


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
