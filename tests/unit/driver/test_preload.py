"""What a driver of Spark needs is made ready before the lock is granted, not under it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.driver.ending.exit_reason import ExitCode, read_failure
from airflow_provider_ha.jobs.drivers.driver_home import Ticket
from airflow_provider_ha.jobs.drivers.driver_spec import SPEC_VARIABLE, DriverSpec
from airflow_provider_ha.jobs.job_graph import Blob


# The real entry of the driver; only the wait for the lock is replaced, by a wait for the import.
PROGRAM = """
import sys
from airflow_provider_ha.driver import main as driver
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.testing.waiting import wait_until

def lead(spec, clock):
    wait_until(lambda: "pyspark.sql.streaming.readwriter" in sys.modules, timeout=60, what="the import of pyspark")
    raise JobStateError("pyspark was imported while the lock was waited for")

assert "pyspark" not in sys.modules
driver.lead = lead
driver.main()
"""


def test_pyspark_is_imported_while_the_lock_is_waited_for(tmp_path: Path) -> None:
    spec = DriverSpec(
        config=HaConfig.build(zookeeper="127.0.0.1:1", storage_root=f"file://{tmp_path}/storage"),
        ticket=Ticket(job_id="flights", run=1, attempt=1, submission_id=new_id(), graph=Blob(sha256="0" * 64, size=0)),
        directory=tmp_path,
    )
    environment = os.environ | {SPEC_VARIABLE: str(spec.write())}

    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, check=False)

    assert done.returncode == ExitCode.NOT_ADMITTED, done.stderr.decode()
    assert "imported while the lock was waited for" in (read_failure(tmp_path) or "")
