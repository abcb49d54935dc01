"""What a plan says of Kafka, asked of a real broker about a checkpoint that Spark's own Kafka source wrote."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.areas.pins import pin
from airflow_provider_ha.checkpoints.areas.working_records import readable
from airflow_provider_ha.checkpoints.model import BatchEntry, QueryCut, QuerySink, QuerySources, SinkKind
from airflow_provider_ha.checkpoints.ownership import AdoptedCheckpoint
from airflow_provider_ha.checkpoints.plan_model import RestorePlan, Verdict
from airflow_provider_ha.checkpoints.restore.facts import ExternalQueries, RestoreCase, gather_facts
from airflow_provider_ha.checkpoints.restore.plan import RestoreChoices, plan_restore
from airflow_provider_ha.checkpoints.restore.select import RestoreSource
from airflow_provider_ha.checkpoints.sources.kafka_offsets import PartitionOffsets, held_offsets, topic_ids
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.metadata_log import read_query_id
from airflow_provider_ha.errors import RestoreUnknownError
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.spark.kafka_server import PASSWORD, Kafka, connector_jars


pytestmark = [pytest.mark.long, pytest.mark.timeout(3000)]

APP = Path(__file__).parents[2] / "apps" / "kafka_rows.py"
NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
AS_COPY = ("copy", "--source-job", "flights")
CUT, LAST = 1, 2  # batch 2 is replayed
ROWS = 30  # ten a batch


@pytest.fixture(scope="module")
def template(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A topic of thirty rows, and a checkpoint of a query that has read them all in three batches."""
    topic, directory = kafka.new_topic(), tmp_path_factory.mktemp("kafka") / "stats"
    kafka.add(topic, ROWS)
    done = run(kafka, topic, directory)
    assert done == {"rows": {"0": 10, "1": 10, "2": 10}, "error": None}
    return topic, directory


@pytest.fixture
def copied(kafka: Kafka, template: tuple[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    """Return the checkpoint as if it had read another topic, one that a test may harm."""

    def copy(topic: str) -> Path:
        target = Path(shutil.copytree(template[1], tmp_path / topic / "stats"))
        for path in (*target.glob("offsets/*"), *target.glob("sources/*/*")):
            path.write_bytes(path.read_bytes().replace(template[0].encode(), topic.encode()))
        return target

    return copy


def run(kafka: Kafka, topic: str, checkpoint: Path, *options: str) -> Any:
    """Let Spark read the topic to its end."""
    done = subprocess.run(
        [sys.executable, str(APP), kafka.servers, topic, str(checkpoint), connector_jars(), *options],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        check=False,
        capture_output=True,
        text=True,
        timeout=1000,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def plan(
    kafka: Kafka, checkpoint: Path, *, servers: str | None = None, ids: dict[str, str] | None = None
) -> RestorePlan:
    """Plan to restore the checkpoint to batch 1, into the sink that has batch 2 as well."""
    recorded = {entry.batch: entry for entry in readable(LocalTree(checkpoint))}
    cut = QueryCut(
        batch=CUT,
        sink=QuerySink(kind=SinkKind.FOREACH_BATCH, repeatable=True),
        entries=tuple(recorded[batch] for batch in sorted(recorded) if batch >= CUT),
        sources=QuerySources(topics=ids or {}),
    )
    adopted = AdoptedCheckpoint(
        path=str(checkpoint), query_id=read_query_id(LocalTree(checkpoint)), planned=LAST, committed=LAST
    )
    facts = gather_facts(
        RestoreCase(
            chosen=RestoreSource("checkpoint", "1", "pins/1", {"stats": cut}, 1, 1, "g", "4.2.0", NOW),
            at=NOW,
            directories={"stats": LocalTree(checkpoint)},
            adopted={"stats": adopted},
            external=ExternalQueries(lambda _, topics: held_offsets(servers or kafka.servers, topics, timeout=10)),
        )
    )
    return plan_restore(facts, RestoreChoices(job_id="job", source_job="job"))


def replan_last_batch(checkpoint: Path) -> None:
    """Leave batch 2 planned: Spark executes exactly this one again."""
    for name in (str(LAST), f".{LAST}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)


@pytest.mark.hours
@pytest.mark.spark
def test_rows_that_are_all_there_are_counted_as_spark_recorded_them(kafka: Kafka, template: tuple[str, Path]) -> None:
    topic, checkpoint = template
    made = plan(kafka, checkpoint)

    (source,) = made.queries["stats"].inputs
    (partition,) = source.partitions
    assert made.verdict is Verdict.SAFE
    assert (source.unit, source.amount, source.gone) == ("rows", 10, 0)
    assert (partition.topic, partition.start, partition.end, partition.earliest, partition.latest) == (
        topic, 20, ROWS, 0, ROWS
    )  # fmt: skip


@pytest.mark.hours
@pytest.mark.spark
def test_rows_that_retention_removed_are_those_that_spark_does_not_find(
    kafka: Kafka, copied: Callable[[str], Path]
) -> None:
    topic = kafka.new_topic()
    kafka.add(topic, ROWS + 5)
    checkpoint = copied(topic)
    kafka.forget(topic, before=20)
    assert plan(kafka, checkpoint).verdict is Verdict.SAFE
    kafka.forget(topic, before=24)

    made = plan(kafka, checkpoint)
    replan_last_batch(checkpoint)
    strict = run(kafka, topic, Path(shutil.copytree(checkpoint, checkpoint.parent / "strict")))
    lenient = run(kafka, topic, checkpoint, "false")

    (source,) = made.queries["stats"].inputs
    assert (made.verdict, source.amount, source.gone, source.partitions[0].unread) == (Verdict.LOSS_POSSIBLE, 10, 4, 5)
    assert "4 rows after the cut were removed by retention" in made.reasons[0]
    assert strict["error"] is not None
    assert "2" not in strict["rows"]
    assert lenient == {"rows": {"2": 10 - 4, "3": 5}, "error": None}


@pytest.mark.spark
def test_a_topic_that_is_gone_and_one_that_was_made_again_are_told_apart(
    kafka: Kafka, copied: Callable[[str], Path]
) -> None:
    topic = kafka.new_topic()
    checkpoint = copied(topic)
    kafka.add(topic, ROWS)
    kafka.delete_topic(topic)
    gone = plan(kafka, checkpoint)
    kafka.make_topic(topic)
    kafka.add(topic, 3)

    again = plan(kafka, checkpoint)

    assert (gone.verdict, again.verdict) == (Verdict.LOSS_POSSIBLE, Verdict.LOSS_POSSIBLE)
    assert f"{topic}-0 is gone, with 10 rows" in gone.reasons[0]
    assert f"{topic}-0 ends before the offsets that were read" in again.reasons[0]


@pytest.mark.hours
@pytest.mark.spark
def test_a_topic_that_was_made_again_and_filled_longer_is_known_by_its_id(
    kafka: Kafka, copied: Callable[[str], Path]
) -> None:
    topic = kafka.new_topic()
    checkpoint = copied(topic)
    kafka.add(topic, ROWS)
    ids = topic_ids(kafka.servers, [topic])
    before = plan(kafka, checkpoint, ids=ids)
    kafka.delete_topic(topic)
    kafka.make_topic(topic)
    kafka.add(topic, ROWS + 20)

    again = plan(kafka, checkpoint, ids=ids)

    assert (before.verdict, again.verdict) == (Verdict.SAFE, Verdict.LOSS_POSSIBLE)
    assert f"topic {topic} was recreated under the same name" in again.reasons[0]
    assert plan(kafka, checkpoint).verdict is Verdict.SAFE, "without its id nothing tells it from the old one"


@pytest.mark.hours
@pytest.mark.spark
def test_a_partition_that_was_added_since_is_read_from_its_beginning(
    kafka: Kafka, copied: Callable[[str], Path]
) -> None:
    topic = kafka.new_topic(partitions=2)
    kafka.add(topic, ROWS)
    kafka.add(topic, 7, partition=1)

    (source,) = plan(kafka, copied(topic)).queries["stats"].inputs

    assert [(each.partition, each.start, each.unread, each.gone) for each in source.partitions] == [
        (0, 20, 0, 0),
        (1, 0, 7, 0),
    ]


@pytest.mark.hours
@pytest.mark.spark
def test_brokers_that_do_not_answer_leave_it_unknown(kafka: Kafka, template: tuple[str, Path]) -> None:
    made = plan(kafka, template[1], servers="127.0.0.1:1")

    assert made.verdict is Verdict.LOSS_POSSIBLE
    assert "Kafka at 127.0.0.1:1 did not return the offsets" in made.unknown["stats"][0]
    assert made.queries["stats"].inputs[0].amount == 10


def test_a_client_that_logs_in_over_tls_is_answered(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.new_topic()
    kafka.add(topic, 3)

    found = held_offsets(kafka.login_servers, [topic], properties=login(kafka, tmp_path, PASSWORD))

    assert found == {(topic, 0): PartitionOffsets(0, 3, topic_ids(kafka.servers, [topic])[topic])}


def test_a_login_that_is_refused_is_no_answer_and_its_password_is_not_told(
    kafka: Kafka, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    topic = kafka.new_topic()

    with pytest.raises(RestoreUnknownError, match="did not return the offsets") as refused:
        held_offsets(kafka.login_servers, [topic], properties=login(kafka, tmp_path, "wrong-secret"), timeout=10)

    said = f"{refused.value} {refused.value.next_step} {refused.value.__cause__} {capfd.readouterr()}"
    assert "wrong-secret" not in said


def login(kafka: Kafka, directory: Path, password: str) -> Path:
    """Write the client properties of a login, for its owner only."""
    path = directory / "kafka.properties"
    path.touch(mode=0o600)
    path.write_text("".join(f"{name}={value}\n" for name, value in kafka.login(password).items()), encoding="utf-8")
    return path


@pytest.mark.hours
@pytest.mark.spark
def test_the_command_asks_the_brokers_that_it_is_told(
    kafka: Kafka, template: tuple[str, Path], source: Job, spark_ha: Any, tmp_path: Path
) -> None:
    properties = tmp_path / "kafka.properties"
    properties.touch(mode=0o600)
    properties.write_text("security.protocol=PLAINTEXT\n", encoding="utf-8")
    add_checkpoint(source, template[1])
    named = ("--kafka-bootstrap", f"stats={kafka.servers}")

    # As another job: nothing shows that its function writes elsewhere.
    accepted = ("--accept-verdicts", "LOSS_POSSIBLE")
    secured = ("--kafka-properties", str(properties))
    asked = spark_ha("job", "restore", "--dry-run", *AS_COPY, *named, *secured, *accepted, "--json")
    shown = spark_ha("job", "restore", "--dry-run", *AS_COPY, *named, *accepted)
    unnamed = spark_ha("job", "restore", "--dry-run", *AS_COPY)
    refused = spark_ha("job", "restore", *AS_COPY)
    half = spark_ha("job", "restore", "--dry-run", *AS_COPY, "--accept-unverified", "stats")
    whole = spark_ha("job", "restore", "--dry-run", *AS_COPY, "--accept-unverified", "stats", *accepted)
    strange = spark_ha("job", "restore", "--dry-run", *AS_COPY, "--kafka-bootstrap", f"stat={kafka.servers}")

    partition = json.loads(asked[1])["queries"]["stats"]["inputs"][0]["partitions"][0]
    assert (asked[0], shown[0]) == (0, 0)
    assert (partition["start"], partition["latest"]) == (20, ROWS)
    assert f"{template[0]}-0" in shown[1]
    assert (unnamed[0], refused[0], half[0], whole[0], strange[0]) == (2, 2, 1, 0, 64)
    assert "are not configured" in unnamed[1]
    assert "--kafka-bootstrap stats=host:port" in unnamed[1]
    assert "its effect is unknown" in refused[2]
    assert "the queries of the cut are ['stats']" in strange[2]


def add_checkpoint(job: Job, checkpoint: Path) -> None:
    """Give the job a newer checkpoint: that of the query that reads Kafka, at batch 1."""
    recorded = {entry.batch: entry for entry in readable(LocalTree(checkpoint))}
    pin(checkpoint.parent, job.pin_path(2), {"stats": CUT})
    made = job.checkpoint(2, CUT)
    entries: tuple[BatchEntry, ...] = (recorded[CUT],)
    cut = made.queries["stats"].model_copy(update={"entries": entries})
    graph = job.checkpoints.load(job.checkpoints.pointer(1)).graph
    job.checkpoints.add(job.leadership, made.model_copy(update={"queries": {"stats": cut}, "graph": graph}))
