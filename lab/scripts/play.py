"""One script, run by ``spark-submit`` and by a driver; what the two print, and how they end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.errors import HaError
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.testing.waiting import wait_until
from lab.scripts.cases import Case
from tests.support.judged import Judged
from tests.support.spark.driver_helpers import CONF, PATIENCE, Stream
from tests.support.spark.supervised_job import SupervisedJob


_LOG = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (\w+) (\w+)[:\[ ]|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[,.]\d+ \w+ [\w.]+: ")
_STACK = re.compile(
    r"\s+at [\w.$/]+|java\.|\s*File \"|\s*[~^]+$|Caused by: |WARNING: |Using Spark's default|Setting default log"
    r"|To adjust logging"
)
# A batch that is late, a port that is taken: they follow the machine, not the one that runs the script.
_OF_THE_MACHINE = frozenset({"WARN ProcessingTimeExecutor", "WARN Utils", "WARN NativeCodeLoader", "WARN SparkConf"})
# Spark's warning of a temporary checkpoint location: a driver has a place for each query.
_INTENDED = frozenset({"WARN ResolveWriteToStream"})
_NUMBERS = re.compile(r"[|#\s.:-]*")  # rows of a batch that one of the two has not come to


class Outcome(Judged):
    """What a script does here and there.

    :param plain: How ``spark-submit`` ends it.
    :param managed: How its run ends.
    :param differences: Lines and loggers that only one of the two has.
    :param variables: Variables of the environment that only one of the two has.
    """

    plain: str
    managed: str
    differences: list[str] = []
    variables: list[str] = []


@dataclass(frozen=True)
class Seen:
    """One run.

    :param ended: How it ended.
    :param text: What it printed.
    :param variables: Of its Python's environment.
    """

    ended: str
    text: str
    variables: frozenset[str]


def play(case: Case, words: list[str], conf: dict[str, str], client: HaClient, place: Path) -> Outcome:
    """Run a script both ways, and judge the difference.

    :param words: The script and its arguments.
    :param conf: Beside that of all tests.
    """
    begun = time.monotonic()
    plain = with_spark_submit(case, words, conf, place)
    managed = with_a_driver(case, words, conf, client, place)
    refused = bool(case.refused)
    lines = (
        [] if refused else [*only(plain.text, managed.text, "spark-submit"), *only(managed.text, plain.text, "driver")]
    )
    return Outcome(
        seconds=time.monotonic() - begun,
        wrong=list(wrong(case, plain, managed, lines)),
        plain=plain.ended,
        managed=managed.ended,
        differences=lines,
        variables=[] if refused else _apart(plain.variables, managed.variables),
    )


def wrong(case: Case, plain: Seen, managed: Seen, lines: list[str]) -> Iterator[str]:
    """Yield what is not as it has to be. Pure."""
    if not re.search(case.shown, plain.text):
        yield f"with spark-submit it does not print {case.shown!r}: {plain.ended}"
    if case.refused:
        if case.refused not in managed.ended:
            yield f"it is not refused with {case.refused!r}: {managed.ended}"
        return
    if not re.search(case.shown, managed.text):
        yield f"under a driver it does not print {case.shown!r}: {managed.ended}"
    if managed.ended.startswith("FINISHED") is case.fails:
        yield f"its run ends {managed.ended}"
    if lines and not case.why:
        yield f"what it prints differs: {'; '.join(lines[:6])}"


def with_spark_submit(case: Case, words: list[str], conf: dict[str, str], directory: Path) -> Seen:
    """Run a script with ``spark-submit`` until it has shown what is wanted."""
    options = [word for key, value in (CONF | conf).items() for word in ("--conf", f"{key}={value}")]
    output, python = directory / "plain.log", frozenset[str]()
    for beside in filter(Path.is_dir, Path(words[0]).resolve().parent.iterdir()):
        (directory / beside.name).symlink_to(beside)  # relative inputs of the script
    with output.open("wb") as log:
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name("spark-submit")), *options, *words],
            cwd=directory,
            env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def shown() -> bool:
        nonlocal python
        python = python or _variables(psutil.Process(process.pid), words[0])
        found = not case.ends and re.search(case.shown, output.read_text(errors="replace"))
        return process.poll() is not None or bool(found)

    try:
        wait_until(shown, timeout=PATIENCE, what=f"{case.shown} of spark-submit", interval=0.2)
        ended = "runs on" if process.poll() is None else f"ends, status {process.returncode}"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return Seen(ended, output.read_text(errors="replace"), python)


def with_a_driver(case: Case, words: list[str], conf: dict[str, str], client: HaClient, directory: Path) -> Seen:
    """Submit a script as a job, wait until it has shown what is wanted, and stop it unless it ends."""
    place = directory / "managed"
    place.mkdir()
    job = SupervisedJob(
        client, Stream(place), job_id=f"s-{new_id()[:12]}", conf={"spark.sql.shuffle.partitions": "2"} | conf
    )
    try:
        job.submit_script(Path(words[0]), words[1:])
    except HaError as error:
        return Seen(f"refused at the submission: {error}", "", frozenset())
    variables = frozenset[str]()

    def over() -> bool:
        run = job.job.snapshot().run
        return bool(run and run.newest and run.newest.exit)

    def shown() -> bool:
        nonlocal variables
        with suppress(psutil.Error, AssertionError, StopIteration):
            variables = variables or frozenset(job.python().environ())
        if over() or case.ends:
            return over()
        return bool(re.search(case.shown, job.log())) and job.job.snapshot().state is JobState.RUNNING

    wait_until(shown, timeout=PATIENCE, what=f"{case.shown} of the driver", interval=0.2)
    stopped, text = not over(), job.log()  # spark-submit is killed here: what a stop writes has no other side
    if stopped:
        job.stop("suspend")
    wait_until(over, timeout=PATIENCE, what="the end of the run", interval=0.2)
    run = job.job.snapshot().run
    assert run is not None
    assert run.newest is not None
    assert run.newest.exit is not None
    over_because = run.newest.exit.reason
    ended = f"{run.result.state.value}: {run.result.reason}" if run.result is not None else f"retried: {over_because}"
    return Seen(ended, text if stopped else job.log(), variables)


def only(one: str, other: str, where: str) -> list[str]:
    """Return the lines and loggers that only *one* text has; numbers count as any number. Pure."""
    return [f"{where} alone: {line}" for line in sorted(_lines(one) - _lines(other))]


def _lines(text: str) -> frozenset[str]:
    found = set()
    for line in text.splitlines():
        log = _LOG.match(line)
        if log is None and not _STACK.match(line):
            plain = re.sub(r"[+-]{2,}", "-", re.sub(r"[0-9a-f]*\d[0-9a-f]*", "#", re.sub(r"[ =]+", " ", line)))
            found.add(re.sub(r" *\| *", "|", plain).strip())
        elif log is not None and log[2] is not None:
            found.add(f"{log[1]} {log[2]}")
    return frozenset(each for each in found - _OF_THE_MACHINE - _INTENDED if not _NUMBERS.fullmatch(each))


def _apart(plain: Iterable[str], managed: Iterable[str]) -> list[str]:
    one, other = frozenset(plain), frozenset(managed)
    if not one or not other:  # a process that has ended before it was looked at
        return []
    return [*(f"-{name}" for name in sorted(one - other)), *(f"+{name}" for name in sorted(other - one))]


def _variables(process: psutil.Process, script: str) -> frozenset[str]:
    with suppress(psutil.Error):
        for child in [process, *process.children(recursive=True)]:
            if "python" in child.name() and script in child.cmdline():
                return frozenset(child.environ())
    return frozenset()
