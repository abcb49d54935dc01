"""A work root that is full for longer than all attempts of the restart strategy: no attempt is used, and the run lives.

The disk is a real tmpfs; supervisor, ZooKeeper and processes are real; "JVM" and "Python" are stand-ins. The clock of
the recoveries is moved by hand.
"""

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
from airflow_provider_ha.errors import StorageUnavailableError
from airflow_provider_ha.jobs.condition import decide
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.recovery.lost_runs import recover
from airflow_provider_ha.jobs.recovery.restart_policy import Resubmit, attempts_used, outage_of
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters import submit_helpers as helpers
from tests.support.clusters.full_disk import SmallDisk, small_disk


pytestmark = pytest.mark.long
TRIES = 6  # three times what ``submit_helpers.request`` allows
OPTIONS = HaOptions(restart_in_place=False, restart_delay=0.05, restart_attempts=2)


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
def job(
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
    decision = decide(job.snapshot(), OPTIONS, job.clock.now()).restart
    assert isinstance(decision, Resubmit)
    return decision.after


def test_disk_that_is_full_for_longer_than_all_attempts_costs_none(
    job: JobContext, disk: SmallDisk, tmp_path: Path
) -> None:
    lose(job, tmp_path)
    disk.fill_inodes()
    clock = MovedClock()
    job = replace(job, clock=clock)
    pauses = []

    for _ in range(TRIES):
        pauses.append(pause(job))
        clock.time += timedelta(seconds=pauses[-1])
        with pytest.raises(StorageUnavailableError, match="No space left on device"):
            recover(job, by="test", wait=False)

    assert pauses == sorted(pauses)
    run = job.runs.get(1)
    assert run.result is None
    assert attempts_used(run.submissions, OPTIONS, clock.now()) == 0
    assert f"{TRIES} launches since" in outage_of(run)
    assert "No space left on device" in outage_of(run)
    disk.free()
    made = recover(job, by="test", wait=False)
    wait_until(lambda: helpers.pid_in(job, "driver.pid", attempt=made.attempt), timeout=20, what="the next driver")


def test_disk_without_room_for_a_driver_is_an_outage_that_the_supervisor_tells(
    job: JobContext, disk: SmallDisk, tmp_path: Path
) -> None:
    lose(job, tmp_path)
    disk.fill()
    ballast = disk.path / ".ballast-0"
    os.truncate(ballast, ballast.stat().st_size - 256 * 1024)  # enough for the files of a launch

    made = recover(job, by="test", wait=False)

    def exited() -> bool:
        return job.runs.get(1).submissions[made.attempt - 1].exit is not None

    wait_until(exited, timeout=20, what="the exit")
    found = job.runs.get(1).submissions[made.attempt - 1].exit
    assert found is not None
    assert found.outage
    assert "No space left on device" in found.reason
    assert attempts_used(job.runs.get(1).submissions, OPTIONS, job.clock.now()) == 0


def test_driver_that_dies_by_itself_is_no_outage(job: JobContext, tmp_path: Path) -> None:
    lose(job, tmp_path)

    found = job.runs.get(1).submissions[0].exit
    assert found is not None
    assert not found.outage
