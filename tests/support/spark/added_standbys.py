"""A standby driver beside the jobs of tests that know nothing of it.

``make proof SUITE=standbys`` sets the variable for the fault tests of drivers, and kills the standby drivers;
``SUITE=standbys-alive`` lets them live, so that they take over. A standby driver can only help: the tests pass as
without one.
"""

from __future__ import annotations

import os
import threading

from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.errors import HaError
from airflow_provider_ha.jobs.options.job_options import HaOptions
from tests.support.clusters.submit_helpers import kill_standbys


ADDED_STANDBY = "SPARK_HA_TEST_ADDED_STANDBY"
"""Seconds between two kills of it, 0 for none; without the variable a job has the standby drivers of its options."""


def with_standby(options: HaOptions) -> HaOptions:
    """Return the options of a job with a standby driver, if the tests run beside one."""
    return options.model_copy(update={"standby_drivers": 1}) if ADDED_STANDBY in os.environ else options


def keep_killing(job: JobClient) -> None:
    """Kill the standby drivers of a job from now on until the client is closed, if the tests run beside a dying one."""
    if seconds := float(os.environ.get(ADDED_STANDBY, "0")):
        threading.Thread(target=_kill, args=(job, seconds), name="killer of standby drivers", daemon=True).start()


def _kill(job: JobClient, seconds: float) -> None:
    pause = threading.Event()
    while not pause.wait(seconds):
        try:
            job.snapshot()
        except HaError:
            return  # the client is closed, and so is the test
        kill_standbys(job._job)
