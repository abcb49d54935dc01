"""A job on S3 that reads a topic and writes files and another topic: each file row once, a topic one batch again."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.jobs.model import JobState
from tests.support.spark.driver_helpers import APPS, Stream
from tests.support.spark.kafka_server import Kafka, connector_jars
from tests.support.spark.layered_job import LayeredJob
from tests.system.harness.compare import sink_files


pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.timeout(3000),
    pytest.mark.usefixtures("jobs_on_s3"),
]


@pytest.fixture
def job(client: HaClient, tmp_path: Path) -> LayeredJob:
    made = LayeredJob(client, Stream(tmp_path), ("numbers", "copies"))
    made.conf |= {"spark.jars": connector_jars()}
    return made


def forget_the_commit(job: LayeredJob, query: str, batch: int) -> None:
    """Make the moment of a kill that came after the sink's commit and before the checkpoint's."""
    directory = f"{job.key(1)}/{query}"
    for log, first in (("commits", batch), ("offsets", batch + 1)):
        for name in job.files.names(f"{directory}/{log}/"):
            if int(name) >= first:
                job.files.delete(f"{directory}/{log}/{name}")
    assert (job.progress(1, query).planned, job.progress(1, query).committed) == (batch, batch - 1)


@pytest.mark.hours
def test_files_have_each_number_once_and_a_topic_has_the_uncommitted_batch_twice(job: LayeredJob, kafka: Kafka) -> None:
    source, target, output = kafka.new_topic(), kafka.new_topic(), job.stream.root / "numbers"
    kafka.add(source, 20)
    job.submit_script(APPS / "kafka_gated.py", [kafka.servers, source, str(output), str(job.gates), target])
    job.await_committed(1, 1)
    kafka.add(source, 10)
    job.await_committed(1, 2)

    job.kill()
    assert len(kafka.values(target)) == 30
    for query in job.queries:
        forget_the_commit(job, query, 2)
    job.recover()
    kafka.add(source, 5)
    job.await_committed(2, 3)
    job.stop("suspend")

    assert job.await_result().state is JobState.FINISHED
    lines = (line for file in sink_files(output) for line in file.read_text(encoding="utf-8").splitlines())
    assert Counter(json.loads(line)["number"] for line in lines) == Counter([*range(20), *range(10), *range(5)])
    copied = Counter(map(int, kafka.values(target)))
    assert copied == Counter([*range(20), *range(10), *range(10), *range(5)]), "batch 2 with its own boundaries"
