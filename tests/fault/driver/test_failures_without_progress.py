"""Failures of a run that has not worked yet end it, with what its user needs to know: real supervisor, real Spark."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.jobs.model import JobState, RunResult
from airflow_provider_ha.jobs.options.job_options import HaOptions
from tests.support.spark.driver_helpers import APPS, Stream
from tests.support.spark.supervised_job import SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture
def job(client: HaClient, tmp_path: Path) -> SupervisedJob:
    return SupervisedJob(client, Stream(tmp_path), ("rows",), options=HaOptions(checkpoint_interval=0))


def submit(job: SupervisedJob, mistake: str, times: int = 1, *, script: Path = APPS / "mistakes.py") -> None:
    job.submit_script(script, [mistake, str(job.stream.source), str(job.stream.root / "out"), str(times)])


def end(job: SupervisedJob, attempts: int) -> RunResult:
    """Wait until the run has FAILED after so many attempts."""
    result = job.await_result()
    run = job.job.snapshot().run
    assert run is not None
    assert (result.state, len(run.submissions)) == (JobState.FAILED, attempts), result.reason
    return result


def test_script_that_exits_before_its_first_query_ends_the_run_with_its_status_and_its_words(
    job: SupervisedJob,
) -> None:
    submit(job, "arguments")

    reason = end(job, 3).reason

    assert reason.startswith("SystemExit: exit status 2: usage: mistakes.py --input INPUT | mistakes.py: error: the ")
    assert re.search(r"at mistakes\.py:16 in <module>, 3 times in", reason), reason


def test_file_that_stayed_on_the_submitting_host_is_named_with_the_option_that_ships_it(
    job: SupervisedJob, tmp_path: Path
) -> None:
    script = shutil.copy(APPS / "mistakes.py", tmp_path)
    (tmp_path / "settings.ini").write_text("[paths]\n")

    submit(job, "file", script=Path(script))

    assert "ship it with --files settings.ini (files=['settings.ini'])" in end(job, 3).reason


def test_error_in_the_first_batch_of_a_new_job_ends_the_run(job: SupervisedJob) -> None:
    job.stream.feed(1)

    submit(job, "typo")

    assert end(job, 3).reason.startswith("KeyError: 'price', in query 'rows' before its first batch at mistakes.py:")


def await_batches(job: SupervisedJob, epoch: int, batch: int) -> None:
    job.await_committed(epoch, batch)
    job.stop("suspend")
    assert job.await_result().state is JobState.FINISHED


@pytest.mark.parametrize(
    ("script", "changed"),
    [
        ("union", "reads 3 sources, and its checkpoint has 1"),
        ("counts", "has 2 operators with state, and its checkpoint"),
    ],
)
def test_script_that_does_not_fit_its_checkpoint_is_refused_before_its_first_batch(
    job: SupervisedJob, script: str, changed: str
) -> None:
    job.stream.feed(2)
    submit(job, script)
    await_batches(job, 1, 1)
    kept = [pointer.number for pointer in job.job.checkpoints.list()]

    submit(job, script, 3 if script == "union" else 2)
    reason = end(job, 1).reason

    assert changed in reason
    assert f"Run 2 differs from run 1, which wrote checkpoint-{kept[0]}, in arguments" in reason
    assert f"`spark-ha restore gated --start-from checkpoint-{kept[0]}` continues with the graph of run 1" in reason
    assert [pointer.number for pointer in job.job.checkpoints.list()] == kept


def test_script_of_before_goes_on_from_its_checkpoint_after_another_one_was_refused(job: SupervisedJob) -> None:
    job.stream.feed(2)
    submit(job, "union")
    await_batches(job, 1, 1)
    submit(job, "union", 3)
    end(job, 1)

    job.stream.feed(1)
    submit(job, "union")

    job.await_alive(
        lambda: next(iter(job.job.checkpoints.list())).cut == {"rows": 2}, "the next batch of the old script"
    )


def test_schema_that_spark_refuses_ends_the_run_the_second_time_and_keeps_the_checkpoints(job: SupervisedJob) -> None:
    job.stream.feed(2)
    submit(job, "counts")
    await_batches(job, 1, 1)
    kept = [pointer.number for pointer in job.job.checkpoints.list()]
    job.stream.feed(1)

    submit(job, "schema")
    reason = end(job, 2).reason

    assert "STATE_STORE" in reason
    assert f"--start-from checkpoint-{kept[0]}` continues with the graph of run 1" in reason
    assert [pointer.number for pointer in job.job.checkpoints.list()] == kept


def test_function_that_does_not_read_its_frame_is_told_so_and_ends_the_run(job: SupervisedJob) -> None:
    job.stream.feed(1)

    submit(job, "unread")

    assert (
        "the function of query 'rows' has not read its frame, and a query with state needs that" in end(job, 2).reason
    )
