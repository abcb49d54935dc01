"""A script that reads another topic or table than its checkpoint: real Kafka, Delta and Iceberg refuse it, for good."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.model import Verdict
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from tests.support.sinks.stage import delta_conf
from tests.support.spark import iceberg
from tests.support.spark.driver_helpers import APPS, Stream
from tests.support.spark.kafka_server import Kafka, connector_jars
from tests.support.spark.supervised_job import SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Source:
    """A source, and another one of its format.

    :param names: Of both.
    :param refusal: What it says of the offsets of the other one.
    :param more: Further arguments of the script.
    """

    format: str
    names: tuple[str, str]
    refusal: str
    conf: dict[str, str]
    engine_options: dict[str, str]
    more: tuple[str, ...] = ()


def of_kafka(tmp_path: Path, request: pytest.FixtureRequest) -> Source:
    server: Kafka = request.getfixturevalue("kafka")
    topics = (server.new_topic(), server.new_topic())
    for topic in topics:
        server.add(topic, 10)
    return Source(
        "kafka", topics, "Some data may have been lost", {"spark.jars": connector_jars()}, {}, (server.servers,)
    )


def of_delta(tmp_path: Path, request: pytest.FixtureRequest) -> Source:
    names = (str(tmp_path / "one"), str(tmp_path / "other"))
    return Source("delta", names, "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE", delta_conf(), {})


def of_iceberg(tmp_path: Path, request: pytest.FixtureRequest) -> Source:
    names = (f"{iceberg.CATALOG}.db.one", f"{iceberg.CATALOG}.db.other")
    options = {"spark_home": str(iceberg.spark_home())}
    return Source("iceberg", names, "Cannot load current offset at snapshot", iceberg.conf(str(tmp_path)), options)


@pytest.mark.parametrize("of", [of_kafka, of_delta, of_iceberg])
def test_another_source_ends_the_run_the_second_time_with_the_change_and_the_way_back(
    client: HaClient, tmp_path: Path, request: pytest.FixtureRequest, of: Callable[..., Source]
) -> None:
    source = of(tmp_path, request)
    job = SupervisedJob(client, Stream(tmp_path), ("rows",), options=HaOptions(checkpoint_interval=0))
    job.conf, job.engine_options = source.conf, source.engine_options

    def arguments(name: str) -> list[str]:
        return [source.format, name, str(tmp_path / "out"), *source.more]

    job.submit_script(APPS / "other_source.py", arguments(source.names[0]))
    job.await_committed(1, 0)
    job.stop("suspend")
    assert job.await_result().state is JobState.FINISHED
    kept = [pointer.number for pointer in job.job.checkpoints.list()]

    job.job.restore(
        RestoreRequest(
            job_id=job.job_id,
            request_id=new_id(),
            arguments=arguments(source.names[1]),
            accept_unverified=frozenset({"rows"}),
            accept_verdicts=frozenset({Verdict.SAFE, Verdict.LOSS_POSSIBLE}),
        )
    )
    result = job.await_result()

    run = job.job.snapshot().run
    assert run is not None
    assert (result.state, len(run.submissions)) == (JobState.FAILED, 2), result.reason
    assert source.refusal in result.reason
    assert f"Run 2 differs from run 1, which wrote checkpoint-{kept[0]}, in arguments" in result.reason
    assert (
        f"`spark-ha restore gated --start-from checkpoint-{kept[0]}` continues with the graph of run 1" in result.reason
    )
    assert [pointer.number for pointer in job.job.checkpoints.list()] == kept
