"""Spark's own streaming examples, unmodified: a driver shows what ``spark-submit`` shows, and stops them in order."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from airflow_provider_ha.jobs.model import JobState, OperationKind, OperationState
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.spark.driver_helpers import CONF, PATIENCE, ManagedJob, finished
from tests.support.spark.lines_server import words


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.hours, pytest.mark.timeout(900)]
PYSPARK = find_spec("pyspark")
assert PYSPARK is not None
assert PYSPARK.origin is not None
EXAMPLES = Path(PYSPARK.origin).parent / "examples" / "src" / "main" / "python" / "sql" / "streaming"
# Example -> its arguments beside host and port, and a row that it prints of the words.
SHOWN = {
    "structured_network_wordcount.py": ((), r"\|\s*apache\|\s*2\|"),
    "structured_network_wordcount_windowed.py": (("10", "5"), r"\|\s*apache\|\s*2\s*\|"),
    "structured_network_wordcount_session_window.py": ((), r"\|\s*apache\|\s*2\|"),
}


@pytest.fixture
def port() -> Iterator[int]:
    with words() as found:
        yield found


def plain(script: Path, arguments: list[str], wanted: str, directory: Path) -> None:
    """Run a script with ``spark-submit`` until it has printed what is wanted."""
    conf = [word for key, value in CONF.items() for word in ("--conf", f"{key}={value}")]
    output = directory / "plain.log"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name("spark-submit")), *conf, str(script), *arguments],
            cwd=directory,
            env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_until(lambda: re.search(wanted, output.read_text()), timeout=PATIENCE, what=f"{wanted} of spark-submit")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("name", SHOWN)
def test_an_example_of_spark_shows_what_it_shows_with_spark_submit(
    name: str, port: int, managed: ManagedJob, tmp_path: Path
) -> None:
    more, wanted = SHOWN[name]
    arguments = ["127.0.0.1", str(port), *more]
    plain(EXAMPLES / name, arguments, wanted, tmp_path)

    run = managed.submit(EXAMPLES / name, arguments)
    process = managed.start(run)

    wait_until(lambda: re.search(wanted, managed.log(run)), timeout=PATIENCE, what=f"{wanted} of the driver")
    wait_until(lambda: managed.status and managed.status.state is JobState.RUNNING, timeout=PATIENCE, what="RUNNING")
    answer = managed.await_operation(managed.ask(OperationKind.STOP, mode="suspend"))
    assert answer.state is OperationState.COMPLETED, answer.error
    assert process.wait(PATIENCE) == 0, managed.log(run)
    assert finished(managed.result(run)).reason == "suspended"
