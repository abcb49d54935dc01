"""``spark-ha job restore`` on a real cluster, with an engine that remembers launches."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.jobs.job_context import JobContext
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.clusters.jobs_helpers import a_result, a_run, a_submission
from tests.support.spark.recorded_job import QUERY, recorded_job


pytestmark = pytest.mark.timeout(300)
AS_COPY = ("copy", "--source-job", "flights")


@pytest.fixture
def job_with_a_file_sink(source: Job) -> Job:
    """Its newest checkpoint cannot be restored into another output: the log of its file sink is not kept."""
    return with_sink(source, QuerySink(kind=SinkKind.FILE, format="json", path="/out"))


@pytest.fixture
def job_with_a_function(source: Job) -> Job:
    """Nothing shows where its function writes."""
    return with_sink(source, QuerySink(kind=SinkKind.FOREACH_BATCH, format="foreachBatch"))


def with_sink(source: Job, sink: QuerySink) -> Job:
    checkpoint = source.checkpoints.load(source.checkpoints.pointer(1))
    cut = checkpoint.queries[QUERY].model_copy(update={"sink": sink})
    source.checkpoints.add(
        source.leadership, checkpoint.model_copy(update={"number": 2, "queries": {QUERY: cut}, "pin": checkpoint.pin})
    )
    return source


def runs(job: JobContext) -> list[int]:
    return job.runs.numbers()


@pytest.mark.usefixtures("source")
def test_a_plan_shows_the_verdict_and_changes_nothing(spark_ha: Any, copy: JobContext) -> None:
    code, out, _ = spark_ha("job", "restore", "--dry-run", *AS_COPY)

    assert code == 0
    assert "checkpoint-1 of flights as copy" in out
    assert "SAFE: no row is lost or duplicated" in out
    assert copy.coordinator.find(copy.paths.base) is None


@pytest.mark.usefixtures("source", "copy")
def test_a_plan_is_a_document_for_programs(spark_ha: Any) -> None:
    code, out, _ = spark_ha("job", "restore", "--dry-run", *AS_COPY, "--json")

    document = json.loads(out)
    assert code == 0
    assert (document["verdict"], document["source"], document["source_id"]) == ("SAFE", "checkpoint", "1")
    assert document["queries"][QUERY]["replay"] == []
    assert [item["accepted"] for item in document["candidates"]] == [True]


@pytest.mark.usefixtures("source")
def test_a_restore_makes_a_run_once(spark_ha: Any, copy: JobContext) -> None:
    first = spark_ha("job", "restore", *AS_COPY, "--request-id", "tonight", "--json")
    second = spark_ha("job", "restore", *AS_COPY, "--request-id", "tonight")

    assert (first[0], second[0]) == (0, 0)
    assert json.loads(first[1]) == {"job_id": "copy", "run": 1, "attempt": 1, "created": True}
    assert "was submitted by an earlier request of this id" in second[1]
    assert runs(copy) == [1]


@pytest.mark.usefixtures("job_with_a_file_sink")
def test_what_is_refused_says_why_and_changes_nothing(spark_ha: Any, copy: JobContext) -> None:
    planned, shown, _ = spark_ha("job", "restore", "--dry-run", *AS_COPY)
    code, _, error = spark_ha("job", "restore", *AS_COPY)

    assert (planned, code) == (1, 1)
    assert "IMPOSSIBLE" in shown
    assert "the sink's log up to batch 9 is not kept with the cut" in error
    assert copy.coordinator.find(copy.paths.base) is None


@pytest.mark.usefixtures("copy", "source")
@pytest.mark.parametrize(
    ("start_from", "code", "reason"),
    [
        ("before 2013-01-01T00:00Z", 1, "has no checkpoint and no savepoint from before 2013-01-01"),
        ("checkpoint-7", 1, "has no checkpoint 7"),
        ("yesterday", 64, "'yesterday' names neither a checkpoint nor a savepoint"),
    ],
)
def test_what_is_not_there_is_one_sentence(spark_ha: Any, start_from: str, code: int, reason: str) -> None:
    answer, _, error = spark_ha("job", "restore", "--dry-run", *AS_COPY, "--start-from", start_from)

    assert answer == code
    assert reason in error
    assert "Traceback" not in error


# A plan exits as the restore would.


@pytest.fixture
def owned(copy: JobContext) -> JobContext:
    """The job that is restored into has had a run, and belongs to a DAG."""
    make_run(copy, owner="dag-of-others", over=True)
    return copy


@pytest.fixture
def running(copy: JobContext) -> JobContext:
    """The job that is restored into has a live run."""
    make_run(copy, owner=None, over=False)
    return copy


def make_run(job: JobContext, *, owner: str | None, over: bool) -> None:
    job.coordinator.ensure(*job.paths.skeleton)
    job.coordinator.commit(
        job.runs.create_op(a_run(1).model_copy(update={"owner": owner})), *job.runs.submission_ops(1, a_submission())
    )
    if over:
        job.coordinator.commit(job.runs.result_op(1, a_result()))


@pytest.mark.usefixtures("source")
@pytest.mark.parametrize(
    ("fixture", "reason"),
    [("running", "already has a live run, number 1"), ("owned", "the job belongs to 'dag-of-others'")],
)
def test_a_plan_exits_as_the_restore_would_and_says_why(
    spark_ha: Any, request: pytest.FixtureRequest, fixture: str, reason: str
) -> None:
    job = request.getfixturevalue(fixture)

    planned, shown, said = spark_ha("job", "restore", "--dry-run", *AS_COPY)
    restored, _, refused = spark_ha("job", "restore", *AS_COPY)

    assert (planned, restored) == (1, 1)
    assert "SAFE" in shown
    assert reason in said
    assert reason in refused
    assert runs(job) == [1]


@pytest.mark.usefixtures("source", "owned")
def test_a_plan_that_is_forced_exits_as_a_restore_that_is_forced(spark_ha: Any) -> None:
    planned, out, _ = spark_ha("job", "restore", "--dry-run", *AS_COPY, "--force", "--json")
    restored, _, _ = spark_ha("job", "restore", *AS_COPY, "--force")

    assert (planned, restored) == (0, 0)
    assert json.loads(out)["refusal"] is None


@pytest.mark.usefixtures("source", "running")
def test_what_a_plan_would_be_refused_for_is_in_its_document(spark_ha: Any) -> None:
    code, out, _ = spark_ha("job", "restore", "--dry-run", *AS_COPY, "--json")

    refusal = json.loads(out)["refusal"]
    assert (code, refusal["type"]) == (1, "JobStateError")
    assert "spark-ha job stop copy" in refusal["next_step"]


@pytest.mark.usefixtures("source")
def test_a_dry_run_of_a_request_that_was_carried_out_exits_as_asking_again_would(
    spark_ha: Any, copy: JobContext
) -> None:
    spark_ha("job", "restore", *AS_COPY, "--request-id", "tonight")

    dry, _, _ = spark_ha("job", "restore", *AS_COPY, "--request-id", "tonight", "--dry-run")
    again, _, _ = spark_ha("job", "restore", *AS_COPY, "--request-id", "tonight")

    assert (dry, again) == (0, 0)
    assert runs(copy) == [1]


@pytest.mark.usefixtures("copy")
def test_a_plan_of_a_path_without_an_application_exits_as_the_restore_would(spark_ha: Any) -> None:
    words = ("copy", "--start-from", f"{recorded_job() / 'live' / QUERY}", "--sinks", f"{QUERY}=foreachBatch")
    allow = ("--accept-verdicts", "DUPLICATES_POSSIBLE", "--accept-verdicts", "LOSS_POSSIBLE")

    planned, _, said = spark_ha("job", "restore", "--dry-run", *words, *allow)
    restored, _, refused = spark_ha("job", "restore", *words, *allow)

    assert planned == restored == 1
    assert "has no run yet, so the application that continues" in said
    assert "has no run yet, so the application that continues" in refused


@pytest.mark.usefixtures("job_with_a_function")
def test_a_function_that_may_write_for_both_jobs_needs_consent_for_another_job(spark_ha: Any, copy: JobContext) -> None:
    """The first job goes on: a table that both write to would drop the rows of the numbers that it has."""
    refused, _, err = spark_ha("job", "restore", *AS_COPY)
    before = runs(copy)
    taken, _, _ = spark_ha("job", "restore", *AS_COPY, "--accept-verdicts", "LOSS_POSSIBLE")

    assert (refused, before) == (1, [])
    assert "nothing shows whether its foreachBatch writes to the output of the job that it is restored from" in err
    assert (taken, runs(copy)) == (0, [1])
