"""Drivers that fail at their application or on a full disk: real supervisor and ZooKeeper."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.driver.ending.exit_reason import ExitCode, write_failure
from airflow_provider_ha.errors import JobStateError, StorageUnavailableError
from airflow_provider_ha.jobs.condition import decide
from airflow_provider_ha.jobs.drivers.driver_home import DriverHome
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.recovery.lost_runs import recover
from airflow_provider_ha.jobs.recovery.restart_policy import Resubmit, attempts_used, outage_of
from airflow_provider_ha.jobs.runs.submissions import Failure, FailureKind, SubmissionExit
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters import submit_helpers as helpers
from tests.support.clusters.full_disk import SmallDisk, small_disk
from tests.support.clusters.jobs_helpers import MISTAKE


OPTIONS = HaOptions(restart_in_place=False, restart_delay=0, restart_attempts=3)
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


def test_supervisor_records_the_failure_that_the_driver_reported(job: JobContext) -> None:
    assert fail(job, 1, MISTAKE).failure == MISTAKE


def test_killed_driver_has_reported_no_failure(job: JobContext) -> None:
    assert fail(job, 1, None).failure is None


def test_driver_that_lost_its_leadership_has_met_an_outage(job: JobContext) -> None:
    found = fail(job, 1, None, ExitCode.LEADERSHIP_LOST)

    assert found.met_outage
    assert not found.outage  # it ran the script


def test_error_that_repeats_before_the_first_query_is_the_result_of_the_run(job: JobContext) -> None:
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


def test_run_that_has_started_a_query_and_committed_a_batch_outlives_the_same_error(job: JobContext) -> None:
    home = DriverHome(helpers.directory(job))
    wait_until(home.directory.exists, timeout=20, what="the home")
    home.started.touch()
    home.committed.touch()

    for attempt in (1, 2, 3):
        fail(job, attempt, MISTAKE)
        assert recover(job, by="test", wait=False).created

    exit_ = job.runs.get(1).submissions[0].exit
    assert exit_ is not None
    assert (exit_.started, exit_.committed) == (True, True)


def test_jvm_that_is_killed_is_the_reason_whatever_its_python_met_first(job: JobContext) -> None:
    jvm = wait_until(lambda: helpers.pid_in(job, "jvm.pid"), timeout=20, what="the JVM")
    wait_until(lambda: helpers.pid_in(job, "driver.pid"), timeout=20, what="the driver")
    broken = Failure(error_class="BrokenPipeError", message="[Errno 32] Broken pipe", batches={"rows": 4})
    write_failure(helpers.directory(job), ExitCode.FAILED, "main.py failed: BrokenPipeError", broken)

    os.kill(jvm, signal.SIGKILL)

    exit_ = wait_until(lambda: job.runs.get(1).submissions[0].exit, timeout=20, what="the exit")
    assert exit_ is not None
    assert exit_.failure is None
    assert exit_.reason.startswith("the JVM was killed by signal 9 (SIGKILL); unless ")
    assert exit_.reason.endswith(f"the host was out of memory (pid {jvm}, exit status 137)")


@pytest.mark.long
def test_outage_that_repeats_more_often_than_losses_may_leaves_the_run_alive(job: JobContext) -> None:
    home = DriverHome(helpers.directory(job))
    wait_until(home.directory.exists, timeout=20, what="the home")
    home.started.touch()
    for attempt in (1, 2, 3, 4, 5):
        fail(job, attempt, AWAY)
        assert recover(job, by="test", wait=False).created

    assert job.runs.get(1).result is None


def test_spark_submit_that_fails_three_times_ends_the_run_with_what_it_printed(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As without Java: the shell script of Spark says so, and no Python is ever started."""
    spark = helpers.stand_in_spark(tmp_path / "spark")
    (spark / "bin" / "spark-submit").write_text("#!/bin/sh\necho JAVA_HOME is not set >&2\nexit 1\n")
    monkeypatch.setenv("SPARK_HOME", str(spark))
    job = helpers.context(config, coordinator)
    helpers.submit(job, helpers.script(tmp_path), options=HaOptions(restart_delay=0))

    result = wait_until(lambda: job.runs.get(1).result, timeout=60, what="the end of the run")

    assert result is not None
    assert result.state is JobState.FAILED
    assert result.reason.startswith("spark-submit: exit status 1: JAVA_HOME is not set, in the script before any batch")
    assert len(job.runs.get(1).submissions) == 3


TRIES = 6  # three times what ``submit_helpers.request`` allows
TWO_ATTEMPTS = HaOptions(restart_in_place=False, restart_delay=0.05, restart_attempts=2)


class MovedClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.time = datetime.now(timezone.utc)

    def now(self) -> datetime:
        return self.time

    def lease_time(self) -> float:
        return self.time.timestamp()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "work", size="8m") as mounted:
        yield mounted


@pytest.fixture
def job_on_full_disk(
    config: HaConfig, coordinator: Coordinator, disk: SmallDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[JobContext]:
    monkeypatch.setenv("SPARK_HOME", str(helpers.stand_in_spark(tmp_path / "spark")))
    here = config.model_copy(update={"work_root": disk.path.as_uri()})
    context = helpers.context(here, coordinator)
    yield context
    helpers.kill_all(context)


def lose(job: JobContext, tmp_path: Path) -> None:
    """Submit the stand-ins, kill them, and wait for the proof of death."""
    helpers.submit(job, helpers.script(tmp_path))
    python = wait_until(lambda: helpers.pid_in(job, "driver.pid"), timeout=20, what="the driver")
    os.kill(python, signal.SIGKILL)
    wait_until(lambda: job.runs.get(1).submissions[0].exit, timeout=20, what="the exit")


def pause(job: JobContext) -> float:
    """Return what the restart strategy wants to wait before the next submission."""
    decision = decide(job.snapshot(), TWO_ATTEMPTS, job.clock.now()).restart
    assert isinstance(decision, Resubmit)
    return decision.after


@pytest.mark.long
def test_disk_that_is_full_for_longer_than_all_attempts_costs_none(
    job_on_full_disk: JobContext, disk: SmallDisk, tmp_path: Path
) -> None:
    lose(job_on_full_disk, tmp_path)
    disk.fill_inodes()
    clock = MovedClock()
    job_on_full_disk = replace(job_on_full_disk, clock=clock)
    pauses = []

    for _ in range(TRIES):
        pauses.append(pause(job_on_full_disk))
        clock.time += timedelta(seconds=pauses[-1])
        with pytest.raises(StorageUnavailableError, match="No space left on device"):
            recover(job_on_full_disk, by="test", wait=False)

    assert pauses == sorted(pauses)
    run = job_on_full_disk.runs.get(1)
    assert run.result is None
    assert attempts_used(run.submissions, TWO_ATTEMPTS, clock.now()) == 0
    assert f"{TRIES} launches since" in outage_of(run)
    assert "No space left on device" in outage_of(run)
    disk.free()
    made = recover(job_on_full_disk, by="test", wait=False)
    wait_until(
        lambda: helpers.pid_in(job_on_full_disk, "driver.pid", attempt=made.attempt), timeout=20, what="the next driver"
    )


@pytest.mark.long
def test_disk_without_room_for_a_driver_is_an_outage_that_the_supervisor_tells(
    job_on_full_disk: JobContext, disk: SmallDisk, tmp_path: Path
) -> None:
    lose(job_on_full_disk, tmp_path)
    disk.fill()
    ballast = disk.path / ".ballast-0"
    os.truncate(ballast, ballast.stat().st_size - 256 * 1024)  # enough for the files of a launch

    made = recover(job_on_full_disk, by="test", wait=False)

    def exited() -> bool:
        return job_on_full_disk.runs.get(1).submissions[made.attempt - 1].exit is not None

    wait_until(exited, timeout=20, what="the exit")
    found = job_on_full_disk.runs.get(1).submissions[made.attempt - 1].exit
    assert found is not None
    assert found.outage
    assert "No space left on device" in found.reason
    assert attempts_used(job_on_full_disk.runs.get(1).submissions, TWO_ATTEMPTS, job_on_full_disk.clock.now()) == 0


@pytest.mark.long
def test_driver_that_dies_by_itself_is_no_outage(job_on_full_disk: JobContext, tmp_path: Path) -> None:
    lose(job_on_full_disk, tmp_path)

    found = job_on_full_disk.runs.get(1).submissions[0].exit
    assert found is not None
    assert not found.outage
