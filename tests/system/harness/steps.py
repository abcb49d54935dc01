"""What several phases of the demo do: feed, submit, stop, read, compare."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing

from airflow_provider_ha.jobs.model import JobState
from tests.system.harness.compare import compare_hourly, compare_long_delays
from tests.system.harness.flights import data_file
from tests.system.harness.stage import MAIN_JOB, Stage


SECONDS_PER_DAY = 0.4
MAX_FILES = 4  # small batches while drivers are killed: there is always one to be killed in
MANY_FILES = 40  # afterwards what was not read yet is read in a few
PATIENCE = 600  # seconds; what is slow on a loaded machine is not wrong


class UnexpectedError(Exception):
    """The job did something else than it should have; says what."""


def feed(stage: Stage, until: int) -> None:
    """Let files arrive while the phase plays."""
    stage.feeder.pause()
    stage.feeder.start(until=until, seconds_per_day=SECONDS_PER_DAY)


def submit(stage: Stage) -> None:
    conf = {
        "job_id": MAIN_JOB,
        "input_dir": str(stage.inbox),
        "output_dir": stage.output_path(MAIN_JOB),
        "table": str(stage.table(MAIN_JOB)),
        "airlines": str(data_file("airlines.csv")),
        "max_files_per_trigger": MAX_FILES,
        "spark_conn_id": stage.spark_conn_id,
    }
    stage.main_run = stage.start_dag("flight_delays", conf)
    for task, state in (("wait_for_leader", "success"), ("wait_for_checkpoint", "success"), ("submit", "deferred")):
        stage.servers.api.wait_for_task(stage.main_run, task, state, timeout=PATIENCE)


def arguments(stage: Stage, job_id: str, *, max_files: int) -> list[str]:
    return [
        f"--input={stage.inbox}",
        f"--output={stage.output_path(job_id)}",
        f"--table={stage.table(job_id)}",
        f"--airlines={data_file('airlines.csv')}",
        f"--max-files-per-trigger={max_files}",
    ]


def copy_table(stage: Stage, job_id: str) -> None:
    """Give another job the rows that the first one wrote: a restore brings Spark's state, not an external database."""
    with (
        closing(sqlite3.connect(stage.table(MAIN_JOB))) as source,
        closing(sqlite3.connect(stage.table(job_id))) as target,
    ):
        source.backup(target)


def stop(stage: Stage, job_id: str, mode: str, *, savepoint: bool = False) -> dict[str, object]:
    """Stop a job, and wait until its run is FINISHED and the DAG run that followed it too."""
    run = stage.run_dag("stop_job", {"job_id": job_id, "mode": mode, "savepoint": savepoint})
    state = stage.job(job_id).snapshot().state
    if state is not JobState.FINISHED:
        raise UnexpectedError(f"the task of stop_job succeeded, but {job_id} is {state.value}")
    if job_id == MAIN_JOB:
        stage.servers.api.wait_for_run(stage.main_run, timeout=PATIENCE)
    return dict(stage.servers.api.xcom(run, "stop"))


def read(stage: Stage) -> int:
    """Return how many files every query of the main job has read."""
    return min(stage.job().files_read().values(), default=0)


def compare(stage: Stage, job_id: str, days: Mapping[str, int], when: str) -> None:
    """Compare a job with the truth of the days that each of its queries has read."""
    hourly, long = stage.truth(days["hourly_delays"]), stage.truth(days["long_delays"])
    results = (
        compare_hourly(hourly, stage.output(job_id), name=f"{job_id}: hourly_delays, {when}"),
        compare_long_delays(long, stage.table(job_id), name=f"{job_id}: long_delays, {when}"),
    )
    for result in results:
        stage.report.comparisons.append(result)
        stage.say(f"{result.name}: {result.found:,} rows, {result.verdict}")
