"""ZooKeeper's data is lost under a Spark job that reads Kafka and writes Delta tables: its rows are exact."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.rebuild.rebuild import plan_rebuild, rebuild
from airflow_provider_ha.jobs.submit.requests import FRESH, LostRunPolicy
from airflow_provider_ha.testing.waiting import wait_until
from airflow_provider_ha.timings import Timings
from tests.support.clusters import submit_helpers
from tests.support.odd_names import ODD
from tests.support.sinks.delta_rows import delta_rows
from tests.support.sinks.stage import delta_conf
from tests.support.spark.driver_helpers import APPS, PATIENCE, Stream
from tests.support.spark.kafka_server import Kafka, connector_jars
from tests.support.spark.supervised_job import SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]
QUERIES = ("sink", "function")


def in_table(table: Path) -> Counter[int]:
    """Return number -> how often the current version of a table has it."""
    return Counter(row["number"] for row in delta_rows(table, ["number"]))


@pytest.mark.hours
@pytest.mark.parametrize("way", ["rebuild", "fresh start"])
def test_two_delta_tables_have_each_number_of_a_topic_as_often_as_it_was_to_be_written(
    server: EmbeddedZooKeeper, kafka: Kafka, tmp_path: Path, way: str
) -> None:
    """A fresh start, with consent, writes all again: a table that took its batches for those of before would not."""
    config = HaConfig.build(zookeeper=server.hosts, storage_root=f"file://{tmp_path}/storage", timings=Timings())
    topic, tables = kafka.new_topic(), tmp_path / ODD
    kafka.add(topic, 25)
    delta = delta_conf()
    options = HaOptions(checkpoint_interval=0, restart_delay=0, restart_in_place=False)
    arguments = [kafka.servers, topic, str(tables)]

    def job_of(client: HaClient) -> SupervisedJob:
        jars = ",".join([delta["spark.jars"], connector_jars()])
        conf = delta | {"spark.jars": jars, "spark.databricks.delta.snapshotPartitions": "1"}
        return SupervisedJob(client, Stream(tmp_path), QUERIES, conf=conf, options=options, repeatable=("function",))

    def await_rows(job: SupervisedJob, expected: Counter[int]) -> None:
        job.await_alive(lambda: all(in_table(tables / name) == expected for name in QUERIES), "the rows of both tables")

    first = Counter(range(25))
    with HaClient.open(config) as client:
        job = job_of(client)
        job.submit_script(APPS / "kafka_to_delta.py", arguments)
        await_rows(job, first)
        writers = job.driver()

    server.kill()
    shutil.rmtree(server.data_dir)
    wait_until(lambda: not any(each.is_running() for each in writers), timeout=PATIENCE, what="the driver's own end")
    server.start()

    with HaClient.open(config) as client:
        job = job_of(client)
        try:
            for _ in range(2):  # a task that retries
                with pytest.raises(JobStateError, match="ZooKeeper knows no job 'gated'"):
                    job.submit_script(APPS / "kafka_to_delta.py", arguments)
            assert client.list_jobs() == []
            kafka.add(topic, 10)
            if way == "rebuild":
                rebuild(config, client.coordinator, plan_rebuild(config, client.store, client.coordinator))
                job.recover()
                expected = first + Counter(range(10))
            else:
                job.submit_script(
                    APPS / "kafka_to_delta.py",
                    arguments,
                    start_from=FRESH,
                    if_lost=LostRunPolicy.RESTART,
                    accept=[Verdict.LOSS_POSSIBLE],
                )
                expected = first + first + Counter(range(10))
            await_rows(job, expected)
            kafka.add(topic, 5)
            await_rows(job, expected + Counter(range(5)))
        finally:
            submit_helpers.kill_all(job.job._job)
