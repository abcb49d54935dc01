"""A deletion that keeps savepoints reads what they need to know of the job; a damaged record is no reason to refuse."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.areas.working_records import UNPUBLISHED_FILE
from airflow_provider_ha.coordination.coordinator import SetData
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.model import Generation, JobState
from airflow_provider_ha.jobs.removal.removal_records import read_life
from tests.support.clusters import submit_helpers as helpers
from tests.support.clusters.jobs_helpers import a_result, a_run
from tests.support.clusters.whole_jobs import SAVEPOINT, whole_job


pytestmark = pytest.mark.timeout(300)


def generation_of(job: JobContext) -> Generation:
    return Generation.from_bytes(job.coordinator.get(job.paths.generation).data, source="generation")


def carried_batches(job: JobContext) -> None:
    path = job.config.work_path / generation_of(job).directory / UNPUBLISHED_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("torn")


def generation_that_names_something_else(job: JobContext) -> None:
    made = generation_of(job).model_copy(update={"directory": "elsewhere"})
    job.coordinator.commit(SetData(job.paths.generation, made.to_bytes(), -1))


def result_of_the_run_that_worked(job: JobContext) -> None:
    """A later run has ended without work, so what ended the last one is known."""
    job.coordinator.commit(
        job.runs.create_op(a_run(2, request_id="later")),
        job.runs.result_op(2, a_result(JobState.FAILED)),
        SetData(job.paths.run_result(1), b"torn", -1),
    )


@pytest.mark.parametrize(
    "case",
    [
        (carried_batches, UNPUBLISHED_FILE),
        (generation_that_names_something_else, "generation"),
        (result_of_the_run_that_worked, "runs/1/result"),
    ],
)
def test_a_damaged_record_keeps_no_deletion_from_its_end(
    spark_ha: Any,
    copy: JobContext,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    case: tuple[Callable[[JobContext], None], str],
) -> None:
    damage, named = case
    job = whole_job(copy, helpers.script(tmp_path), stopped=True)
    damage(job)

    with caplog.at_level(logging.WARNING):
        code = spark_ha("delete", "job", "copy", "--keep-savepoints", "--yes")[0]

    assert code == 0
    deleted = read_life(job.coordinator, job.paths).deleted
    assert deleted is not None
    assert deleted.complete
    assert deleted.unrecorded
    assert any("batches without a record" in line and named in line for line in caplog.messages)


def test_nothing_is_noted_for_a_restore_that_nothing_is_left_for(
    spark_ha: Any, copy: JobContext, tmp_path: Path
) -> None:
    job = whole_job(copy, helpers.script(tmp_path), stopped=True)
    carried_batches(job)
    assert spark_ha("delete", "savepoint", "copy", SAVEPOINT, "--yes")[0] == 0

    spark_ha("delete", "job", "copy", "--keep-savepoints", "--yes")

    deleted = read_life(job.coordinator, job.paths).deleted
    assert deleted is not None
    assert not deleted.unrecorded
