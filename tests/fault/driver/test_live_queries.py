"""Real-time queries of a managed job, and OpenLineage's listener in its JVM."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.errors import RestoreRefusedError
from airflow_provider_ha.jobs.model import JobState, OperationState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.lineage_receiver import LineageReceiver, listener_jar, receiving
from tests.support.spark import words_job as words
from tests.support.spark.driver_helpers import APPS, PATIENCE, Stream
from tests.support.spark.kafka_server import Kafka, connector_jars
from tests.support.spark.supervised_job import SupervisedJob
from tests.support.specs import changed


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1500)]
QUERY = "live"
ROWS = 20
ACCEPTED = frozenset({Verdict.SAFE, Verdict.DUPLICATES_POSSIBLE})


@pytest.fixture
def job(client: HaClient, kafka: Kafka, tmp_path: Path) -> SupervisedJob:
    """A job whose user accepts that rows come twice."""
    made = SupervisedJob(client, Stream(tmp_path), (QUERY,), master="local[4]")  # each of its partitions holds a core
    made.conf = {"spark.jars": connector_jars(), "spark.sql.streaming.realTimeMode.minBatchDuration": "1s"}
    made.options = HaOptions(
        checkpoint_interval=0,
        restart_delay=0,
        restart_in_place=False,
        retained_checkpoints=10,
        kafka_bootstrap={QUERY: kafka.servers},
        accept_duplicates=True,
    )
    return made


def await_rows(kafka: Kafka, target: str, rounds: int) -> Counter[str]:
    """Wait until each number is there so many times or more; return how often each one is."""

    def found() -> Counter[str]:
        return Counter(kafka.values(target))

    wait_until(
        lambda: min(found().get(str(number), 0) for number in range(ROWS)) >= rounds, timeout=PATIENCE, what="all rows"
    )
    return found()


@pytest.mark.parametrize("trigger", ["realTime", pytest.param("continuous", marks=pytest.mark.hours)])
def test_killed_stopped_and_set_back_it_loses_no_row(job: SupervisedJob, kafka: Kafka, trigger: str) -> None:
    """The same numbers are written in each round, so that a row that is lost leaves its number one short."""
    topic, target = kafka.new_topic(), kafka.new_topic()
    kafka.add(topic, ROWS)
    job.submit_script(APPS / "live.py", [trigger, kafka.servers, topic, target])
    job.await_committed(1, 1)
    kafka.add(topic, ROWS)
    await_rows(kafka, target, 2)
    job.kill()
    kafka.add(topic, ROWS)
    job.recover()
    job.await_alive(lambda: job.progress(2, QUERY).committed > job.progress(1, QUERY).committed, "a batch")
    killed = await_rows(kafka, target, 3)
    assert sum(killed.values()) <= 5 * ROWS, "at most what was read since the last commit came twice"

    saved = job.job.request_savepoint(operation_id=new_id(), requested_by="test").operation_id
    job.await_alive(lambda: job.operation(saved).state.final, "the savepoint")
    assert job.operation(saved).state is OperationState.COMPLETED
    stopped = job.stop("suspend")
    assert job.await_result().state is JobState.FINISHED
    assert job.operation(stopped).state is OperationState.COMPLETED

    first = min(job.job.snapshot().checkpoint_numbers)
    wanted = RestoreRequest(job_id=job.job_id, request_id=new_id(), start_from=f"checkpoint-{first}")
    plan = job.job.plan_restore(wanted)
    assert (plan.verdict, plan.queries[QUERY].replay) == (Verdict.DUPLICATES_POSSIBLE, ()), plan.reasons
    with pytest.raises(RestoreRefusedError, match="DUPLICATES_POSSIBLE"):
        job.job.restore(wanted)
    job.job.restore(replace(wanted, accept_verdicts=ACCEPTED))
    kafka.add(topic, ROWS)
    await_rows(kafka, target, 4)
    job.stop("suspend")
    assert job.await_result().state is JobState.FINISHED


@pytest.fixture
def receiver() -> Iterator[LineageReceiver]:
    with receiving() as started:
        yield started


@pytest.mark.hours
def test_events_of_a_driver_name_the_task_that_submitted_it(
    client: HaClient, receiver: LineageReceiver, tmp_path: Path
) -> None:
    parent, root = str(uuid.uuid4()), str(uuid.uuid4())
    lineage = {
        "spark.openlineage.parentJobNamespace": "tests",
        "spark.openlineage.parentJobName": "dag.task",
        "spark.openlineage.parentRunId": parent,
        "spark.openlineage.rootParentJobNamespace": "tests",
        "spark.openlineage.rootParentJobName": "dag",
        "spark.openlineage.rootParentRunId": root,
        **{f"spark.openlineage.transport.{key}": value for key, value in receiver.transport.items()},
    }
    asked = words.request(tmp_path, "first")
    words.feed(tmp_path, "one")
    request = changed(
        asked,
        conf={**asked.conf, "spark.extraListeners": "io.openlineage.spark.agent.OpenLineageSparkListener"},
        jars=[listener_jar()],
        lineage=lineage,
    )

    client.job("words").submit(request)

    words.wait_for_epoch(client.job("words"), 1)
    wait_until(lambda: words.rows(tmp_path) == ["one"], timeout=240, what="the row", interval=0.2)
    wait_until(lambda: receiver.events, timeout=60, what="an event of the driver")
    told = receiver.events[0]["run"]["facets"]["parent"]
    assert told["run"]["runId"] == parent
    assert (told["job"]["namespace"], told["job"]["name"]) == ("tests", "dag.task")
    assert told["root"]["run"]["runId"] == root
