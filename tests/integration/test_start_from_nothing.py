"""A job begins from nothing: not while records say that its sinks were given batches, unless that is accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.areas.working_records import StartedQueries, write_started
from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.coordination.coordinator import Create
from airflow_provider_ha.errors import RestoreRefusedError
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.model import Generation, JobState
from airflow_provider_ha.jobs.observe import create_job
from airflow_provider_ha.jobs.runs.submissions import Failure
from airflow_provider_ha.jobs.submit.preconditions import require_nothing_given
from airflow_provider_ha.jobs.submit.submit_request import submit_job
from tests.support.clusters import submit_helpers as helpers
from tests.support.clusters.jobs_helpers import a_result, a_run, a_submission, an_exit, lead
from tests.support.clusters.whole_jobs import SAVEPOINT, whole_job
from tests.support.specs import changed


pytestmark = pytest.mark.timeout(300)
SAFE = frozenset({Verdict.SAFE})
ACCEPTED = SAFE | {Verdict.LOSS_POSSIBLE}
FUNCTION = QuerySink(kind=SinkKind.FOREACH_BATCH, format="foreachBatch")
FILES = QuerySink(kind=SinkKind.FILE, format="json", path="/out")
QUERY = "orders"


def sink_of(format_: str, **more: Any) -> QuerySink:
    return QuerySink(kind=SinkKind.OTHER, format=format_, **more)


def current(job: JobContext) -> str:
    return Generation.from_bytes(job.coordinator.get(job.paths.generation).data, source="generation").directory


def over_without_a_checkpoint(
    job: JobContext, sink: QuerySink = FUNCTION, *, planned: int, committed: int, failure: Failure | None = None
) -> Path:
    """Make a run that has worked and ended before its first checkpoint; returns its working directory."""
    create_job(job.coordinator, job.paths)
    job.coordinator.commit(job.runs.create_op(a_run(1)), *job.runs.submission_ops(1, a_submission()))
    with lead(job.coordinator, job.paths, job.config) as leadership:
        key = job.keys.working_directory(leadership.epoch, "x")
        directory = job.config.work_path / key
        for log, last in (("offsets", planned), ("commits", committed)):
            (directory / QUERY / log).mkdir(parents=True)
            for batch in range(last + 1):
                (directory / QUERY / log / str(batch)).write_text("v1")
        write_started(LocalTree(directory), StartedQueries().including(QUERY, sink))
        made = Generation(run=1, epoch=leadership.epoch, directory=key)
        ended = an_exit(1).model_copy(update={"failure": failure})
        leadership.commit(
            Create(job.paths.generation, made.to_bytes()),
            Create(job.paths.submission_exit(1, 1), ended.to_bytes()),
            job.runs.result_op(1, a_result(JobState.FAILED)),
        )
    return directory


def test_a_job_with_checkpoints_does_not_begin_from_nothing_unasked(copy: JobContext, tmp_path: Path) -> None:
    job = whole_job(copy, helpers.script(tmp_path), stopped=True)
    wanted = changed(helpers.request(helpers.script(tmp_path), start_from="fresh"), job_id="copy")

    with pytest.raises(
        RestoreRefusedError, match=r"from nothing is LOSS_POSSIBLE: .* up to batch 9, and the num"
    ) as told:
        submit_job(job, wanted)

    assert job.runs.numbers() == [1]
    assert "accept_verdicts=LOSS_POSSIBLE" in told.value.next_step
    assert "start_from='latest'" in told.value.next_step
    require_nothing_given(job, ACCEPTED)


@pytest.mark.parametrize("kept", [True, False])
def test_what_a_deletion_has_kept_says_what_was_given(
    spark_ha: Any, copy: JobContext, tmp_path: Path, kept: bool
) -> None:
    job = whole_job(copy, helpers.script(tmp_path), stopped=True)
    assert spark_ha("delete", "job", "copy", "--yes", *(["--keep-savepoints"] if kept else []))[0] == 0

    if kept:
        with pytest.raises(RestoreRefusedError, match="up to batch 9"):
            require_nothing_given(job, SAFE)
    else:
        require_nothing_given(job, SAFE)  # nothing is known of it any more


@pytest.mark.parametrize(
    "sink",
    [FUNCTION, sink_of("kafka"), sink_of("foreach"), sink_of("delta", table="/table"), sink_of("hudi")],
    ids=lambda sink: sink.format,
)
def test_a_run_that_ended_before_its_first_checkpoint_has_given_batches_to_any_sink(
    copy: JobContext, sink: QuerySink
) -> None:
    over_without_a_checkpoint(copy, sink, planned=3, committed=2)

    with pytest.raises(RestoreRefusedError, match=r"batches of 'orders' up to batch 3"):
        require_nothing_given(copy, SAFE)


@pytest.mark.parametrize("sink", [FILES, sink_of("console"), sink_of("memory")], ids=lambda sink: sink.format)
def test_a_file_sink_is_the_drivers_to_judge_and_what_is_gone_is_no_past(copy: JobContext, sink: QuerySink) -> None:
    over_without_a_checkpoint(copy, sink, planned=3, committed=2)

    require_nothing_given(copy, SAFE)


def test_a_job_that_has_planned_nothing_begins_from_nothing(copy: JobContext) -> None:
    require_nothing_given(copy, SAFE)  # it never was

    over_without_a_checkpoint(copy, planned=-1, committed=-1)

    require_nothing_given(copy, SAFE)


@pytest.mark.parametrize(("query", "given"), [(QUERY, False), ("another", True), (None, True)])
def test_a_first_batch_that_its_function_has_failed_in_was_not_finished(
    copy: JobContext, query: str | None, given: bool
) -> None:
    failure = Failure(query=query, batches={QUERY: -1, "another": -1})
    over_without_a_checkpoint(copy, planned=0, committed=-1, failure=failure)

    if given:
        with pytest.raises(RestoreRefusedError, match="up to batch 0"):
            require_nothing_given(copy, SAFE)
    else:
        require_nothing_given(copy, SAFE)


def test_what_a_directory_that_is_gone_has_given_is_not_known(copy: JobContext) -> None:
    directory = over_without_a_checkpoint(copy, planned=3, committed=3)
    directory.rename(directory.with_name("elsewhere"))

    with pytest.raises(RestoreRefusedError, match="its last working directory is gone"):
        require_nothing_given(copy, SAFE)


def test_a_restore_names_the_query_that_would_begin_from_nothing(
    spark_ha: Any, copy: JobContext, tmp_path: Path
) -> None:
    """Its cut is older than the query, which the last run has started since."""
    job = whole_job(copy, helpers.script(tmp_path), stopped=True)
    directory = job.config.work_path / current(job)
    late = directory / "late" / "offsets"
    late.mkdir(parents=True)
    (late / "0").write_text("v1")
    write_started(LocalTree(directory), StartedQueries().including("late", FUNCTION))

    code, shown, _ = spark_ha("job", "restore", "--dry-run", "copy", "--start-from", f"savepoint-{SAVEPOINT}")

    assert code == 1
    said = " ".join(shown.split())
    assert "LOSS_POSSIBLE: late: the cut does not have it, so it begins anew" in said


def test_a_query_without_a_batch_loses_nothing_by_a_restore(spark_ha: Any, copy: JobContext, tmp_path: Path) -> None:
    job = whole_job(copy, helpers.script(tmp_path), stopped=True)
    directory = job.config.work_path / current(job)
    (directory / "late" / "offsets").mkdir(parents=True)
    write_started(LocalTree(directory), StartedQueries().including("late", FUNCTION))

    _, shown, _ = spark_ha("job", "restore", "--dry-run", "copy", "--start-from", f"savepoint-{SAVEPOINT}")

    assert "late: the cut does not have it" not in " ".join(shown.split())
