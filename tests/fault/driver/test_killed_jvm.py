"""The JVM of a job that works is killed, as by a host without memory: it goes on at once, and says why."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from airflow_provider_ha.host.supervisor.in_place import BY
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.variables import variables_of
from tests.support.spark.driver_helpers import PATIENCE
from tests.support.spark.supervised_job import SupervisedJob, terminate_and_compare


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


def test_a_killed_jvm_is_replaced_in_its_place_and_its_signal_is_told(gated: Callable[..., SupervisedJob]) -> None:
    job = gated("windows", "rows")
    job.options = HaOptions(checkpoint_interval=0)
    job.stream.feed(2)
    job.submit()
    job.await_committed(1, 1)
    job.await_alive(lambda: job.job.snapshot().state is JobState.RUNNING, "the job to be RUNNING")
    supervisor, jvm, python = job.supervisor(), job.jvm(), job.python()

    supervisor.suspend()  # it is later than Python's threads, which meet a broken connection
    jvm.kill()
    wait_until(lambda: python.status() == psutil.STATUS_ZOMBIE, timeout=PATIENCE, what="the end of Python")
    supervisor.resume()

    run = wait_until(
        lambda: run if (run := job.job.snapshot().run) and len(run.submissions) == 2 else None,
        timeout=PATIENCE,
        what="the next attempt",
    )
    assert run is not None
    lost, following = run.submissions
    assert lost.exit is not None
    assert following.submission.requested_by.startswith(BY)
    assert (following.submission.created_at - lost.exit.at).total_seconds() < 1, "there is no delay"
    told = (
        "the JVM was killed by signal 9 (SIGKILL); unless a person sent it, the host was out of memory "
        f"(pid {jvm.pid}, exit status 137)"
    )
    assert (lost.exit.reason, lost.exit.failure) == (told, None)
    command = [str(Path(sys.executable).with_name("spark-ha")), "job", "show", "gated"]
    shown = subprocess.run(
        command, env=os.environ | variables_of(job.client.config), check=True, capture_output=True, text=True
    )
    assert "signal 9 (SIGKILL)" in shown.stdout
    assert "exit status 137" in shown.stdout
    assert "BrokenPipe" not in shown.stdout

    job.stream.feed(1)
    job.await_read(2)
    terminate_and_compare(job, 3)
