"""The ways to run one script and to start it again that ``benchmarks/failover.py`` compares."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.areas.work_area import WorkArea
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.object_tree import ObjectTree
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.driver.spark_conf import FORMAT_VERSION, PROVIDER, ROCKSDB
from airflow_provider_ha.host.archives.archive_store import ArchiveStore
from airflow_provider_ha.host.archives.driver_launch import driver_launch
from airflow_provider_ha.jobs.drivers.driver_home import DriverHome
from airflow_provider_ha.jobs.drivers.spark_release import find_spark_home
from airflow_provider_ha.jobs.model import Generation
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import JobSpec
from airflow_provider_ha.jobs.runs.standbys import StandbyStore
from airflow_provider_ha.testing.waiting import wait_until
from benchmarks.component_batches import SPARK
from benchmarks.component_batches import conf as s3_conf
from tests.support.s3.s3_server import S3Access
from tests.support.spark.layered_job import s3a_class_path
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

    def committed(self) -> int:
        """Return the highest committed batch of its query; -1 for none."""

    def started_at(self) -> float:
        """Return when the newest driver started its query, in seconds since 1970; not a number if it is not known."""

    def stop(self) -> None:
        """End the job and all its processes."""


@dataclass(frozen=True)
class SlowStore:
    """An S3 server behind a proxy that delays each answer.

    :param endpoint: URL of the proxy.
    :param area: The working directories of the jobs, without the proxy.
    """

    s3: S3Access
    endpoint: str
    area: WorkArea


class ByHand:
    """``while :; do spark-submit ...; done``."""

    name = "by hand: a loop around spark-submit"

    def __init__(
        self, folder: Path, arguments: list[str], store: SlowStore | None = None, *, script: Path = SCRIPT
    ) -> None:
        self._script = script
        self._folder = folder
        self._arguments = arguments
        self._store = store
        self._tree: Tree = LocalTree(folder)

    def start(self, job_id: str) -> None:
        """Start the loop."""
        place, self._tree = (self._folder / job_id).as_uri(), LocalTree(self._folder / job_id / QUERY)
        conf = CONF | {PROVIDER: ROCKSDB, FORMAT_VERSION: "2"}
        if self._store is not None:
            bucket = self._store.s3.new_bucket()
            place, self._tree = f"s3a://{bucket}/prefix/cluster", ObjectTree(self._store.s3.store(bucket), f"{QUERY}/")
            conf |= s3_conf(SPARK, self._store.s3, self._store.endpoint, bucket) | CONF
        conf["spark.sql.streaming.checkpointLocation"] = place
        options = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
        submit = [str(find_spark_home(None) / "bin" / "spark-submit"), "--master", "local[2]", "--driver-memory", "1g"]
        words = [*submit, *options, str(self._script), *self._arguments]
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
        return next(each for each in below if self._runs_the_script(each))

    def started_at(self) -> float:
        """Return no number: nothing tells when the query started."""
        return math.nan

    def committed(self) -> int:
        """Return the highest committed batch, always in the same directory."""
        return progress(self._tree).committed

    def stop(self) -> None:
        """Kill the loop and everything in it."""
        os.killpg(self._loop.pid, signal.SIGKILL)
        self._loop.wait()

    def terminate(self) -> None:
        """Ask the JVM to end, and wait until all its processes have ended."""
        processes = psutil.Process(self._loop.pid).children(recursive=True)
        jvm = psutil.Process(self.driver().ppid())
        self._loop.kill()
        self._loop.wait()
        jvm.terminate()
        psutil.wait_procs(processes, timeout=PATIENCE)

    def _runs_the_script(self, process: psutil.Process) -> bool:
        try:
            return str(self._script) in process.cmdline() and process.name().startswith("python")
        except psutil.Error:  # one that has just ended
            return False


class Managed:
    """A job of this package, recovered by ``spark-ha cluster recover --watch``."""

    name = "ours, spark-ha cluster recover --watch"
    options = HaOptions(class_archive=False)

    def __init__(
        self, client: HaClient, arguments: list[str], store: SlowStore | None = None, *, script: Path = SCRIPT
    ) -> None:
        self._script = script
        self._client = client
        self._arguments = arguments
        self._job_id = ""
        self._conf = CONF if store is None else CONF | s3a_class_path()
        self._area = client.area if store is None else store.area

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

    def started_at(self) -> float:
        """Return when the newest driver started its query, in seconds since 1970; not a number if it is not known."""
        run = self._client.job(self._job_id).snapshot().run
        newest = run.newest if run is not None else None
        if newest is None or newest.started is None:
            return math.nan
        at = DriverHome(Path(newest.started.handle.log_path).parent).start_times().started_at
        return at.timestamp() if at is not None else math.nan

    def committed(self) -> int:
        """Return the highest committed batch in the working directory that is current."""
        node = self._client.coordinator.find(self._client.paths.job(self._job_id).generation)
        if node is None:
            return -1
        directory = Generation.from_bytes(node.data, source=node.path).directory
        return progress(self._area.tree(directory) / QUERY).committed

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
                application=str(self._script),
                arguments=self._arguments,
                conf=self._conf,
                master="local[2]",
                driver_memory="1g",
                ha=self.options,
            )
        )


class WithArchive(Managed):
    """As before, with a class archive that was made before."""

    name = "ours, with a class archive"
    options = HaOptions()

    def start(self, job_id: str) -> None:
        """Make the archive once, and submit the job under another name than the others of its round."""
        home = find_spark_home(None)
        call = [str(home / "bin" / "spark-submit"), "--properties-file", "/dev/null", "script.py"]
        environment = {**os.environ, "SPARK_HOME": str(home)}
        store = ArchiveStore.of(self._client.config)
        if (training := driver_launch(call, environment, store, enabled=True).training) is not None:
            training.run(store, environment)
        super().start(f"archive-{job_id}")


class WithStandby(Managed):
    """As before, with a standby driver that is ready at the kill."""

    name = "ours, with a standby driver"
    options = HaOptions(standby_drivers=1, class_archive=False)

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

    def waiting(self) -> list[psutil.Process]:
        """Return Python and JVM of the standby driver that waits."""
        (found,) = self._standbys().living()
        python = psutil.Process(found.pid)
        return [python, psutil.Process(python.ppid())]

    def _standbys(self) -> StandbyStore:
        return StandbyStore(self._client.coordinator, self._client.paths.job(self._job_id), 1)


class WithHandOver(WithStandby):
    """As before, with a driver that hands over between two batches."""

    name = "ours, a hand-over"

    def start(self, job_id: str) -> None:
        """Submit the job, under another name than the others of its round."""
        super().start(f"hand-over-{job_id}")

    def epoch(self) -> int:
        """Return the epoch of the newest leader."""
        return self._client.job(self._job_id).snapshot().epoch

    def hand_over(self) -> None:
        """Request the hand-over."""
        self._client.job(self._job_id).request_hand_over(
            operation_id=f"hand-over-{self._job_id}", requested_by="benchmark"
        )


class ThroughAirflow(Managed):
    """As before, submitted and recovered by a task."""

    name = "ours, through Airflow"

    def __init__(self, airflow: SmallAirflow, client: HaClient, arguments: list[str]) -> None:
        super().__init__(client, arguments)
        self._airflow = airflow

    def _submit(self) -> None:
        asked = {"job_id": self._job_id, "arguments": self._arguments, "conf": CONF}
        self._airflow.api.trigger("failover", f"run-{self._job_id}", asked)
