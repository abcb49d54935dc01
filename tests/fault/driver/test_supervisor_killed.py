"""The supervisor of a real driver is killed: nothing of the driver may outlive it, also under a script that sleeps."""

from __future__ import annotations

from collections.abc import Callable

import psutil
import pytest

from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.driver.ending.exit_reason import read_failure
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.submit_helpers import alive, directory
from tests.support.spark.driver_helpers import APPS
from tests.support.spark.supervised_job import LOSS_SECONDS, SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]


@pytest.mark.hours
def test_a_script_that_sleeps_by_itself_does_not_hold_the_lock_of_a_killed_supervisor(
    gated: Callable[..., SupervisedJob], coordinator: Coordinator
) -> None:
    """The kernel kills the JVM only: a Python that leads on looks RUNNING, reads no row, and keeps recovery away."""
    job = gated()
    job.stream.feed(2)
    job.submit_script(APPS / "sleeps.py", [*job.stream.arguments])
    job.await_committed(1, 1)
    supervisor = job.supervisor()
    driver = job.driver()
    assert {"java", "python"} <= {process.name().rstrip("0123456789.") for process in driver}

    supervisor.kill()
    wait_until(lambda: not alive_ones(driver), timeout=5, what="the death of JVM and Python")
    context = job.job._job
    assert read_failure(directory(context)) == f"the JVM (pid {driver[0].pid}) is gone"
    wait_until(
        lambda: coordinator.find(context.paths.leader) is None, timeout=LOSS_SECONDS, what="the end of the session"
    )
    job.await_lost()
    job.recover()
    job.stream.feed(1)

    job.await_committed(2, 2)


def alive_ones(processes: list[psutil.Process]) -> list[int]:
    return [process.pid for process in processes if alive(process.pid)]
