"""``spark-ha restore`` and ``spark-ha checkpoint plan`` on a real cluster, with an engine that remembers launches."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.submit.context import JobContext
from tests.checkpoint_helpers import Job
from tests.recorded_job import QUERY


pytestmark = pytest.mark.timeout(300)
AS_COPY = ("copy", "--from-job", "flights")


@pytest.fixture
def job_with_a_file_sink(source: Job) -> Job:
    """Its newest checkpoint cannot be restored into another output: the log of its file sink is not kept."""
    checkpoint = source.checkpoints.load(source.checkpoints.pointer(1))
    cut = checkpoint.queries[QUERY].model_copy(
        update={"sink": QuerySink(kind=SinkKind.FILE, format="json", path="/out")}
    )
    source.checkpoints.add(
        source.leadership, checkpoint.model_copy(update={"number": 2, "queries": {QUERY: cut}, "pin": checkpoint.pin})
    )
    return source


def runs(job: JobContext) -> list[int]:
    return job.runs.numbers()


@pytest.mark.usefixtures("source")
@pytest.mark.parametrize("words", [("checkpoint", "plan"), ("restore", "--dry-run")])
def test_a_plan_shows_the_verdict_and_changes_nothing(spark_ha: Any, copy: JobContext, words: tuple[str, ...]) -> None:
    code, out, _ = spark_ha(*words, *AS_COPY)

    assert code == 0
    assert "checkpoint-1 of flights as copy" in out
    assert "SAFE: no row is lost, none is there twice" in out
    assert copy.coordinator.find(copy.paths.base) is None


@pytest.mark.usefixtures("source", "copy")
def test_a_plan_is_a_document_for_programs(spark_ha: Any) -> None:
    code, out, _ = spark_ha("checkpoint", "plan", *AS_COPY, "--json")

    document = json.loads(out)
    assert code == 0
    assert (document["verdict"], document["source"], document["source_id"]) == ("SAFE", "checkpoint", "1")
    assert document["queries"][QUERY]["replay"] == []
    assert [item["accepted"] for item in document["candidates"]] == [True]


@pytest.mark.usefixtures("source")
def test_a_restore_makes_a_run_once(spark_ha: Any, copy: JobContext) -> None:
    first = spark_ha("restore", *AS_COPY, "--request-id", "tonight", "--json")
    second = spark_ha("restore", *AS_COPY, "--request-id", "tonight")

    assert (first[0], second[0]) == (0, 0)
    assert json.loads(first[1]) == {"job_id": "copy", "run": 1, "attempt": 1, "created": True}
    assert "was submitted by an earlier request of this id" in second[1]
    assert runs(copy) == [1]


@pytest.mark.usefixtures("job_with_a_file_sink")
def test_what_is_refused_says_why_and_changes_nothing(spark_ha: Any, copy: JobContext) -> None:
    planned, shown, _ = spark_ha("checkpoint", "plan", *AS_COPY)
    code, _, error = spark_ha("restore", *AS_COPY)

    assert (planned, code) == (1, 1)
    assert "IMPOSSIBLE" in shown
    assert "the sink's log up to batch 9 is not kept with the cut" in error
    assert copy.coordinator.find(copy.paths.base) is None


@pytest.mark.usefixtures("copy", "source")
@pytest.mark.parametrize(
    ("want", "code", "reason"),
    [
        ("before 2013-01-01T00:00Z", 1, "has no checkpoint and no savepoint from before 2013-01-01"),
        ("checkpoint-7", 1, "has no checkpoint 7"),
        ("yesterday", 2, "'yesterday' names no checkpoint and no savepoint"),
    ],
)
def test_what_is_not_there_is_one_sentence(spark_ha: Any, want: str, code: int, reason: str) -> None:
    answer, _, error = spark_ha("checkpoint", "plan", *AS_COPY, "--want", want)

    assert answer == code
    assert reason in error
    assert "Traceback" not in error
