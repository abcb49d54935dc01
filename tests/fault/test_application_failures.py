"""A driver that fails as its application does, again and again: real supervisor, processes and ZooKeeper.

"JVM" and "Python" are stand-ins; what the driver tells of its failure is written as the driver writes it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.control.submission.recovery import recover
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.driver.exit_codes import ExitCode
from airflow_provider_ha.driver.failure import write_failure
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.jobs.failures import Failure, FailureKind
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.ha_options import HaOptions
from airflow_provider_ha.jobs.submissions import SubmissionExit
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters import submit_helpers as helpers
from tests.support.clusters.jobs_helpers import MISTAKE


OPTIONS = HaOptions(
    restart_in_place=False, restart_delay=0, restart_attempts=2, application_failure_period=0, application_delay=0
)
AWAY = Failure(kind=FailureKind.OUTAGE, error_class="java.net.ConnectException", query="rows", batches={"rows": 4})


@pytest.fixture
def job(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[JobContext]:
    monkeypatch.setenv("SPARK_HOME", str(helpers.stand_in_spark(tmp_path / "spark")))
    context = helpers.context(config, coordinator)
    helpers.submit(context, helpers.script(tmp_path), options=OPTIONS)
    yield context
    helpers.kill_all(context)


def fail(job: JobContext, attempt: int, failure: Failure | None, code: ExitCode = ExitCode.FAILED) -> SubmissionExit:
    """Let the driver of an attempt end with *failure*, and wait for the proof of its death."""
    python = wait_until(lambda: helpers.pid_in(job, "driver.pid", attempt=attempt), timeout=20, what="the driver")
    write_failure(helpers.directory(job, attempt=attempt), code, "query 'rows' failed: it did", failure)
    os.kill(python, signal.SIGKILL)
    found = wait_until(lambda: job.runs.get(1).submissions[attempt - 1].exit, timeout=20, what="the exit")
    assert found is not None
    return found


def test_supervisor_records_what_the_driver_told_of_its_failure(job: JobContext) -> None:
    assert fail(job, 1, MISTAKE).failure == MISTAKE


def test_driver_that_is_killed_has_told_nothing(job: JobContext) -> None:
    assert fail(job, 1, None).failure is None


def test_driver_that_lost_its_leadership_has_met_an_outage(job: JobContext) -> None:
    found = fail(job, 1, None, ExitCode.LEADERSHIP_LOST)

    assert found.met_outage
    assert not found.outage  # it ran the script


def test_error_of_the_application_that_repeats_is_the_result_of_the_run(job: JobContext) -> None:
    for attempt in (1, 2):
        fail(job, attempt, MISTAKE)
        assert recover(job, by="test", wait=False).attempt == attempt + 1
    epoch = job.snapshot().epoch
    fail(job, 3, MISTAKE)

    with pytest.raises(JobStateError, match="KeyError: 'price'"):
        recover(job, by="test", wait=False)

    result = job.runs.get(1).result
    assert result is not None
    assert (result.state, result.failure) == (JobState.FAILED, MISTAKE)
    assert result.epoch > epoch  # written as the job's leader
    assert job.coordinator.find(job.paths.job_graph) is None


@pytest.mark.long
def test_outage_that_repeats_more_often_than_losses_may_leaves_the_run_alive(job: JobContext) -> None:
    for attempt in (1, 2, 3, 4):
        fail(job, attempt, AWAY)
        assert recover(job, by="test", wait=False).created

    assert job.runs.get(1).result is None
