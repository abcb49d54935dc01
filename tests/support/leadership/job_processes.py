"""Starts and ends the drivers without Spark (``job_process.py``), and reads what they wrote down."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, SessionCredentials
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.jobs.drivers.driver_spec import read_session
from airflow_provider_ha.jobs.graph_store import JobGraphStore
from airflow_provider_ha.jobs.job_graph import GraphPointer
from airflow_provider_ha.storage.open_storage import open_store
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.jobs_helpers import BLOB, submit
from tests.support.leadership.history import Event, read
from tests.support.leadership.job_process import Order


SCRIPT = Path(__file__).with_name("job_process.py")
ROOT = Path(__file__).parents[3]
PATIENCE = 30.0  # seconds: T and a busy machine


class JobProcess:
    """One driver without Spark, in a separate process.

    :param config: The cluster as this process reaches it.
    :param folder: Where the histories of all processes lie.
    :param options: Fields of ``job_process.Order``.
    """

    def __init__(self, config: HaConfig, folder: Path, actor: str, *, job_id: str, **options: Any) -> None:
        self.actor = actor
        self._folder = folder
        order = Order(
            config=json.loads(config.to_private_json()), folder=str(folder), actor=actor, job_id=job_id, **options
        )
        with (folder / f"{actor}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(SCRIPT)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                env={"PYTHONPATH": str(ROOT)},
            )
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(asdict(order)).encode())
        self.process.stdin.close()

    @property
    def events(self) -> list[Event]:
        """What it wrote down so far."""
        return [event for event in read(self._folder) if event.actor == self.actor]

    @property
    def credentials(self) -> SessionCredentials:
        """Its session, for the process that has proven its death."""
        found = read_session(self._folder / f"{self.actor}.session")
        assert found is not None
        return found

    def await_event(self, kind: str, *, timeout: float = PATIENCE) -> Event:
        """Wait until something happened to it; returns the newest event of that kind."""
        return self.await_events(kind, 1, timeout=timeout)[-1]

    def await_events(self, kind: str, count: int, *, timeout: float = PATIENCE) -> list[Event]:
        """Wait until something happened to it *count* times."""

        def found() -> list[Event] | None:
            events = [event for event in self.events if event.kind == kind]
            return events if len(events) >= count else None

        return wait_until(found, timeout=timeout, what=f"{count} x {kind!r} of {self.actor}")

    def last_committed(self) -> int:
        """Number of the newest checkpoint that was acknowledged to it."""
        return max((event["number"] for event in self.events if event.kind == "committed"), default=0)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """Kill it; it is dead when this returns."""
        self.process.kill()
        self.process.wait()

    def wait(self) -> int:
        """Wait for its end; returns its exit code."""
        return self.process.wait(PATIENCE)


def submit_job(config: HaConfig, coordinator: Coordinator, paths: JobPaths, *, run: int = 1) -> None:
    """Make a run with its first submission and its graph pointer."""
    submit(coordinator, paths, run)
    graphs = JobGraphStore(coordinator, open_store(config), paths)
    coordinator.commit(graphs.pointer_op(GraphPointer(graph=BLOB, run=run)))


def resubmit(coordinator: Coordinator, paths: JobPaths, *, attempt: int, run: int = 1) -> None:
    """Make the next submission of a run, as a recovery does."""
    submit(coordinator, paths, run, attempt)
