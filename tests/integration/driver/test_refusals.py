"""Scripts that cannot be made highly available are refused with a reason, and never started again."""

from __future__ import annotations

import pytest

from airflow_provider_ha.driver.exit_codes import ExitCode
from airflow_provider_ha.jobs.model import JobState
from tests.driver_helpers import APPS, PATIENCE, ManagedJob


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    ("way", "reason"),
    [
        pytest.param("unnamed", "has no name", id="unnamed query"),
        pytest.param(
            "location", "sets its own checkpointLocation", id="own location by option", marks=pytest.mark.long
        ),
        pytest.param("conf", "the script sets spark.sql.streaming.checkpointLocation", id="own location by conf"),
        pytest.param("twice", "two streaming queries of one run are named 'q'", id="duplicate", marks=pytest.mark.long),
        pytest.param("continuous", "no batches to stop at", id="continuous trigger", marks=pytest.mark.long),
        pytest.param("table", "toTable", id="table", marks=pytest.mark.long),
    ],
)
def test_script_is_refused_with_a_result_although_it_swallows_the_error(job: ManagedJob, way: str, reason: str) -> None:
    run = job.submit(APPS / "refused.py", [way, str(job.scratch / "own")])

    code = job.start(run).wait(PATIENCE)

    result = job.result(run)
    assert result is not None, job.log(run)
    assert (code, result.state) == (ExitCode.REFUSED, JobState.FAILED)
    assert reason in result.reason
    assert job.coordinator.find(job.paths.job_graph) is None


def test_script_that_raises_fails_without_a_result(job: ManagedJob) -> None:
    run = job.submit(APPS / "refused.py", ["raises"])

    code = job.start(run).wait(PATIENCE)

    assert code == ExitCode.FAILED
    assert job.result(run) is None
    assert "no such table" in job.failure(run)
    assert job.coordinator.find(job.paths.job_graph) is not None
