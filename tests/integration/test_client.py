"""A job's life through the client, with a real Spark: submitted, killed, recovered, stopped, restored, canceled."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.jobs.model import JobState, OperationState, StartKind
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import JobSpec, RestoreRequest
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.spark.driver_helpers import CONF


SCRIPT = """
import sys
from pyspark.sql import SparkSession

source, output = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
words = spark.readStream.schema("word string").option("maxFilesPerTrigger", 1).csv(source)
words.writeStream.queryName("words").format("json").trigger(processingTime="200 milliseconds").start(output)
spark.streams.awaitAnyTermination()
spark.stop()
"""


def request(tmp_path: Path, request_id: str) -> JobSpec:
    script = tmp_path / "application" / "words.py"
    script.parent.mkdir(exist_ok=True)
    script.write_text(SCRIPT)
    return JobSpec(
        job_id="words",
        request_id=request_id,
        application=str(script),
        arguments=[str(tmp_path / "in"), str(tmp_path / "out")],
        conf={key: value for key, value in CONF.items() if key != "spark.master"},
        master="local[2]",
        ha=HaOptions(checkpoint_interval=0, restart_in_place=False, restart_delay=0.1),
    )


def feed(tmp_path: Path, word: str) -> None:
    (tmp_path / "in").mkdir(exist_ok=True)
    aside = tmp_path / f".{word}"
    aside.write_text(f"{word}\n")
    aside.rename(tmp_path / "in" / f"{word}.csv")


def wait_for_epoch(job: JobClient, epoch: int) -> int:
    """Wait until *epoch* leads and has taken a checkpoint; return the checkpoint's number."""

    def newest() -> int | None:
        snapshot = job.snapshot()
        if snapshot.leader is None or snapshot.leader.epoch != epoch or snapshot.latest_checkpoint is None:
            return None
        pointer = job.checkpoints.pointer(snapshot.latest_checkpoint)
        return pointer.number if pointer.epoch == epoch else None

    return wait_until(newest, timeout=240, what=f"a checkpoint of epoch {epoch}", interval=0.2) or 0


def rows(tmp_path: Path) -> list[str]:
    """What a reader of the output sees, by the sink's own log."""
    names = set()
    for entry in (tmp_path / "out" / "_spark_metadata").iterdir():
        if entry.name.split(".")[0].isdigit():
            names |= {json.loads(line)["path"] for line in entry.read_text().splitlines()[1:]}
    parts = [Path(name.removeprefix("file://")).read_text() for name in names]
    return sorted(json.loads(line)["word"] for part in parts for line in part.splitlines())


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_job_is_submitted_killed_recovered_stopped_restored_and_canceled(client: HaClient, tmp_path: Path) -> None:
    job = client.job("words")
    feed(tmp_path, "one")

    submitted = job.submit(request(tmp_path, "first"))
    wait_for_epoch(job, 1)
    leader = job.snapshot().leader
    assert leader is not None
    os.kill(leader.pid, signal.SIGKILL)
    wait_until(lambda: job.snapshot().state is JobState.LOST, timeout=30, what="the loss")
    recovered = job.recover(by="test")
    feed(tmp_path, "two")
    wait_for_epoch(job, 2)
    stop = job.request_stop(operation_id="stop-1", requested_by="test")
    wait_until(lambda: job.snapshot().state is JobState.FINISHED, timeout=120, what="the stop")
    stopped = job.operation("stop-1")
    feed(tmp_path, "three")
    restored = job.restore(RestoreRequest(job_id="words", request_id="second"))
    wait_for_epoch(job, 3)
    wait_until(lambda: rows(tmp_path) == ["one", "three", "two"], timeout=120, what="the third row")
    job.request_cancel(operation_id="cancel-1", requested_by="test")
    wait_until(lambda: job.snapshot().state is JobState.CANCELED, timeout=60, what="the cancel")

    assert (submitted.run, recovered.run, recovered.attempt, restored.run) == (1, 1, 2, 2)
    assert not stop.state.final, "asked for, or taken up already; the answer comes later"
    assert stopped is not None
    assert stopped.state is OperationState.COMPLETED
    run = job.snapshot().run
    assert run is not None
    assert run.run.start.kind is StartKind.CHECKPOINT
    assert rows(tmp_path) == ["one", "three", "two"]
