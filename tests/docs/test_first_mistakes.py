"""The mistakes of a first hour: Airflow ends each with one sentence, and none loops.

``FIRST_HOUR=write`` puts the measured seconds into the table of the page. In a sentence ``…`` stands for paths.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.airflow_helpers import connection_json


PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
LIMIT = 120.0  # seconds on a quiet machine, on the page
PATIENCE = 600.0  # seconds beside other tests
START = """\
import sys

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.text(sys.argv[1])
"""
GOOD = """\
rows.writeStream.queryName("rows").format("json").start(sys.argv[2])
spark.streams.awaitAnyTermination()
"""
PARSER = """\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--input", required=True)
parser.parse_args()
"""
TRIED_AGAIN = (
    "Airflow tries this task again for about 3 hours or more (999 retries). An outage needs nothing. If the address is "
    "wrong, end the task with Mark failed, correct connection 'spark_ha_default', and clear it."
)


@dataclass(frozen=True)
class Mistake:
    """What a user gets wrong.

    :param sentence: What Airflow says.
    :param task: What the DAG gives to the operator in place of what works.
    :param host: Environment of the worker beside that; ``None`` for a variable that is not set.
    :param connection: Fields of its connection.
    :param beside: A file beside the script.
    :param outage: Whether it looks like an outage, so that Airflow tries the task again.
    """

    name: str
    sentence: str
    script: str = START + GOOD
    task: Mapping[str, Any] = field(default_factory=dict)
    host: Mapping[str, str | None] = field(default_factory=dict)
    connection: Mapping[str, Any] = field(default_factory=dict)
    beside: str = ""
    outage: bool = False


MISTAKES = [
    Mistake(
        "the script is not there",
        "application '…/orders.py' does not exist. Check the path on the host that submits: with Airflow, the worker "
        "of this task.",
        task={"application": "orders.py"},
    ),
    Mistake(
        "a file next to the script is not shipped",
        "settings.ini is next to the script on the submitting host, and is not shipped automatically: ship it "
        "with --files settings.ini (files=['settings.ini']) and open it by its bare name, 'settings.ini'",
        script="from pathlib import Path\n\nPath(__file__).with_name('settings.ini').read_text()\n",
        beside="settings.ini",
    ),
    Mistake(
        "an input is a relative path",
        "the script reads a stream from the relative path 'in'; here that is …, and another directory in every other "
        "attempt, so a recovery would not find its files. Write it as an absolute path, for example '/data/in'.",
        task={"arguments": ["in", "out"]},
    ),
    Mistake(
        "an input is not there",
        "[PATH_NOT_FOUND] Path does not exist: …/inn.",
        task={"arguments": ["{here}/inn", "{here}/out"]},
    ),
    Mistake(
        "an argument of the script is misspelt",
        "main.py: error: the following arguments are required: --input",
        script=PARSER,
        task={"arguments": ["--inptu", "in"]},
    ),
    Mistake(
        "the script has a syntax error",
        "application '…/main.py' is not a Python script: expected ':' (main.py, line 3). Correct the script, or name a "
        "file that is one.",
        script="import sys\n\nif sys.argv\n",
    ),
    Mistake(
        "a module of the script is not installed",
        "ModuleNotFoundError: No module named 'pricing_rules'",
        script="import pricing_rules\n" + START + GOOD,
    ),
    Mistake(
        "a query with `foreachBatch` has no name",
        "main.py, line 7 starts a query without a name, and its sink gives it none that stays the same, so its "
        'checkpoint could not be found again. Add .queryName("...") to its writeStream, or '
        '.option("checkpointLocation", "...").',
        script=START + "rows.writeStream.foreachBatch(lambda frame, batch: frame.count()).start().awaitTermination()\n",
    ),
    Mistake(
        "the worker has no Java",
        "no Java was found by PATH. Install Java 17 and set JAVA_HOME to it.",
        host={"JAVA_HOME": None, "PATH": str(Path(sys.executable).parent)},
    ),
    Mistake(
        "the worker has an old Java",
        "…/bin/java is Java 11, at least 17 is needed. Install Java 17 and set JAVA_HOME to it.",
        host={"JAVA_HOME": "{here}/java11"},
    ),
    Mistake(
        "the master is `local[two]`",
        "Spark knows no master 'local[two]'. Use local[N] or local[*], with a number of threads, or "
        "local-cluster[executors,cores,megabytes].",
        task={"target": {"master": "local[two]"}},
    ),
    Mistake(
        "a word in the DAG is wrong",
        "wait_for='started' is unknown. Choose from running, finished.",
        task={"wait_for": "started"},
    ),
    Mistake(
        "a job id has a slash",
        "job id 'orders/eu' is not a valid name.",
        task={"job_id": "orders/eu"},
    ),
    Mistake(
        "Airflow has no such connection",
        "Airflow has no connection 'spark_ha_prod'. Correct spark_ha_conn_id, or add the connection, of type Spark HA, "
        "then clear the task.",
        task={"spark_ha_conn_id": "spark_ha_prod"},
    ),
    Mistake(
        "the connection is of another type",
        "connection 'spark_default' is of type 'spark', and has to be of type 'spark_ha'. Name a connection of type "
        "Spark HA in spark_ha_conn_id.",
        task={"spark_ha_conn_id": "spark_default"},
    ),
    Mistake(
        "the connection is empty",
        "connection 'spark_ha_default' has no ZooKeeper host and no storage root. Fill in Host, for example "
        "zk1:2181,zk2:2181,zk3:2181; and Storage root, for example file:///shared/spark-ha or s3://bucket/prefix.",
        connection={"host": "", "extra": {}},
    ),
    Mistake(
        "the address of ZooKeeper is wrong",
        "no ZooKeeper server of 127.0.0.1:1 answered within 15 s ([Errno 111] Connection refused). Check the hosts, "
        f"and that a majority of the ensemble runs. {TRIED_AGAIN}",
        connection={"host": "127.0.0.1:1"},
        outage=True,
    ),
    Mistake(
        "the storage root cannot be written",
        "storage root file:///…/default cannot be written: No such file or directory. Check the file system, its free "
        f"space, and the permissions to read and write there. {TRIED_AGAIN}",
        connection={"extra": {"storage_root": "file:///proc/ha"}},  # root, too, makes no directory there
        outage=True,
    ),
]


# Of each kind: found in the DAG, by the script, and by Airflow's connection.
OFTEN = {
    "a file next to the script is not shipped",
    "an argument of the script is misspelt",
    "a word in the DAG is wrong",
    "the address of ZooKeeper is wrong",
}


def said(sentence: str) -> str:
    """Return a pattern of what the log has."""
    return re.escape(sentence).replace("…", r"\S*")


def row_of(mistake: Mistake) -> re.Match[str] | None:
    """Return the row of the page, with its seconds."""
    shown = f"| {mistake.name} | {mistake.sentence.replace('|', '&#124;')} | "
    return re.search(rf"^{re.escape(shown)}(\d+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_the_tutorial_shows_each_mistake_with_its_sentence_and_its_seconds(mistake: Mistake) -> None:
    row = row_of(mistake)

    assert row is not None
    assert 0 < int(row[1]) <= LIMIT


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of an Airflow that has no DAG yet."""
    made = tmp_path_factory.mktemp("first-hour") / "airflow"
    (made / "dags").mkdir(parents=True)
    subprocess.run(
        [sys.executable, "-m", "airflow", "db", "migrate"], env=clean() | own(made), check=True, capture_output=True
    )
    return made


def clean() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "SPARK_HA"))}


def own(home: Path) -> dict[str, str]:
    return {"AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}


def worker(mistake: Mistake, home: Path, config: HaConfig, here: Path) -> dict[str, str]:
    """Return the environment in which Airflow runs the task."""
    connection = json.loads(connection_json(config)) | mistake.connection
    java = here / "java11" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    given = {key: value and value.format(here=here) for key, value in mistake.host.items()}
    variables: dict[str, str | None] = {
        **clean(),
        **own(home),
        "AIRFLOW_CONN_SPARK_HA_DEFAULT": json.dumps(connection),
        "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local"}',
        **given,
    }
    return {key: value for key, value in variables.items() if value is not None}


@pytest.fixture
def dag(mistake: Mistake, home: Path, tmp_path: Path) -> Iterator[str]:
    """A DAG as the tutorial has it, with the mistake in it or around it."""
    (tmp_path / "main.py").write_text(mistake.script)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "hamlet.txt").write_text("to be or not to be\n")
    if mistake.beside:
        (tmp_path / mistake.beside).touch()
    given: dict[str, Any] = {"job_id": "orders", "application": "main.py"}
    given |= {"arguments": ["{here}/in", "{here}/out"], **mistake.task}
    given["application"] = str(tmp_path / given["application"])
    given["arguments"] = [word.format(here=tmp_path) for word in given["arguments"]]
    words: dict[str, Any] = {"task_id": "run", "target": {"master": "local[1]"}, "wait_for": "running"}
    words |= {"conf": {"spark.ui.enabled": "false"}} | given
    file = home / "dags" / "first.py"
    file.write_text(
        "from airflow.sdk import DAG\n"
        "from airflow_provider_ha.operators.submit import SparkHaSubmitOperator\n"
        f"with DAG('first', schedule=None):\n    SparkHaSubmitOperator(**{words!r})\n"
    )
    yield "first"
    file.unlink()


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.airflow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "mistake",
    [
        pytest.param(mistake, id=mistake.name, marks=() if mistake.name in OFTEN else pytest.mark.hours)
        for mistake in MISTAKES
    ],
)
def test_airflow_ends_a_first_mistake_with_one_sentence(
    mistake: Mistake, dag: str, home: Path, config: HaConfig, tmp_path: Path
) -> None:
    log, began = tmp_path / "dags-test.log", monotonic()
    with log.open("wb") as output:
        task = subprocess.Popen(
            [sys.executable, "-m", "airflow", "dags", "test", dag],
            cwd=tmp_path,
            env=worker(mistake, home, config, tmp_path),
            stdout=output,
            stderr=output,
        )
    try:
        wait_until(
            lambda: task.poll() is not None or (mistake.outage and "up_for_retry" in log.read_text()),
            timeout=PATIENCE,
            what="the end of the task",
        )
        seconds = monotonic() - began
    finally:
        task.kill()
        task.wait()

    errors = [line for line in log.read_text(encoding="utf-8").splitlines() if re.search(r"\[error +\]", line)]
    assert sum(bool(re.search(said(mistake.sentence), line)) for line in errors) == 1, "\n".join(errors)
    remember(mistake, seconds)


def remember(mistake: Mistake, seconds: float) -> None:
    """Write the seconds into the page, when they are asked for."""
    row = row_of(mistake)
    if os.environ.get("FIRST_HOUR") == "write" and row is not None:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(text[: row.start(1)] + f"{seconds:.0f}" + text[row.end(1) :], encoding="utf-8")
