"""A real driver whose Python is killed while its JVM is stopped: a JVM that could go on must not meet a new leader."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.election import acquire
from airflow_provider_ha.host.process_tree import DeathWatch
from tests.support.clusters import submit_helpers
from tests.support.spark.supervised_job import SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]


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
