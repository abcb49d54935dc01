"""Jobs that read Kafka and tables: exact after kills, and refused on another source."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.areas.working_records import read_started
from airflow_provider_ha.checkpoints.model import QuerySources
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.checkpoints.sources.kafka_offsets import topic_ids
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.jobs.submit.requests import LostRunPolicy
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.sinks.stage import delta_conf
from tests.support.spark import iceberg
from tests.support.spark.driver_helpers import APPS, PATIENCE, Stream
from tests.support.spark.kafka_server import Kafka, connector_jars
from tests.support.spark.layered_job import LayeredJob
from tests.support.spark.scraped import scraped
from tests.support.spark.supervised_job import SupervisedJob
from tests.system.harness.compare import sink_files


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(3000)]
BEHIND = 400  # rows


@pytest.mark.hours
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


@pytest.mark.hours
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


def test_a_run_whose_topic_was_made_again_waits_for_its_user(gated: Callable[..., SupervisedJob], kafka: Kafka) -> None:
    """Spark would read on at the old offset of the new topic, and pass over the rows before it."""
    job, topic = gated("numbers"), kafka.new_topic()
    kafka.add(topic, 10)
    job.conf = {"spark.jars": connector_jars()}
    output = job.stream.root / "numbers"
    job.submit_script(APPS / "kafka_gated.py", [kafka.servers, topic, str(output), str(job.gates)])
    job.await_committed(1, 0)
    had = topic_ids(kafka.servers, [topic])
    wait_until(lambda: noted(job) == had, timeout=PATIENCE, what="the id of the topic")
    kafka.add(topic, 10)
    job.await_committed(1, 1)
    wait_until(lambda: recorded(job).topics == had, timeout=PATIENCE, what="a checkpoint with the id")
    assert recorded(job).brokers == kafka.servers

    job.kill()
    kafka.delete_topic(topic)
    kafka.make_topic(topic)
    kafka.add(topic, 30)
    job.recover()

    wait_until(job.decision, timeout=PATIENCE, what="a decision")
    assert f"topic {topic} was recreated" in job.decision()
    plan = job.job.plan_restore(RestoreRequest(job_id=job.job_id, request_id=new_id()))
    assert plan.verdict is Verdict.LOSS_POSSIBLE
    job.job.restore(
        RestoreRequest(
            job_id=job.job_id,
            request_id=new_id(),
            if_lost=LostRunPolicy.RECOVER,
            accept_verdicts=frozenset({Verdict.SAFE, Verdict.LOSS_POSSIBLE}),
        )
    )
    job.await_committed(3, 2)
    new = topic_ids(kafka.servers, [topic])
    wait_until(lambda: recorded(job).topics == new, timeout=PATIENCE, what="a checkpoint with the new id")
    job.stop("suspend")
    assert job.await_result().state is JobState.FINISHED


@pytest.mark.hours
@pytest.mark.parametrize(
    ("partitions", "rows"),
    [pytest.param(1, 5, id="lower-offsets"), pytest.param(2, 30, id="fewer-partitions", marks=pytest.mark.hours)],
)
def test_a_recreated_topic_that_is_shorter_or_narrower_is_a_decision_and_no_loop(
    gated: Callable[..., SupervisedJob], kafka: Kafka, partitions: int, rows: int
) -> None:
    """Spark would fail at every attempt: the offsets of the checkpoint do not exist."""
    job, topic = gated("numbers"), kafka.new_topic(partitions)
    for partition in range(partitions):
        kafka.add(topic, 10, partition)
    job.conf = {"spark.jars": connector_jars()}
    output = job.stream.root / "numbers"
    job.submit_script(APPS / "kafka_gated.py", [kafka.servers, topic, str(output), str(job.gates)])
    job.await_committed(1, partitions - 1)
    had = topic_ids(kafka.servers, [topic])
    wait_until(lambda: noted(job) == had, timeout=PATIENCE, what="the id of the topic")

    job.kill()
    kafka.delete_topic(topic)
    kafka.make_topic(topic)
    kafka.add(topic, rows)
    job.recover()

    wait_until(job.decision, timeout=PATIENCE, what="a decision")
    run = job.job.snapshot().run
    assert run is not None
    assert f"topic {topic} was recreated" in job.decision()
    assert len(run.submissions) == 2, "the attempt that found it is the last one"


def noted(job: SupervisedJob) -> dict[str, str]:
    """Return the ids of topics that the first working directory has."""
    tree = job.tree(1)
    started = read_started(tree) if tree is not None else None
    return started.sources("numbers").topics if started is not None else {}


def recorded(job: SupervisedJob) -> QuerySources:
    """Return what the newest checkpoint says of the sources."""
    store = job.job.checkpoints
    newest = next(iter(store.list()), None)
    return store.load(newest).queries["numbers"].sources if newest is not None else QuerySources()


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


@pytest.mark.usefixtures("jobs_on_s3")
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


@pytest.mark.hours
@pytest.mark.parametrize(
    "of",
    [of_kafka, pytest.param(of_delta, marks=pytest.mark.hours), pytest.param(of_iceberg, marks=pytest.mark.hours)],
)
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
        f"`spark-ha job restore gated --start-from checkpoint-{kept[0]}` continues with the graph of run 1"
        in result.reason
    )
    assert [pointer.number for pointer in job.job.checkpoints.list()] == kept
