"""A job that copies words from files to files: a client submits it, and a real Spark runs it."""

from __future__ import annotations

import json
from pathlib import Path

from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import JobSpec
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
