"""What the phases of the demo share: the servers, the feeder, the truth, and the jobs as they are seen from outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from airflow_provider_ha.checkpoints.areas.open_work_area import open_work_area
from airflow_provider_ha.checkpoints.areas.work_area import WorkArea
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.testing.waiting import wait_until
from tests.system.harness.feeder import Feeder
from tests.system.harness.flights import data_file
from tests.system.harness.observer import JobObserver
from tests.system.harness.outputs import LocalOutput, Output
from tests.system.harness.report import Report
from tests.system.harness.rest import DagRun
from tests.system.harness.servers import Servers
from tests.system.harness.truth import Truth, compute


MAIN_JOB = "flight_delays"

_CATCH_UP_SECONDS = 600


class Stage:
    """Where the demo happens.

    :param say: Prints one line.
    :param data: Directory of the input, the outputs and the flights themselves (``flights.csv``).
    """

    def __init__(
        self, servers: Servers, feeder: Feeder, report: Report, say: Callable[[str], None], data: Path
    ) -> None:
        self.servers = servers
        self.feeder = feeder
        self.report = report
        self.say = say
        self.data = data
        self.inbox = data / "in"
        self.savepoint = ""
        self._main_run: DagRun | None = None
        self._coordinator: KazooCoordinator | None = None
        self._area: WorkArea | None = None
        self._numbers = count(1)

    def close(self) -> None:
        """End the observer's session."""
        if self._coordinator is not None:
            self._coordinator.close()

    @property
    def spark_conn_id(self) -> str:
        """Connection of the cluster that runs the drivers; empty: the host of the task runs them."""
        return ""

    @property
    def main_run(self) -> DagRun:
        """The DAG run that follows the main job: first its submission, then its restore."""
        if self._main_run is None:
            message = "the main job was not submitted yet"
            raise LookupError(message)
        return self._main_run

    @main_run.setter
    def main_run(self, run: DagRun) -> None:
        self._main_run = run

    def output_path(self, job_id: str) -> str:
        """Output of the hourly statistics of a job, as its script names it."""
        return str(self._of(job_id) / "hourly")

    def output(self, job_id: str) -> Output:
        """Return the hourly statistics of a job."""
        return LocalOutput(Path(self.output_path(job_id)))

    def table(self, job_id: str) -> Path:
        """SQLite file of the long delays of a job."""
        return self._of(job_id) / "long_delays.db"

    def job(self, job_id: str = MAIN_JOB) -> JobObserver:
        """Return a look at a job."""
        if self._coordinator is None:
            self._coordinator = KazooCoordinator.connect(self.servers.config)
            self._area = open_work_area(self.servers.config)
        return JobObserver(self.servers.config, self._coordinator, job_id, self._area)

    def start_dag(self, dag_id: str, conf: Mapping[str, Any]) -> DagRun:
        """Start a DAG run; its id says which of the demo's runs it is."""
        return self.servers.api.trigger(dag_id, f"demo-{next(self._numbers)}", conf)

    def run_dag(self, dag_id: str, conf: Mapping[str, Any], *, timeout: float = 600) -> DagRun:
        """Start a DAG run and wait for its success.

        :raises DagRunFailedError: It failed.
        """
        run = self.start_dag(dag_id, conf)
        self.servers.api.wait_for_run(run, timeout=timeout)
        return run

    def wait_until_read(self, job_id: str, days: int) -> None:
        """Wait until every query of a job has read and committed the files of *days* days."""
        job = self.job(job_id)
        what = f"{job_id} to have read {days} days"

        def caught_up() -> bool:
            return min(job.files_read().values(), default=0) >= days

        wait_until(caught_up, timeout=_CATCH_UP_SECONDS, what=what, interval=0.2)

    def truth(self, days: int) -> Truth:
        """Compute the right answer for the first *days* days."""
        return compute(self.data / "flights.csv", data_file("airlines.csv"), days=days)

    def _of(self, job_id: str) -> Path:
        directory = self.data / job_id
        directory.mkdir(exist_ok=True)
        return directory
