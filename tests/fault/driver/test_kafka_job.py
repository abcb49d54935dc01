"""A managed job that reads Kafka: killed in the middle of a batch it writes each number once, and it tells its lag."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.ha_options import HaOptions
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.spark.driver_helpers import APPS, PATIENCE
from tests.support.spark.kafka_server import Kafka, broker, connector_jars
from tests.support.spark.scraped import scraped
from tests.support.spark.supervised_job import SupervisedJob
from tests.system.harness.compare import sink_files


pytestmark = [pytest.mark.spark, pytest.mark.timeout(3000), pytest.mark.long]


BEHIND = 400  # rows


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


def test_a_job_that_is_behind_serves_its_lag_and_what_its_checkpoints_take(
    gated: Callable[..., SupervisedJob], kafka: Kafka
) -> None:
    job, topic = gated("numbers"), kafka.new_topic()
    kafka.add(topic, BEHIND)
    job.conf = {"spark.jars": connector_jars()}
    job.options = HaOptions(checkpoint_interval=0, metrics_port=0)
    job.submit_script(APPS / "kafka_gated.py", [kafka.servers, topic, str(job.stream.root / "numbers"), str(job.gates)])
    job.await_committed(1, 0)

    lags = [wait_until(lambda: scraped(job).get("lag_rows numbers"), timeout=PATIENCE, what="a lag")]
    job.await_committed(1, BEHIND // 10 - 1)
    wait_until(lambda: scraped(job)["lag_rows numbers"] == 0, timeout=PATIENCE, what="the end of the lag")
    served = scraped(job)

    assert 0 < lags[0] < BEHIND
    assert lags[0] % 10 == 0, "batches of ten"
    assert served["checkpoint_size_bytes"] > 0
    assert served["checkpoint_duration_seconds_count"] >= 1
    assert served["checkpoint_duration_seconds_sum"] > 0
    assert served["input_rows_total numbers"] == BEHIND
    job.stop("suspend")
    assert job.await_result().state is JobState.FINISHED
