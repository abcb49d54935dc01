"""The ways to run one script and to start it again that ``benchmarks/failover.py`` compares."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Protocol

import psutil

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.driver.spark_conf import FORMAT_VERSION, PROVIDER, ROCKSDB
from airflow_provider_ha.jobs.drivers.spark_release import find_spark_home
from airflow_provider_ha.jobs.model import Generation
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import JobSpec
from airflow_provider_ha.jobs.runs.standbys import StandbyStore
from airflow_provider_ha.testing.waiting import wait_until
from tests.system.small_airflow import SmallAirflow


REPOSITORY = Path(__file__).parents[1]
SCRIPT = REPOSITORY / "tests" / "apps" / "system" / "keyed_count.py"
QUERY = "counts"
PATIENCE = 300.0
CONF = {"spark.sql.shuffle.partitions": "4", "spark.ui.enabled": "false"}


class Side(Protocol):
    """One way to run the script and to start it again."""

    name: str

    def start(self, job_id: str) -> None:
        """Start a fresh job."""

    def driver(self) -> psutil.Process:
        """Return the Python of its driver."""

    def checkpoint(self) -> Path | None:
        """Return the checkpoint directory of its query; ``None`` while there is none."""

    def stop(self) -> None:
        """End the job and all its processes."""


class ByHand:
    """``while :; do spark-submit ...; done``."""

    name = "by hand: a loop around spark-submit"

    def __init__(self, folder: Path, arguments: list[str]) -> None:
        self._folder = folder
        self._arguments = arguments
        self._place = folder

    def start(self, job_id: str) -> None:
        """Start the loop."""
        self._place = self._folder / job_id
        conf = CONF | {
            "spark.sql.streaming.checkpointLocation": self._place.as_uri(),
            PROVIDER: ROCKSDB,
            FORMAT_VERSION: "2",
        }
        options = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
        submit = [str(find_spark_home(None) / "bin" / "spark-submit"), "--master", "local[2]", "--driver-memory", "1g"]
        words = [*submit, *options, str(SCRIPT), *self._arguments]
        environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        with (self._folder / f"{job_id}.log").open("wb") as log:
            self._loop = subprocess.Popen(
                ["/bin/sh", "-c", 'while :; do "$@"; done', "sh", *words],
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def driver(self) -> psutil.Process:
        """Return the child of the JVM that runs the script."""
        below = psutil.Process(self._loop.pid).children(recursive=True)
        return next(each for each in below if _runs_the_script(each))

    def checkpoint(self) -> Path | None:
        """Return the directory, always the same one."""
        return self._place / QUERY

    def stop(self) -> None:
        """Kill the loop and everything in it."""
        os.killpg(self._loop.pid, signal.SIGKILL)
        self._loop.wait()


def _runs_the_script(process: psutil.Process) -> bool:
    try:
        return str(SCRIPT) in process.cmdline() and process.name().startswith("python")
    except psutil.Error:  # one that has just ended
        return False


class Managed:
    """A job of this package, recovered by ``spark-ha cluster recover --watch``."""

    name = "ours, spark-ha cluster recover --watch"
    options = HaOptions()

    def __init__(self, client: HaClient, arguments: list[str]) -> None:
        self._client = client
        self._arguments = arguments
        self._job_id = ""

    def start(self, job_id: str) -> None:
        """Submit the job."""
        self._job_id = job_id
        self._submit()

    def driver(self) -> psutil.Process:
        """Return the leader."""
        return wait_until(self._leader, timeout=PATIENCE, what=f"a leader of {self._job_id}")

    def _leader(self) -> psutil.Process | None:
        leader = self._client.job(self._job_id).snapshot().leader
        return None if leader is None else psutil.Process(leader.pid)

    def checkpoint(self) -> Path | None:
        """Return the query's directory in the working directory that is current."""
        node = self._client.coordinator.find(self._client.paths.job(self._job_id).generation)
        if node is None:
            return None
        directory = Generation.from_bytes(node.data, source=node.path).directory
        return self._client.config.work_path / directory / QUERY

    def stop(self) -> None:
        """Cancel the job, and wait for the proof that all of it is dead."""
        job = self._client.job(self._job_id)
        job.request_cancel(operation_id=f"end-{self._job_id}", requested_by="benchmark")

        def over() -> bool:
            run = job.snapshot().run
            return run is not None and run.result is not None and run.newest is not None and run.newest.exit is not None

        wait_until(over, timeout=PATIENCE, what=f"the end of {self._job_id}")

    def _submit(self) -> None:
        self._client.job(self._job_id).submit(
            JobSpec(
                job_id=self._job_id,
                request_id="benchmark",
                application=str(SCRIPT),
                arguments=self._arguments,
                conf=CONF,
                master="local[2]",
                driver_memory="1g",
                ha=self.options,
            )
        )


class WithStandby(Managed):
    """As before, with a standby driver that is ready at the kill."""

    name = "ours, with a standby driver"
    options = HaOptions(standby_drivers=1)

    def start(self, job_id: str) -> None:
        """Submit the job, under another name than the others of its round."""
        super().start(f"standby-{job_id}")

    def driver(self) -> psutil.Process:
        """Return the leader, once the standby driver is ready."""
        wait_until(self._standbys().is_ready, timeout=PATIENCE, what=f"a standby driver of {self._job_id}")
        return super().driver()

    def stop(self) -> None:
        """End the job, and wait until no standby driver is left."""
        super().stop()
        wait_until(
            lambda: not self._standbys().ids(), timeout=PATIENCE, what=f"the end of the standby of {self._job_id}"
        )

    def _standbys(self) -> StandbyStore:
        return StandbyStore(self._client.coordinator, self._client.paths.job(self._job_id), 1)


class ThroughAirflow(Managed):
    """As before, submitted and recovered by a task."""

    name = "ours, through Airflow"

    def __init__(self, airflow: SmallAirflow, client: HaClient, arguments: list[str]) -> None:
        super().__init__(client, arguments)
        self._airflow = airflow

    def _submit(self) -> None:
        asked = {"job_id": self._job_id, "arguments": self._arguments, "conf": CONF}
        self._airflow.api.trigger("failover", f"run-{self._job_id}", asked)
