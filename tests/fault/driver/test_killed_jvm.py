"""Killed and frozen processes of a driver: JVM, Python, supervisor and executors."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import psutil
import pytest

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.election import acquire
from airflow_provider_ha.driver.ending.exit_reason import read_failure
from airflow_provider_ha.host.process_tree import DeathWatch
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters import submit_helpers
from tests.support.clusters.submit_helpers import alive, directory
from tests.support.spark.driver_helpers import APPS, PATIENCE
from tests.support.spark.supervised_job import LOSS_SECONDS, SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.mark.hours
def test_nobody_leads_before_the_stopped_jvm_is_gone(
    gated: Callable[..., SupervisedJob], coordinator: Coordinator
) -> None:
    job = gated()
    job.stream.feed(2)
    job.submit()
    job.await_committed(1, 1)
    context = job.job._job
    jvm = job.driver()[0]
    python = submit_helpers.pid_in(context, "driver.pid")
    assert "java" in jvm.name()
    assert python is not None
    death = DeathWatch(jvm.pid)
    jvm.suspend()

    os.kill(python, signal.SIGKILL)
    with acquire(
        coordinator,
        context.paths,
        timings=context.config.timings,
        clock=SystemClock(),
        describe=lambda epoch: b"{}",
        timeout=30,
    ) as successor:
        assert death.dead()
        assert successor.epoch == 2


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


def is_executor(process: psutil.Process) -> bool:
    """Whether it is one; the JVM also has children that have ended by now."""
    try:
        return "CoarseGrainedExecutorBackend" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False


@pytest.mark.hours
def test_no_executor_of_a_local_cluster_outlives_the_proof_of_death(gated: Callable[..., SupervisedJob]) -> None:
    job = gated()
    job.master = "local-cluster[1,2,512]"
    job.conf = {"spark.executor.memory": "512m"}
    job.stream.feed(2)
    job.submit()
    job.await_committed(1, 0)
    jvm, *_ = job.driver()
    executors = [process.pid for process in job.driver() if is_executor(process)]
    assert executors

    psutil.Process(jvm.pid).kill()
    exited = wait_until(
        lambda: run.newest.exit if (run := job.job.snapshot().run) and run.newest else None,
        timeout=PATIENCE,
        what="the exit",
    )

    assert set(executors) <= set(exited.pids)
    assert [pid for pid in executors if alive(pid)] == []
