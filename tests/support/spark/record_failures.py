"""Records how Spark and Python tell of errors.

``python -m tests.support.spark.record_failures [CASE ...]`` makes them happen.

The texts are in ``tests/data/failures``, one file a case, without the names of this machine. A case that is called
``application-*``, ``outage-*`` or ``unknown-*`` is of that kind.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from airflow_provider_ha.driver.ending.run_failure import text_of


CORPUS = Path(__file__).parents[2] / "data" / "failures"
_SITE_PACKAGES = re.compile(r"[^\s\"']*/site-packages/")
_IDS = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
Case = Callable[[Any, Path], BaseException]


class BadRowError(Exception):
    """An exception of the application."""


class Recorder:
    """One Spark session, and a directory with a file of three rows."""

    def __init__(self, root: Path) -> None:
        from pyspark.sql import SparkSession  # only where Spark is started

        self.root = root
        self.source = root / "in"
        self.source.mkdir()
        (self.source / "rows.txt").write_text("1\n2\nthree\n")
        settings = {"spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.driver.host": "127.0.0.1"}
        builder = SparkSession.builder.master("local[1]")
        for name, value in settings.items():
            builder = builder.config(name, value)
        self.spark = builder.getOrCreate()

    def rows(self) -> Any:
        return self.spark.readStream.text(str(self.source))

    def batches(self, function: Callable[[Any, int], object]) -> BaseException:
        return self.ended(self.rows().writeStream.foreachBatch(function))

    def ended(self, writer: Any) -> BaseException:
        """Return why the query of *writer* failed."""
        location = tempfile.mkdtemp(dir=self.root)
        query = writer.option("checkpointLocation", location).start()
        with contextlib.suppress(Exception):  # what is recorded is what the query says
            query.awaitTermination(60)
        error: BaseException = query.exception()
        return error

    def column(self, function: Callable[[str], str]) -> BaseException:
        from pyspark.sql.functions import udf  # as above

        made = self.rows().select(udf(function)("value"))
        return self.ended(made.writeStream.format("noop"))

    def raised(self, act: Callable[[], Any]) -> BaseException:
        try:
            act()
        except Exception as error:  # noqa: BLE001  # any exception is recorded
            return error
        raise AssertionError("nothing was raised")


def _closed_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


PORT = _closed_port()


def _connect() -> None:
    socket.create_connection(("127.0.0.1", PORT), timeout=5)


def _wrapped(*_: Any) -> None:
    try:
        _connect()
    except OSError as error:
        raise RuntimeError("the batch could not be written") from error


def _hidden(*_: Any) -> None:
    try:
        _connect()
    except OSError:
        raise RuntimeError("the batch could not be written") from None


def _own(*_: Any) -> None:
    raise BadRowError("row 7 has no price")


def _in_worker(value: str) -> str:
    import socket as sockets  # a function that is pickled takes its imports along

    sockets.create_connection(("127.0.0.1", PORT), timeout=5)
    return value


def _in_json(value: str) -> str:
    import json  # as above

    return str(json.loads("{" + value))


def _dies(value: str) -> str:
    import os as system  # as above

    system._exit(1)
    return value


def _missing_module(recorder: Recorder) -> BaseException:
    """A module that the driver can import and the workers cannot."""
    folder = recorder.root / "only-here"
    folder.mkdir()
    (folder / "pricing.py").write_text("def price(value):\n    return value\n")
    sys.path.insert(0, str(folder))
    return recorder.column(importlib.import_module("pricing").price)


def _file_is_gone(recorder: Recorder) -> BaseException:
    def batch(frame: Any, _: int) -> None:
        (recorder.source / "rows.txt").rename(recorder.source / ".away")
        try:
            frame.collect()
        finally:
            (recorder.source / ".away").rename(recorder.source / "rows.txt")

    return recorder.batches(batch)


CASES: dict[str, Callable[[Recorder], BaseException]] = {
    "application-foreach-batch": lambda r: r.batches(lambda frame, batch: int("x" * (batch + 1))),
    "application-foreach-batch-own-class": lambda r: r.batches(_own),
    "application-foreach-batch-analysis": lambda r: r.batches(lambda frame, _: frame.select("nope").collect()),
    "application-udf": lambda r: r.column(lambda value: str(int(value))),
    "application-udf-json": lambda r: r.column(_in_json),
    "application-udf-module": _missing_module,
    "application-cast": lambda r: r.ended(r.rows().selectExpr("cast(value as int)").writeStream.format("noop")),
    "application-analysis": lambda r: r.raised(lambda: r.rows().select("nope")),
    "application-parse": lambda r: r.raised(lambda: r.rows().selectExpr("value +* 1")),
    "application-data-source": lambda r: r.raised(lambda: r.spark.readStream.format("none.such").load()),
    "outage-foreach-batch": lambda r: r.batches(lambda *_: _connect()),
    "outage-foreach-batch-wrapped": lambda r: r.batches(_wrapped),
    "outage-udf": lambda r: r.column(_in_worker),
    "outage-worker-died": lambda r: r.column(_dies),
    "outage-file-is-gone": _file_is_gone,
    "outage-source-is-gone": lambda r: r.raised(lambda: r.spark.readStream.text("/nowhere/in").schema),
    "outage-script-hidden": lambda r: r.raised(_hidden),
}


def main(wanted: list[str]) -> None:
    """Record the cases that are named, else those that are not there yet."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    CORPUS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as root:
        recorder = Recorder(Path(root))
        for name, case in CASES.items():
            path = CORPUS / f"{name}.txt"
            if name in wanted or (not wanted and not path.exists()):
                path.write_text(without_this_machine(text_of(case(recorder)), root))
                sys.stdout.write(f"{name}\n")
        recorder.spark.stop()


def without_this_machine(text: str, root: str) -> str:
    """Return *text* with paths, ports and ids that are always the same, and only the ends of a long stack."""
    text = _SITE_PACKAGES.sub("/venv/lib/python3.11/site-packages/", text.replace(root, "/data"))
    text = text.replace(str(Path(__file__).parents[2]), "/jobs/rows").replace(socket.gethostname(), "host-1")
    text = re.sub(r"[^\s\"']*/lib/python3\.\d+/", "/usr/lib/python3.11/", text.replace("/venv/lib/", "@venv@"))
    text = _IDS.sub("00000000-0000-0000-0000-000000000000", text.replace("@venv@", "/venv/lib/"))
    return re.sub(r"(?m)((?:^\tat .*\n){3})(?:^\tat .*\n)+", r"\1", text)


if __name__ == "__main__":
    main(sys.argv[1:])
