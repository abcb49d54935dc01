"""A standby driver takes over from a lost leader, whichever of its processes died, and another one takes its place."""

from __future__ import annotations

from collections.abc import Callable

import psutil
import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.runs.standbys import Standby, StandbyStore
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.spark.driver_helpers import PATIENCE
from tests.support.spark.supervised_job import SupervisedJob, terminate_and_compare


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


def ready(job: SupervisedJob, client: HaClient) -> Standby:
    """Return the standby driver of the job once it is ready."""
    store = StandbyStore(client.coordinator, client.paths.job(job.job_id), 1)

    def found() -> Standby | None:
        living = store.living()
        assert all(not each.note for each in living), living
        return next((each for each in living if each.is_ready), None)

    return wait_until(found, timeout=PATIENCE, what="a standby driver")


def await_takeover(job: SupervisedJob, attempt: int) -> None:
    """Wait until an attempt leads that a standby driver has become."""

    def leads() -> bool:
        snapshot = job.job.snapshot()
        return snapshot.leader is not None and snapshot.leader.attempt == attempt

    wait_until(leads, timeout=PATIENCE, what=f"attempt {attempt}", interval=0.02)
    newest = job.run.newest
    assert newest is not None
    assert newest.submission.standby


def test_a_standby_driver_takes_over_from_each_process_of_a_leader(
    gated: Callable[..., SupervisedJob], client: HaClient
) -> None:
    job = gated()
    job.options = HaOptions(checkpoint_interval=0, standby_drivers=1, class_archive=False)
    job.stream.feed(2)
    job.submit()
    job.await_committed(1, 1)

    for attempt, process in ((2, job.jvm), (3, job.python), (4, job.supervisor)):
        standby = ready(job, client)
        assert job.job.snapshot().state is JobState.RUNNING
        process().kill()
        await_takeover(job, attempt)
        job.stream.feed(1)
        job.await_read(attempt)
        newest = job.run.newest
        assert newest is not None
        assert newest.submission.submission_id == standby.standby_id
        assert psutil.pid_exists(standby.pid)

    terminate_and_compare(job, 5)
    wait_until(
        lambda: not StandbyStore(client.coordinator, client.paths.job(job.job_id), 1).living(),
        timeout=PATIENCE,
        what="the end of the standby drivers",
    )
