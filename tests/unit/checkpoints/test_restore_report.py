"""What the command is told about a restore, and what it shows of a plan."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from airflow_provider_ha.api.documents.restore_plan import plan_view
from airflow_provider_ha.checkpoints.model import BatchEntry, GivenBatches, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.plan_model import (
    KafkaPartition,
    PlanFinding,
    QueryPlan,
    RestorePlan,
    SourceInput,
    Verdict,
)
from airflow_provider_ha.cli.restore import print_plan
from airflow_provider_ha.cli.spec_options import by_query
from airflow_provider_ha.errors import ConfigurationError


PARTITION = KafkaPartition(
    topic="clicks", partition=3, start=1000, end=1250, earliest=1007, latest=1311, replayed=250, gone=7, unread=61
)
PLAN = RestorePlan(
    job_id="copy",
    source_job="orders",
    source="checkpoint",
    source_id="12",
    directory="pins/12",
    verdict=Verdict.LOSS_POSSIBLE,
    reasons=("hourly: not known: no broker answered",),
    findings=(
        PlanFinding(
            query="hourly",
            verdict=Verdict.LOSS_POSSIBLE,
            reason="hourly: not known: no broker answered",
            ways_out=("start Kafka",),
        ),
    ),
    unknown={"hourly": ("no broker answered",)},
    queries={
        "hourly": QueryPlan(
            batch=4,
            sink=QuerySink(kind=SinkKind.FOREACH_BATCH),
            inputs=(SourceInput(source="0", unit="rows", amount=250, gone=7, partitions=(PARTITION,)),),
            given=GivenBatches(begun=6, finished=5),
        ),
        "daily": QueryPlan(batch=4, sink=QuerySink(kind=SinkKind.FILE, path="/out"), sink_gone=True),
    },
    age_seconds=61,
    created_at=datetime(2026, 1, 1, tzinfo=timezone.utc),
)


def test_everything_that_is_known_is_shown_to_people(capsys: pytest.CaptureFixture[str]) -> None:
    print_plan(PLAN)

    shown = capsys.readouterr().out
    for text in (
        "checkpoint-12 of orders as copy",
        "LOSS_POSSIBLE: hourly: not known: no broker answered",
        "way out: start Kafka",
        "Refused until this is known, or hourly named with --accept-unverified",
        "250 rows of source 0 (7 gone)",
        "begun 6, finished 5",
        "missing",
        "clicks-3",
        "1007",
        "1311",
    ):
        assert text in shown


def test_batches_that_are_discarded_and_batches_that_come_again_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    replay = tuple(BatchEntry(batch=batch, offsets="v1") for batch in (5, 6))
    fenced = PLAN.queries["hourly"].model_copy(update={"replay": replay})
    declared = fenced.model_copy(update={"sink": QuerySink(kind=SinkKind.FOREACH_BATCH, repeatable=True)})

    print_plan(PLAN.model_copy(update={"queries": {"fenced": fenced, "declared": declared}}))

    shown = " ".join(capsys.readouterr().out.split())
    assert "fenced: batches 5 to 5 are executed again; its function has finished them" in shown
    assert "declared: batches 5 to 6 are given again; it is declared repeatable" in shown


def test_everything_that_is_known_is_in_the_document() -> None:
    document = plan_view(PLAN).to_json()

    assert document["queries"]["hourly"]["inputs"][0]["partitions"] == [PARTITION.model_dump()]
    assert document["queries"]["hourly"]["given"] == {"begun": 6, "finished": 5}
    assert document["queries"]["daily"]["sink_gone"] is True
    assert document["findings"][0]["ways_out"] == ["start Kafka"]
    assert document["unknown"] == {"hourly": ["no broker answered"]}


def test_brokers_are_named_by_query() -> None:
    given = ["hourly=a:9092,b:9092", "daily=c:9092"]

    assert by_query("--kafka-bootstrap", given) == {"hourly": "a:9092,b:9092", "daily": "c:9092"}


@pytest.mark.parametrize("given", [["a:9092"], ["=a:9092"], ["hourly="], ["hourly=a:1", "hourly=b:1"]])
def test_brokers_of_nobody_or_twice_are_refused(given: list[str]) -> None:
    with pytest.raises(ConfigurationError, match="--kafka-bootstrap"):
        by_query("--kafka-bootstrap", given)
