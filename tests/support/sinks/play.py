"""Plays one cell: a managed job is killed beside its sink's commit and recovered; the output is that of one batch."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from pathlib import Path

from airflow_provider_ha.checkpoints.spark.checkpoint_layout import COMMITS, OFFSETS, Progress
from airflow_provider_ha.jobs.model import JobState
from tests.support.judged import Judged
from tests.support.sinks.cells import Cell, Kill, Sink
from tests.support.sinks.stage import QUERY, Stage
from tests.support.spark.driver_helpers import APPS
from tests.support.spark.layered_job import LayeredJob
from tests.support.spark.supervised_job import SupervisedJob


KILLED = 3  # the batch beside whose commit the driver is killed; one more comes after it
ROWS = 5  # of a file, which is a batch
_ENTRY = re.compile(r"\.?(\d+)(?:\.crc)?")  # with its hidden checksum


class Outcome(Judged):
    """What was seen in one cell.

    :param seconds: From the submission to the last look.
    :param rows: How many rows the output has.
    :param repeated: How many of them are there once too often.
    :param wrong: What does not hold, one sentence each.
    """

    seconds: float
    rows: int
    repeated: int
    wrong: list[str]


def play(cell: Cell, stage: Stage) -> Outcome:
    """Play a cell.

    :raises AssertionError: It did not come to its end.
    :raises TimeoutError: The same.
    """
    began = time.monotonic()
    with stage.job(cell) as (job, output):
        source = job.stream.source
        for batch in range(KILLED):
            feed(source, batch)
        servers = [stage.kafka.servers] if cell.sink is Sink.KAFKA else []
        job.submit_script(APPS / "every_sink.py", [cell.sink.value, str(source), output, str(job.gates), *servers])
        job.await_committed(1, KILLED - 1)
        killed(job, cell.kill)
        job.recover()
        feed(source, KILLED + 1)
        job.await_committed(2, KILLED + 1)
        found = report(job)
        if cell.sink is Sink.KAFKA:
            found = Counter(map(int, stage.kafka.values(output)))
        job.stop("suspend")
        result = job.await_result()
    wrong = differences(cell, found)
    if result.state is not JobState.FINISHED:
        wrong.append(f"The job ended {result.state.value}: {result.reason}.")
    total = sum(found.values())
    return Outcome(seconds=time.monotonic() - began, rows=total, repeated=total - len(found), wrong=wrong)


def feed(source: Path, batch: int) -> None:
    """Give the query the rows of one batch."""
    source.mkdir(exist_ok=True)
    aside = source.with_name("aside.json")
    aside.write_text("".join(json.dumps({"number": number}) + "\n" for number in numbers(batch)), encoding="utf-8")
    aside.rename(source / f"{batch:03d}.json")


def numbers(batch: int) -> range:
    """Return the rows of a batch. Pure."""
    return range(batch * ROWS, (batch + 1) * ROWS)


def killed(job: SupervisedJob, kill: Kill) -> None:
    """Kill the driver in its batch: while rows are held, or so that the commit of the checkpoint was not made."""
    if kill is Kill.BEFORE:
        job.close_gate("plan")
        feed(job.stream.source, KILLED)
        job.await_held("plan")
        job.kill()
        job.open_gate("plan")
    else:
        feed(job.stream.source, KILLED)
        job.await_committed(1, KILLED)
        job.kill()
        forget_the_commit(job)
    assert job.progress(1, QUERY) == Progress(KILLED, KILLED - 1)


def forget_the_commit(job: SupervisedJob) -> None:
    """Make the moment after the sink's commit and before the checkpoint's of a kill that came later."""
    for log, first in ((COMMITS, KILLED), (OFFSETS, KILLED + 1)):
        if isinstance(job, LayeredJob):
            directory = f"{job.key(1)}/{QUERY}/{log}/"
            for name in job.files.names(directory):
                if name.isdecimal() and int(name) >= first:
                    job.files.delete(f"{directory}{name}")
            continue
        working = job.working(1)
        assert working is not None
        for path in (working / QUERY / log).iterdir():
            match = _ENTRY.fullmatch(path.name)  # not what a killed driver was writing
            if match is not None and int(match[1]) >= first:
                path.unlink()


def report(job: SupervisedJob) -> Counter[int]:
    """Return number -> how often it is in the output, as Spark reads it."""
    made = job.gates / "report.json"
    job.close_gate("report")
    job.await_alive(made.exists, "the report")
    return Counter({int(number): count for number, count in json.loads(made.read_text(encoding="utf-8")).items()})


def differences(cell: Cell, found: Counter[int]) -> list[str]:
    """Return what is missing, and what is there too often. Pure."""
    expected = Counter({number: 1 for batch in range(KILLED + 2) for number in numbers(batch)})
    if cell.repeats:
        expected.update(numbers(KILLED))
    missing, more = expected - found, found - expected
    wrong = [f"{sum(missing.values())} rows are missing: {sorted(missing)}."] if missing else []
    return [*wrong, *([f"{sum(more.values())} rows are there too often: {sorted(more)}."] if more else [])]
