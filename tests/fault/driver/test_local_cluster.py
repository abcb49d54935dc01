"""``local-cluster`` is a local master: its executors are descendants of the JVM, and die with the submission."""

from __future__ import annotations

from collections.abc import Callable

import psutil
import pytest

from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.submit_helpers import alive
from tests.support.spark.driver_helpers import PATIENCE
from tests.support.spark.supervised_job import SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


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
