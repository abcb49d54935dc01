"""What a run was to begin from is removed between its plan and its creation, on a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.coordination.coordinator import Delete
from airflow_provider_ha.errors import CheckpointMissingError
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.jobs.restore.job_restore import restore_job
from airflow_provider_ha.jobs.submit import run_submission
from airflow_provider_ha.jobs.submit.submit_request import submit_job
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.clusters import submit_helpers as helpers
from tests.support.clusters.whole_jobs import SAVEPOINT, whole_job


pytestmark = pytest.mark.timeout(300)
YES = 0
ANY = frozenset({Verdict.SAFE, Verdict.LOSS_POSSIBLE, Verdict.DUPLICATES_POSSIBLE})


@pytest.fixture
def before_the_run_is_made(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Let something happen once a run is planned and its files are in storage."""

    def arrange(event: Callable[[], object]) -> None:
        patched: Any = run_submission
        create_job = patched.create_job

        def create(*args: Any) -> None:
            monkeypatch.setattr(run_submission, "create_job", create_job)
            event()
            create_job(*args)

        monkeypatch.setattr(run_submission, "create_job", create)

    return arrange


@pytest.mark.parametrize("deleted", [False, True], ids=["over", "deleted"])
def test_a_run_is_not_made_from_a_savepoint_that_was_disposed_of(
    spark_ha: Any, copy: JobContext, tmp_path: Path, before_the_run_is_made: Any, deleted: bool
) -> None:
    job = whole_job(copy, helpers.script(tmp_path))
    if deleted:
        assert spark_ha("delete", "job", "copy", "--keep-savepoints", "--yes")[0] == YES
    numbers, asked = job.runs.numbers(), f"savepoint-{SAVEPOINT}"
    before_the_run_is_made(lambda: spark_ha("delete", "savepoint", "copy", SAVEPOINT, "--yes"))

    with pytest.raises(CheckpointMissingError, match=f"savepoint {SAVEPOINT} of job 'copy' was removed before run 2"):
        submit_job(job, helpers.request(helpers.script(tmp_path), start_from=asked, accept_verdicts=ANY))

    assert job.coordinator.find(job.paths.savepoint(SAVEPOINT)) is None
    assert job.runs.numbers() == numbers
    assert helpers.drivers(job) == []


def test_a_run_is_not_made_from_a_checkpoint_of_another_job_that_was_removed(
    copy: JobContext, source: Job, before_the_run_is_made: Any
) -> None:
    """Its owner does not know the runs of other jobs, and a lease may have run out."""
    before_the_run_is_made(lambda: source.leadership.commit(Delete(source.paths.checkpoint(1))))

    with pytest.raises(CheckpointMissingError, match=r"checkpoint 1 of job 'flights' .* run 1 of job 'copy'") as told:
        restore_job(copy, RestoreRequest(job_id="copy", request_id="r", source_job="flights"))

    assert "`spark-ha checkpoint list flights`" in told.value.next_step
    assert copy.runs.numbers() == []
