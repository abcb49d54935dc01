"""The driver's real entry under a parent that is killed, before there is any ZooKeeper or Spark to notice it by."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.driver.ending.exit_reason import RESERVE_FILE, read_failure
from airflow_provider_ha.jobs.drivers.driver_home import Ticket
from airflow_provider_ha.jobs.drivers.driver_spec import SPEC_VARIABLE, DriverSpec
from airflow_provider_ha.jobs.job_graph import Blob
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.submit_helpers import alive
from tests.support.spark.driver_helpers import BOOTSTRAP


def test_a_driver_that_still_waits_for_zookeeper_ends_with_its_jvm(tmp_path: Path) -> None:
    spec = DriverSpec(
        config=HaConfig.build(zookeeper="127.0.0.1:1", storage_root=f"file://{tmp_path}/storage"),
        ticket=Ticket(job_id="flights", run=1, attempt=1, submission_id=new_id(), graph=Blob(sha256="0" * 64, size=0)),
        directory=tmp_path,
    )
    jvm = subprocess.Popen(
        ["sh", "-c", f"{sys.executable} {BOOTSTRAP} & echo $!; wait"],
        env=os.environ | {SPEC_VARIABLE: str(spec.write())},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert jvm.stdout is not None
    driver = int(jvm.stdout.readline())
    try:
        wait_until((tmp_path / RESERVE_FILE).exists, timeout=20, what="the driver to begin, with room for a reason")

        jvm.kill()
        jvm.wait()

        wait_until(lambda: not alive(driver), timeout=5, what="the end of the driver")
        assert read_failure(tmp_path) == f"the JVM (pid {jvm.pid}) is gone"
    finally:
        jvm.stdout.close()
        jvm.kill()
        if alive(driver):
            os.kill(driver, signal.SIGKILL)
