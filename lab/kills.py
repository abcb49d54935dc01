"""README's DAG on a real Airflow: 30 kills of the driver while the scheduler is stopped, 10 kills of all of Airflow.

Each sitting starts its own Airflow and job; what an earlier sitting has done is not done again. The pauses are
drawn from the number of the kill, so a proof that is repeated does the same.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
from pydantic import BaseModel

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.errors import UnknownJobError
from airflow_provider_ha.testing.waiting import wait_until
from lab.live_drivers import LiveDrivers
from lab.suite import Proof
from tests.system.harness.first_dag import DAG_ID, JOB_ID, FirstDag, Output
from tests.system.harness.observer import JobObserver
from tests.system.harness.rest import DagRun
from tests.system.small_airflow import alive


SCHEDULER, AIRFLOW = "driver, scheduler stopped", "all of Airflow"
LONGEST_PAUSE = 20.0  # seconds
PROMISED = 60.0  # seconds to the next commit
_PATIENCE = 600.0


class Kill(BaseModel):
    """What one kill led to.

    :param pause: Seconds for which the scheduler stood still.
    :param victim: Process of the driver that was killed; empty for none.
    :param seconds: From the kill, or from Airflow being healthy again, to the next commit.
    :param drivers: Most live drivers that were ever seen at once.
    :param dag_run: State of the DAG run afterwards.
    """

    kind: str
    pause: float = 0.0
    victim: str = ""
    seconds: float
    drivers: int
    dag_run: str


class Progress(BaseModel):
    """The kills so far, and how many Airflows they took."""

    kills: list[Kill] = []
    sittings: int = 0
    rows: int = 0
    wrong: list[str] = []


class Kills:
    """The kills, one after the other.

    :param scheduler: Kills of the driver while the scheduler is stopped.
    :param airflow: Kills of all of Airflow; with every second one the driver dies too.
    """

    name = "kills"
    title = "A job comes back without its task"

    def __init__(self, scheduler: int = 30, airflow: int = 10) -> None:
        self.plan = [SCHEDULER] * scheduler + [AIRFLOW] * airflow

    @property
    def about(self) -> str:
        """What is done and what has to hold."""
        return (
            f"The DAG of the README on a real Airflow. {self.plan.count(SCHEDULER)} times the scheduler is stopped,"
            f" a process of the driver is killed, and the scheduler continues after 0 to {LONGEST_PAUSE:.0f} s."
            f" {self.plan.count(AIRFLOW)} times every process of Airflow is killed and Airflow is started again; with"
            " every second one the driver dies too. After each kill the job commits again within"
            f" {PROMISED:.0f} s (of the kill, or of Airflow being healthy again), two drivers are never alive at once,"
            " and the DAG run has not failed. At the end no row is lost or duplicated."
        )

    def run(self, folder: Path, tell: Callable[[str], None]) -> Proof:
        """Do the kills that are left."""
        file = folder / "progress.json"
        progress = Progress.model_validate_json(file.read_bytes()) if file.exists() else Progress()
        if len(progress.kills) < len(self.plan):
            progress.sittings += 1
            with Sitting.open(folder / "airflow") as sitting:
                for number in range(len(progress.kills), len(self.plan)):
                    kill = sitting.kill(self.plan[number], number)
                    progress.kills.append(kill)
                    file.write_text(progress.model_dump_json(indent=2), encoding="utf-8")
                    tell(f"{number + 1} of {len(self.plan)}: {kill.kind}, commits again after {kill.seconds:.1f} s")
                rows, wrong = sitting.rows()
            progress.rows += rows
            progress.wrong += wrong
            file.write_text(progress.model_dump_json(indent=2), encoding="utf-8")
        return Proof(_COLUMNS, _rows(progress), untrue(progress), _remark(progress))


class Sitting:
    """One Airflow with one job."""

    def __init__(self, servers: FirstDag, client: HaClient, run: DagRun, drivers: LiveDrivers) -> None:
        self._servers, self._client, self._run, self._drivers = servers, client, run, drivers
        self._job = JobObserver(servers.config, client.coordinator, JOB_ID)

    @classmethod
    @contextmanager
    def open(cls, home: Path) -> Iterator[Sitting]:
        """Have an Airflow up in *home*, and the job running, for the time of the block."""
        servers = FirstDag(home)
        with servers.running(), HaClient.open(servers.config) as client:
            run = servers.api.trigger(DAG_ID, "proof", {})
            with LiveDrivers(home) as drivers:
                sitting = cls(servers, client, run, drivers)
                sitting.await_commit(-1)
                yield sitting

    def kill(self, kind: str, number: int) -> Kill:
        """Kill, wait for the next commit, and return what was seen."""
        chance = random.Random(number)  # the same pauses each time, no secret
        self._drivers.forget()
        if kind == SCHEDULER:
            pause, victim = chance.uniform(0, LONGEST_PAUSE), chance.choice(["python", "jvm"])
            seconds = self._kill_beside_a_stopped_scheduler(pause, victim)
        else:
            pause, victim = 0.0, ("jvm" if number % 2 else "")
            seconds = self._kill_airflow(victim)
        state = self._servers.api.run_state(self._run)
        most = self._drivers.most
        return Kill(kind=kind, pause=pause, victim=victim, seconds=seconds, drivers=most, dag_run=state)

    def rows(self) -> tuple[int, list[str]]:
        """Stop the job with a checkpoint and compare what it wrote; returns the rows and what is wrong with them."""
        self._client.job(JOB_ID).request_stop(operation_id="proof-is-over", requested_by="proof")
        self._servers.api.wait_for_run(self._run, timeout=_PATIENCE)
        return Output(self._servers.output).compare()

    def await_commit(self, before: int) -> None:
        """Wait until a batch after *before* is committed."""
        wait_until(lambda: _committed(self._job) > before, timeout=_PATIENCE, what="the next commit", interval=0.2)

    def _kill_beside_a_stopped_scheduler(self, pause: float, victim: str) -> float:
        schedulers = self._servers.schedulers()
        for process in schedulers:
            process.suspend()
        try:
            began, before = time.monotonic(), self._kill_driver(victim)
            self._drivers.watch_for(pause)
        finally:
            for process in schedulers:
                process.resume()
        self.await_commit(before)
        return time.monotonic() - began

    def _kill_airflow(self, victim: str) -> float:
        before = _committed(self._job)
        self._servers.kill_airflow()
        if victim:
            before = self._kill_driver(victim)
        self._servers.restart_airflow()
        began = time.monotonic()
        if not victim:
            before = _committed(self._job)
        self.await_commit(before)
        return time.monotonic() - began

    def _kill_driver(self, victim: str) -> int:
        driver, before = self._job.driver(), _committed(self._job)
        process = psutil.Process(driver.python if victim == "python" else driver.jvm)
        process.kill()
        wait_until(lambda: not alive(process), timeout=_PATIENCE, what="the driver to be gone")
        return max(before, _committed(self._job))  # the next driver may be renaming the directory already


def _committed(job: JobObserver) -> int:
    """Return the last committed batch; -1 for none, also while the next driver renames the directory."""
    try:
        return max((found.committed for found in job.progress().values()), default=-1)
    except (UnknownJobError, LookupError, FileNotFoundError):
        return -1


def untrue(progress: Progress) -> list[str]:
    """Return what does not hold. Pure."""
    found = list(progress.wrong)
    for number, kill in enumerate(progress.kills, 1):
        if kill.seconds > PROMISED:
            found.append(f"After kill {number} ({kill.kind}) the next commit took {kill.seconds:.0f} s.")
        if kill.drivers > 1:
            found.append(f"After kill {number} ({kill.kind}) {kill.drivers} drivers were alive at once.")
        if kill.dag_run == "failed":
            found.append(f"After kill {number} ({kill.kind}) the DAG run had failed.")
    return found


_COLUMNS = (
    "kills of",
    "number",
    "pause, s",
    "next commit, median s",
    "longest, s",
    "drivers at once",
    "DAG runs failed",
)


def _rows(progress: Progress) -> list[tuple[str, ...]]:
    return [_row(kind, [kill for kill in progress.kills if kill.kind == kind]) for kind in (SCHEDULER, AIRFLOW)]


def _row(kind: str, kills: Sequence[Kill]) -> tuple[str, ...]:
    seconds = sorted(kill.seconds for kill in kills)
    pauses = [kill.pause for kill in kills]
    failed = sum(kill.dag_run == "failed" for kill in kills)
    return (
        kind,
        str(len(kills)),
        f"{min(pauses, default=0):.1f} to {max(pauses, default=0):.1f}",
        f"{seconds[len(seconds) // 2]:.1f}" if seconds else "",
        f"{seconds[-1]:.1f}" if seconds else "",
        str(max((kill.drivers for kill in kills), default=0)),
        str(failed),
    )


def _remark(progress: Progress) -> str:
    jobs = "one job" if progress.sittings == 1 else f"{progress.sittings} jobs, one a sitting"
    return f"{progress.rows:,} rows of {jobs} were compared."
