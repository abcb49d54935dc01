"""What the tests on a real Airflow share: an Airflow that notices deaths in seconds, and a job counted in ZooKeeper."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.jobs.drivers.driver_spec import SUBMISSION_VARIABLE
from airflow_provider_ha.jobs.observe import read_status
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.runs.run_store import RunStore
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.testing.waiting import wait_until
from tests.system.harness import processes
from tests.system.harness.rest import AirflowApi, DagRun
from tests.system.harness.servers import REPOSITORY, Servers


PATIENCE = 240.0  # seconds; the machine may do other things as well

_SMALL = {
    "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "3",
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "1",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "12",
    "SPARK_HA_TEST_SCRIPTS": str(REPOSITORY / "tests" / "apps" / "system"),
}
_LOCAL = "airflow.dag_processing.bundles.local.LocalDagBundle"
_TESTS = {"name": "tests", "classpath": _LOCAL, "kwargs": {"path": str(REPOSITORY / "tests" / "system" / "dags")}}
_SHIPPED = {"name": "shipped", "classpath": _LOCAL, "kwargs": {"path": str(REPOSITORY / "dags")}}


class SmallAirflow(Servers):
    """ZooKeeper and Airflow, with the tests' own DAGs and thresholds of seconds.

    :param shipped_dags: Whether it also has the DAGs that we ship.
    :param more: What Airflow has in its environment beside that.
    :param dags: Folder with the DAGs that it has in place of those of the tests.
    """

    def __init__(
        self,
        home: Path,
        *,
        shipped_dags: bool = False,
        more: Mapping[str, str] | None = None,
        dags: Path | None = None,
    ) -> None:
        super().__init__(home)
        self._more = dict(more or {})
        given = {"name": "given", "classpath": _LOCAL, "kwargs": {"path": str(dags)}}
        self._bundles = [given if dags else _TESTS, *([_SHIPPED] if shipped_dags else [])]

    @contextmanager
    def running(self, *dag_ids: str) -> Iterator[SmallAirflow]:
        """Have it up, with these DAGs, for the time of the block; what an interrupted one left is ended first."""
        self.prepare()
        self.control.mkdir()
        try:
            self.start()
            self.wait_until_healthy()
            self.wait_for_dags(*dag_ids)
            yield self
        finally:
            self.stop()

    @property
    def control(self) -> Path:
        """Where tests and tasks leave each other signs."""
        return self.home / "control"

    def environment(self) -> dict[str, str]:
        """Return the environment of each process of Airflow."""
        bundles = {"AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(self._bundles)}
        return super().environment() | _SMALL | bundles | {"SPARK_HA_TEST_CONTROL": str(self.control)} | self._more

    def triggerers(self) -> list[psutil.Process]:
        """Return the processes of every triggerer that runs."""
        return [process for process in processes.of_home(self.home) if "triggerer" in _words(process)]

    def kill_triggerers(self) -> None:
        """Kill every triggerer with SIGKILL, as a host that dies would."""
        gone = self.triggerers()
        for process in gone:
            process.kill()
        wait_until(lambda: not any(map(alive, gone)), timeout=30, what="the triggerer to be gone")

    def sessions_of_triggerers(self) -> int:
        """Return how many connections with ZooKeeper all triggerers together hold."""
        port = int(self.config.zookeeper.rpartition(":")[2])
        return sum(
            connection.status == psutil.CONN_ESTABLISHED and bool(connection.raddr) and connection.raddr.port == port
            for process in self.triggerers()
            for connection in process.net_connections(kind="tcp")
        )


@dataclass(frozen=True, slots=True)
class HeldTask:
    """A task of one DAG run, which can be held at a point of a try."""

    api: AirflowApi
    run: DagRun
    task_id: str
    control: Path

    def hold(self, point: str, attempt: int) -> None:
        """Let try *attempt* wait at *point*. To be called before it gets there."""
        self._sign(point, attempt, "hold").touch()

    def release(self, point: str, attempt: int) -> None:
        """Let it go on."""
        self._sign(point, attempt, "hold").unlink()

    def held(self, point: str, attempt: int) -> int:
        """Wait until try *attempt* is at *point*; return the id of its process."""
        sign = self._sign(point, attempt, "pid")
        what = f"try {attempt} of {self.task_id} to be {point}"
        return int(wait_until(lambda: sign.read_text() if sign.exists() else None, timeout=PATIENCE, what=what))

    def passed(self, point: str, attempt: int) -> bool:
        """Whether try *attempt* came past *point*."""
        return self._sign(point, attempt, "passed").exists()

    def wait_for(self, state: str) -> None:
        """Wait until the task has *state*."""
        self.api.wait_for_task(self.run, self.task_id, state, timeout=PATIENCE)

    def wait_for_try(self, attempt: int, state: str) -> None:
        """Wait until try *attempt* has *state*."""
        what = f"try {attempt} of {self.task_id} to be {state}"
        wait_until(lambda: self._now() == (attempt, state), timeout=PATIENCE, what=what, interval=0.5)

    def wait_until_done_again(self, attempt: int) -> None:
        """Wait until a try later than *attempt* has succeeded. Airflow may need one more than a clear asks for."""

        def done() -> bool:
            number, state = self._now()
            return number > attempt and state == "success"

        wait_until(done, timeout=PATIENCE, what=f"a try of {self.task_id} after {attempt} to succeed", interval=0.5)

    @property
    def attempt(self) -> int:
        """Number of the newest try."""
        return self._now()[0]

    def clear(self) -> None:
        """Do what the Clear button does."""
        body = {"dry_run": False, "dag_run_id": self.run.run_id, "task_ids": [self.task_id], "only_failed": False}
        self.api.request("POST", f"/api/v2/dags/{self.run.dag_id}/clearTaskInstances", json=body)

    def mark_failed(self) -> None:
        """Do what the Mark failed button does."""
        self.api.request("PATCH", self._path, json={"new_state": "failed"})

    @property
    def _path(self) -> str:
        return f"{self.run.path}/taskInstances/{self.task_id}"

    def _now(self) -> tuple[int, str | None]:
        found = self.api.request("GET", self._path)
        return found["try_number"], found["state"]

    def _sign(self, point: str, attempt: int, kind: str) -> Path:
        return self.control / f"{self.run.run_id}-{point}-{attempt}.{kind}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What ZooKeeper has of a job, and what runs on this host."""

    submissions: dict[int, int] = field(default_factory=lambda: {1: 1})
    recoveries: int = 0
    epoch: int = 1
    operations: int = 0
    drivers: int = 1


@dataclass(frozen=True, slots=True)
class CountedJob:
    """One job, as it is counted from outside."""

    coordinator: Coordinator
    paths: JobPaths

    @classmethod
    def of(cls, servers: Servers, coordinator: Coordinator, job_id: str) -> CountedJob:
        """Return a job of the servers' cluster."""
        return cls(coordinator, ClusterPaths(servers.config.root, servers.config.cluster_id).job(job_id))

    def snapshot(self) -> JobStatus:
        """Return what ZooKeeper says of the job now."""
        return read_status(self.coordinator, self.paths)

    def counts(self) -> Counts:
        """Count."""
        runs = RunStore(self.coordinator, self.paths)
        epoch = self.coordinator.find(self.paths.epoch)
        return Counts(
            submissions={number: len(runs.get(number).submissions) for number in runs.numbers()},
            recoveries=len(self.coordinator.children(self.paths.recoveries)),
            epoch=epoch.version if epoch else 0,
            operations=len(self.coordinator.children(self.paths.operations)),
            drivers=len(self.drivers()),
        )

    def operations(self, state: str) -> int:
        """Return how many operations are in *state*."""
        found = operations.list_operations(self.coordinator, self.paths)
        return sum(operation.state.value == state for operation in found)

    def drivers(self) -> list[psutil.Process]:
        """Return the JVMs of all submissions of the job that run."""
        runs = RunStore(self.coordinator, self.paths)
        ids = {view.submission.submission_id for number in runs.numbers() for view in runs.get(number).submissions}
        return [process for process in _carriers(ids) if process.name() == "java"]

    def wait_until_running(self, *, epoch: int = 1) -> None:
        """Wait until the job runs under *epoch* and has a checkpoint of that epoch."""

        def running() -> bool:
            found = self.snapshot()
            return found.epoch == epoch and found.state.value == "RUNNING" and found.latest_checkpoint is not None

        what = f"job {self.paths.job_id} to run under epoch {epoch}"
        wait_until(lambda: self.coordinator.find(self.paths.epoch) and running(), timeout=PATIENCE, what=what)

    def result(self) -> str | None:
        """Return the state that the newest run ended in; ``None`` while it lives."""
        view = self.snapshot().run
        return view.result.state.value if view and view.result else None


def lose_host(job: CountedJob) -> None:
    """Kill the driver and what would start it again: its supervisor, before that can report."""
    [driver] = job.drivers()
    for parent in psutil.Process(driver.pid).parents():
        if "airflow_provider_ha.host.supervisor" in " ".join(parent.cmdline()):
            kill(parent.pid)
    wait_until(lambda: not job.drivers(), timeout=60, what="the driver to die with its supervisor")


def told(api: AirflowApi) -> list[str]:
    """Return what the runs of the DAG ``alerts`` have told until now."""
    found = api.request("GET", "/api/v2/dags/alerts/dagRuns")["dag_runs"]
    over = [DagRun("alerts", each["dag_run_id"]) for each in found if each["state"] == "success"]
    return [text for run in over for text in api.xcom(run, "tell")]


def alive(process: psutil.Process) -> bool:
    """Whether a process exists and can still run."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def kill(pid: int) -> psutil.Process:
    """Kill one process with SIGKILL and wait until it is gone."""
    process = psutil.Process(pid)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not alive(process), timeout=30, what=f"process {pid} to be gone")
    return process


def _words(process: psutil.Process) -> set[str]:
    try:
        return {word for argument in process.cmdline() for word in argument.split()}
    except psutil.Error:
        return set()


def _carriers(submission_ids: set[str]) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        try:
            if alive(process) and process.environ().get(SUBMISSION_VARIABLE) in submission_ids:
                yield process
        except (psutil.Error, OSError):
            continue
