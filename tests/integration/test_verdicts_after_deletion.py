"""A kept savepoint of a deleted job against the same savepoint before the deletion: no verdict gets better.

The deletion removes the runs and the working directories, which know what the sinks may have beyond the savepoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.areas.drain import drain_key
from airflow_provider_ha.checkpoints.model import BatchEntry, QueryCut, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.checkpoints.sinks.file_sink_log import LOG
from airflow_provider_ha.checkpoints.sinks.unread_sinks import ForeachBatchLog
from airflow_provider_ha.coordination.coordinator import Create, SetData
from airflow_provider_ha.errors import RestoreRefusedError
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.job_stores import checkpoint_store
from airflow_provider_ha.jobs.model import Generation, JobState, OutputMode
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.jobs.restore.job_restore import plan_for, restored_start
from airflow_provider_ha.jobs.runs.submissions import SubmissionLed
from airflow_provider_ha.jobs.submit.submit_request import submit_job
from tests.support.clusters import submit_helpers as helpers
from tests.support.clusters.jobs_helpers import NOON, a_result, a_run, a_submission, lead
from tests.support.clusters.whole_jobs import BATCH, FUNCTION, SAVEPOINT, whole_job
from tests.support.spark.recorded_job import QUERY, copy_output, recorded_job
from tests.support.specs import changed


pytestmark = pytest.mark.timeout(300)
RANK = [verdict.value for verdict in (Verdict.SAFE, Verdict.DUPLICATES_POSSIBLE, Verdict.LOSS_POSSIBLE)]
TOPIC = QuerySink(kind=SinkKind.OTHER, format="kafka")


def plan_batch(job: JobContext, working: str, batch: int) -> None:
    path = job.config.work_path / working / QUERY / "offsets" / str(batch)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("cannot be read")


def current(job: JobContext) -> str:
    return Generation.from_bytes(job.coordinator.get(job.paths.generation).data, source="generation").directory


def plain_stop(job: JobContext) -> None:
    plan_batch(job, current(job), BATCH)


def unfinished_drain(job: JobContext) -> None:
    plain_stop(job)
    plan_batch(job, drain_key(current(job)), BATCH + 1)


def unfinished_drain_without_its_working_directory(job: JobContext) -> None:
    plan_batch(job, drain_key(current(job)), BATCH + 1)


def work_after_a_stop_that_failed(job: JobContext) -> None:
    plan_batch(job, current(job), BATCH + 1)


def query_that_the_script_does_not_have_any_more(job: JobContext) -> None:
    """Its end drops it: the checkpoint of the stop has no cut of it, and its directory is as the run began with it."""
    plain_stop(job)
    again(job, {})


def batch_in_flight_that_the_stop_has_recorded(job: JobContext) -> None:
    """Of a query at rest, or in a mode that commits later: planned, not committed, and its boundaries are known."""
    path = job.config.work_path / current(job) / QUERY / "offsets"
    path.mkdir(parents=True, exist_ok=True)
    source = recorded_job() / "live" / QUERY / "offsets"
    for batch in (BATCH, BATCH + 1):
        (path / str(batch)).write_bytes((source / str(batch)).read_bytes())
    entry = BatchEntry(batch=BATCH + 1, offsets=(source / str(BATCH + 1)).read_text())
    cut = max(checkpoint_store(job).payloads(), key=lambda each: each.number).queries[QUERY]
    again(job, {QUERY: cut.model_copy(update={"entries": (entry,)})})


def again(job: JobContext, queries: dict[str, QueryCut]) -> None:
    """Publish the checkpoint of the stop once more, with these cuts, in the epoch of the last directory."""
    newest = max(checkpoint_store(job).payloads(), key=lambda each: each.number)
    with lead(job.coordinator, job.paths, job.config) as leadership:
        leadership.start_heartbeats(lambda reason: None)
        key = job.keys.working_directory(leadership.epoch, "y")
        (job.config.work_path / current(job)).rename(job.config.work_path / key)
        made = Generation(run=1, epoch=leadership.epoch, directory=key)
        leadership.commit(SetData(job.paths.generation, made.to_bytes(), -1))
        changed = {"number": newest.number + 1, "epoch": leadership.epoch, "queries": queries}
        checkpoint_store(job).add(leadership, newest.model_copy(update=changed))


def epoch_that_published_nothing(job: JobContext) -> None:
    """The run was recovered after its stop had taken its checkpoint, worked, and was lost again."""
    with lead(job.coordinator, job.paths, job.config) as leadership:
        leadership.start_heartbeats(lambda reason: None)
        key = job.keys.working_directory(leadership.epoch, "y")
        plan_batch(job, key, BATCH + 1)
        made = Generation(run=1, epoch=leadership.epoch, directory=key)
        leadership.commit(SetData(job.paths.generation, made.to_bytes(), -1))


def epoch_that_published_nothing_and_whose_directory_is_gone(job: JobContext) -> None:
    epoch_that_published_nothing(job)
    job.area.remove(current(job))


def notes_around_an_epoch_without_one(job: JobContext) -> None:
    epoch_that_published_nothing(job)
    log = ForeachBatchLog(job.area.tree(job.keys.given(QUERY)))
    log.begin(1, BATCH)
    log.open(job.snapshot().epoch + 1)


def run_that_began_anew(job: JobContext, *, planned_to: int | None = 0) -> None:
    """After the stop, a run from nothing: its driver has led, and has ended without a checkpoint.

    :param planned_to: Batch that it has planned; ``None`` for none.
    """
    plain_stop(job)
    job.coordinator.commit(
        job.runs.create_op(a_run(2, request_id="from-nothing")), *job.runs.submission_ops(2, a_submission())
    )
    with lead(job.coordinator, job.paths, job.config, run=2) as leadership:
        leadership.start_heartbeats(lambda reason: None)
        key = job.keys.working_directory(leadership.epoch, "z")
        (job.config.work_path / key).mkdir(parents=True)
        if planned_to is not None:
            plan_batch(job, key, planned_to)
        led = SubmissionLed(process="driver", epoch=leadership.epoch, host="host", pid=1, at=NOON)
        made = Generation(run=2, epoch=leadership.epoch, directory=key)
        leadership.commit(
            Create(job.paths.submission_led(2, 1), led.to_bytes()),
            SetData(job.paths.generation, made.to_bytes(), -1),
            job.runs.result_op(2, a_result(JobState.FAILED)),
        )


def run_that_began_anew_and_whose_directory_is_gone(job: JobContext) -> None:
    run_that_began_anew(job)
    job.area.remove(current(job))


@pytest.mark.parametrize(
    "case",
    [
        (plain_stop, FUNCTION, "SAFE"),
        (plain_stop, TOPIC, "SAFE"),
        (unfinished_drain, FUNCTION, "DUPLICATES_POSSIBLE"),
        (unfinished_drain, TOPIC, "DUPLICATES_POSSIBLE"),
        (unfinished_drain_without_its_working_directory, FUNCTION, "SAFE"),
        (work_after_a_stop_that_failed, FUNCTION, "LOSS_POSSIBLE"),
        (work_after_a_stop_that_failed, TOPIC, "LOSS_POSSIBLE"),
        (query_that_the_script_does_not_have_any_more, FUNCTION, "SAFE"),
        (query_that_the_script_does_not_have_any_more, TOPIC, "SAFE"),
        (batch_in_flight_that_the_stop_has_recorded, FUNCTION, "DUPLICATES_POSSIBLE"),
        (batch_in_flight_that_the_stop_has_recorded, TOPIC, "DUPLICATES_POSSIBLE"),
        (epoch_that_published_nothing, FUNCTION, "LOSS_POSSIBLE"),
        (epoch_that_published_nothing_and_whose_directory_is_gone, FUNCTION, "LOSS_POSSIBLE"),
        (notes_around_an_epoch_without_one, FUNCTION, "LOSS_POSSIBLE"),
        (run_that_began_anew, FUNCTION, "LOSS_POSSIBLE"),
        (run_that_began_anew, TOPIC, "LOSS_POSSIBLE"),
        (run_that_began_anew_and_whose_directory_is_gone, FUNCTION, "LOSS_POSSIBLE"),
    ],
)
def test_no_verdict_gets_better_by_a_deletion(
    spark_ha: Any, copy: JobContext, tmp_path: Path, case: tuple[Callable[[JobContext], None], QuerySink, str]
) -> None:
    past, sink, known = case
    job = whole_job(copy, helpers.script(tmp_path), stopped=True, sink=sink)
    past(job)

    before, after = verdicts_around_a_deletion(spark_ha)

    assert before == known
    assert after == known


def test_a_run_from_nothing_that_has_planned_nothing_has_given_the_sink_nothing(
    spark_ha: Any, copy: JobContext, tmp_path: Path
) -> None:
    job = whole_job(copy, helpers.script(tmp_path), stopped=True)
    run_that_began_anew(job, planned_to=None)

    assert planned(spark_ha)["verdict"] == "SAFE"


def test_a_driver_that_never_had_a_directory_has_given_the_sink_nothing(
    spark_ha: Any, copy: JobContext, tmp_path: Path
) -> None:
    job = whole_job(copy, helpers.script(tmp_path), stopped=True)
    of_first = job.coordinator.get(job.paths.generation).data
    run_that_began_anew(job)
    job.coordinator.commit(SetData(job.paths.generation, of_first, -1))

    assert planned(spark_ha)["verdict"] == "SAFE"


def test_a_plan_names_the_run_that_did_not_go_on_from_its_cut(spark_ha: Any, copy: JobContext, tmp_path: Path) -> None:
    run_that_began_anew(whole_job(copy, helpers.script(tmp_path), stopped=True))

    [reason] = planned(spark_ha)["reasons"]

    assert f"run 2 did not continue from this cut: its batches up to {BATCH}" in reason


def test_a_deletion_notes_which_run_did_not_go_on_from_a_kept_savepoint(
    spark_ha: Any, copy: JobContext, tmp_path: Path
) -> None:
    deleted(spark_ha, copy, tmp_path, run_that_began_anew)

    assert f"run 2 did not continue from this cut: its batches up to {BATCH}" in str(planned(spark_ha)["reasons"])


def test_a_submit_does_not_go_back_behind_a_run_that_began_anew(copy: JobContext, tmp_path: Path) -> None:
    script = helpers.script(tmp_path)
    run_that_began_anew(whole_job(copy, script, stopped=True))
    request = changed(helpers.request(script), job_id=copy.job_id, start_from=f"savepoint-{SAVEPOINT}")

    with pytest.raises(RestoreRefusedError, match="run 2 did not continue from this cut"):
        submit_job(copy, request)


@pytest.mark.parametrize("reached", [BATCH, BATCH + 1])
@pytest.mark.parametrize("past", [plain_stop, unfinished_drain, work_after_a_stop_that_failed])
def test_no_verdict_about_a_file_sink_gets_better_by_a_deletion(
    spark_ha: Any, copy: JobContext, tmp_path: Path, past: Callable[[JobContext], None], reached: int
) -> None:
    """Its log says what it has. Whose batch that is, only the working directories say."""
    out = copy_output(tmp_path / "out")
    for entry in (out / LOG).iterdir():
        if entry.name.split(".")[0].isdigit() and int(entry.name.split(".")[0]) > reached:
            entry.unlink()
    sink = QuerySink(kind=SinkKind.FILE, format="json", path=str(out))
    job = whole_job(copy, helpers.script(tmp_path), stopped=True, sink=sink)
    past(job)

    before, after = verdicts_around_a_deletion(spark_ha)

    assert RANK.index(after) >= RANK.index(before)
    assert after == ("SAFE" if reached == BATCH else "LOSS_POSSIBLE")


def never_work(job: JobContext, script: Path, *, begin: bool = False) -> int:
    """Submit a run that fails.

    :param begin: Whether its script has begun, so that it has a working directory.
    """
    run = helpers.submit(job, script).run
    helpers.kill_all(job)
    pointer = job.graphs.remove_op(run)
    with lead(job.coordinator, job.paths, job.config, run=run) as leadership:
        leadership.start_heartbeats(lambda reason: None)
        if begin:
            key = job.keys.working_directory(leadership.epoch, "z")
            (job.config.work_path / key).mkdir(parents=True)
            made = Generation(run=run, epoch=leadership.epoch, directory=key)
            leadership.commit(Create(job.paths.generation, made.to_bytes()))
        ended = job.runs.result_op(run, a_result(JobState.FAILED))
        leadership.commit(ended, *([pointer] if pointer is not None else []))
    return run


def fail_in_the_script(job: JobContext, script: Path) -> int:
    return never_work(job, script, begin=True)


@pytest.mark.parametrize("ends", [never_work, fail_in_the_script])
@pytest.mark.parametrize(
    "case",
    [
        (unfinished_drain, "DUPLICATES_POSSIBLE", f"the drain's batch {BATCH + 1}"),
        (work_after_a_stop_that_failed, "LOSS_POSSIBLE", "may have reached the sink without a record"),
    ],
)
def test_no_verdict_gets_better_by_a_run_that_never_works(
    spark_ha: Any,
    copy: JobContext,
    tmp_path: Path,
    case: tuple[Callable[[JobContext], None], str, str],
    ends: Callable[[JobContext, Path], object],
) -> None:
    """The first run of the next life fails before it has a checkpoint; then that life is deleted, too."""
    past, verdict, reason = case
    job = deleted(spark_ha, copy, tmp_path, past)
    ends(job, helpers.script(tmp_path))

    failed = planned(spark_ha)
    delete(spark_ha)
    again = planned(spark_ha)

    assert failed["verdict"] == verdict
    assert RANK.index(again["verdict"]) >= RANK.index(verdict)
    assert all(reason in str(each["reasons"]) for each in (failed, again))


def test_work_of_the_next_life_is_not_taken_for_the_drain_of_the_one_before(
    spark_ha: Any, copy: JobContext, tmp_path: Path
) -> None:
    job = deleted(spark_ha, copy, tmp_path, unfinished_drain)
    fail_in_the_script(job, helpers.script(tmp_path))
    plan_batch(job, current(job), BATCH + 2)

    assert planned(spark_ha)["verdict"] == "LOSS_POSSIBLE"


def test_notes_of_the_next_life_say_nothing_of_the_one_before(spark_ha: Any, copy: JobContext, tmp_path: Path) -> None:
    job = deleted(spark_ha, copy, tmp_path, work_after_a_stop_that_failed)
    fail_in_the_script(job, helpers.script(tmp_path))
    ForeachBatchLog(job.area.tree(job.keys.given(QUERY))).open(job.snapshot().epoch)

    assert planned(spark_ha)["verdict"] == "LOSS_POSSIBLE"


def test_the_life_before_counts_until_a_later_run_has_a_checkpoint(
    spark_ha: Any, copy: JobContext, tmp_path: Path
) -> None:
    job = deleted(spark_ha, copy, tmp_path, unfinished_drain)
    run = fail_in_the_script(job, helpers.script(tmp_path))
    before = planned(spark_ha)["verdict"]
    go_on_from_the_savepoint(job, run)

    with lead(job.coordinator, job.paths, job.config) as leadership:
        leadership.start_heartbeats(lambda reason: None)
        made = next(checkpoint_store(job).payloads())
        later = {"number": 9, "run": run, "epoch": leadership.epoch}
        checkpoint_store(job).add(leadership, made.model_copy(update=later))

    assert (before, planned(spark_ha)["verdict"]) == ("DUPLICATES_POSSIBLE", "SAFE")


def go_on_from_the_savepoint(job: JobContext, run: int) -> None:
    """Make the savepoint the start of a run that was made from nothing."""
    request = RestoreRequest(job_id=job.job_id, request_id="restore", start_from=f"savepoint-{SAVEPOINT}")
    start = restored_start(job, plan_for(job, request)[1], OutputMode.CONTINUE)
    job.coordinator.commit(
        SetData(job.paths.run(run), job.runs.get(run).run.model_copy(update={"start": start}).to_bytes(), -1)
    )


def deleted(spark_ha: Any, copy: JobContext, tmp_path: Path, past: Callable[[JobContext], None]) -> JobContext:
    job = whole_job(copy, helpers.script(tmp_path), stopped=True)
    past(job)
    delete(spark_ha)
    return job


def verdicts_around_a_deletion(spark_ha: Any) -> tuple[str, str]:
    before = planned(spark_ha)["verdict"]
    delete(spark_ha)
    return before, planned(spark_ha)["verdict"]


def planned(spark_ha: Any) -> dict[str, Any]:
    words = ("job", "restore", "--dry-run", "copy", "--start-from", f"savepoint-{SAVEPOINT}", "--json")
    found: dict[str, Any] = json.loads(spark_ha(*words)[1])
    return found


def delete(spark_ha: Any) -> None:
    assert spark_ha("delete", "job", "copy", "--keep-savepoints", "--yes")[0] == 0
