"""A managed job that reads Kafka is killed in the middle of a batch: each number of the topic is written once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from airflow_provider_ha.jobs.model import JobState
from tests.support.spark.driver_helpers import APPS
from tests.support.spark.kafka_server import Kafka, broker, connector_jars
from tests.support.spark.supervised_job import SupervisedJob
from tests.system.harness.compare import sink_files


pytestmark = [pytest.mark.spark, pytest.mark.timeout(3000), pytest.mark.long]


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    """One broker."""
    with broker() as running:
        yield running


def test_every_number_is_written_once(gated: Callable[..., SupervisedJob], kafka: Kafka) -> None:
    job, topic = gated("numbers"), kafka.new_topic()
    kafka.add(topic, 20)
    job.conf = {"spark.jars": connector_jars()}
    output = job.stream.root / "numbers"
    job.submit_script(APPS / "kafka_gated.py", [kafka.servers, topic, str(output), str(job.gates)])
    job.await_committed(1, 1)
    job.close_gate("plan")
    kafka.add(topic, 10)
    job.await_held("plan")

    job.kill()
    at_the_kill = job.progress(1, "numbers")
    job.open_gate("plan")
    job.recover()
    kafka.add(topic, 5)
    job.await_committed(2, 3)

    assert (at_the_kill.planned, at_the_kill.committed) == (2, 1), "it was killed in the middle of batch 2"
    job.stop("suspend")
    assert job.await_result().state is JobState.FINISHED
    lines = (line for file in sink_files(output) for line in file.read_text(encoding="utf-8").splitlines())
    written = Counter(json.loads(line)["number"] for line in lines)
    assert written == Counter([*range(20), *range(10), *range(5)])
