"""A standby driver that never lives long, beside the jobs of tests that know nothing of it.

``make proof SUITE=standbys`` sets the variable for the fault tests of drivers. A standby driver can only help, so they
pass as without one.
"""

from __future__ import annotations

import os
import threading

from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.errors import HaError
from airflow_provider_ha.jobs.options.job_options import HaOptions
from tests.support.clusters.submit_helpers import kill_standbys


KILL_STANDBYS = "SPARK_HA_TEST_KILL_STANDBYS"
"""Seconds between two kills; without the variable a job has the standby drivers of its options."""


def with_standby(options: HaOptions) -> HaOptions:
    """Return the options of a job with a standby driver, if the tests run beside one that dies."""
    return options.model_copy(update={"standby_drivers": 1}) if KILL_STANDBYS in os.environ else options


def keep_killing(job: JobClient) -> None:
    """Kill the standby drivers of a job from now on until the client is closed, if the tests run beside one."""
    if KILL_STANDBYS in os.environ:
        seconds = float(os.environ[KILL_STANDBYS])
        threading.Thread(target=_kill, args=(job, seconds), name="killer of standby drivers", daemon=True).start()


def _kill(job: JobClient, seconds: float) -> None:
    pause = threading.Event()
    while not pause.wait(seconds):
        try:
            job.snapshot()
        except HaError:
            return  # the client is closed, and so is the test
        kill_standbys(job._job)
