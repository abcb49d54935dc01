"""A takeover is interrupted at each of its moments: a Delta table has each row once, a topic has none too many.

A topic has the rows of a batch once from each driver that executed it, and a committed batch is not executed again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.jobs.model import JobState
from tests.support.sinks.delta_rows import delta_rows
from tests.support.sinks.stage import delta_conf
from tests.support.spark.driver_helpers import APPS, Stream
from tests.support.spark.interrupted_takeovers import QUICKLY_READY, play
from tests.support.spark.kafka_server import Kafka, connector_jars
from tests.support.spark.layered_job import LayeredJob
from tests.support.spark.supervised_job import SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.hours, pytest.mark.timeout(3600)]


def play_and_compare(job: SupervisedJob, kafka: Kafka) -> None:
    """Interrupt the takeovers of a job with both sinks, and compare each output with what its sink promises."""
    job.queries, job.repeatable = ("topic", "table"), ()
    topic, table, delta = kafka.new_topic(), job.stream.root / "table", delta_conf()
    job.conf |= QUICKLY_READY | delta | {"spark.jars": f"{delta['spark.jars']},{connector_jars()}"}
    arguments = [str(job.stream.source), kafka.servers, topic, str(table)]

    writers = play(job, lambda: job.submit_script(APPS / "topic_and_table.py", arguments))
    job.stop("suspend")

    assert job.await_result().state is JobState.FINISHED
    truth = job.stream.expected_rows(job.stream.files)
    assert Counter((row["key"], row["value"]) for row in delta_rows(table, ["key", "value"])) == Counter(truth)
    assert_as_given(kafka.values(topic), truth, writers)


def assert_as_given(messages: list[str], truth: set[tuple[str, int]], writers: dict[int, range]) -> None:
    """Assert that a topic has each row, once from a driver, and only from drivers that were given its file."""
    rows = map(json.loads, messages)
    written = Counter((row["key"], row["value"], row["epoch"]) for row in rows)
    assert {(key, value) for key, value, _ in written} == truth
    assert set(written.values()) == {1}, "a driver writes a batch once"
    late = [(key, value, epoch) for key, value, epoch in written if epoch not in writers[value // 10]]
    assert late == [], "a committed batch is not executed again"


def test_a_table_has_each_row_once_and_a_topic_those_of_each_driver_that_was_given_them(
    gated: Callable[..., SupervisedJob], kafka: Kafka
) -> None:
    play_and_compare(gated(), kafka)


@pytest.mark.usefixtures("jobs_on_s3")
def test_the_same_holds_for_a_job_on_s3_whose_table_is_on_a_mounted_path(
    client: HaClient, tmp_path: Path, kafka: Kafka
) -> None:
    play_and_compare(LayeredJob(client, Stream(tmp_path)), kafka)
