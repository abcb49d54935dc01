"""What tests of the cluster's leader share: jobs with real graphs, and an engine that only remembers its launches."""

from __future__ import annotations

import os
import socket
from datetime import datetime
from pathlib import Path
from typing import Any

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.clock import Clock, SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, SetData
from airflow_provider_ha.coordination.election import acquire
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.coordination.znode_records import read_record
from airflow_provider_ha.fleet.reconciler import ReconcileTimings
from airflow_provider_ha.host.engines.engine import Observation, RunningSubmission
from airflow_provider_ha.host.engines.registry import Engines
from airflow_provider_ha.jobs.drivers.driver_home import Ticket
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.model import JobState, LeaderInfo, RunResult
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import JobSpec
from airflow_provider_ha.jobs.runs.submissions import DriverHandle, Failure, SubmissionExit, SubmissionStarted
from tests.engine_helpers import NothingToSee, handle
from tests.support.clusters.jobs_helpers import StandingClock


AT_ONCE = ReconcileTimings(debounce=0.0, replenish=0.0, start_timeout=600.0, poll=0.05)


class RecordingEngine(NothingToSee):
    """Starts nothing: one line per launch, in a file that several processes may share."""

    name = "local"

    def __init__(self, record: Path) -> None:
        self.record = record
        self.says_running = False

    def launch(self, ticket: Ticket, reserved: DriverHandle | None) -> DriverHandle:
        line = f"{ticket.job_id} {ticket.attempt} {ticket.submission_id} {os.getpid()}\n"
        with self.record.open("a") as stream:
            stream.write(line)
        return _handle()

    def seen(self, submission_id: str, handle: DriverHandle | None) -> Observation:
        if self.says_running or (handle is None and any(submission_id in line for line in self.lines())):
            return RunningSubmission(_handle())
        return super().seen(submission_id, handle)

    def lines(self) -> list[str]:
        return self.record.read_text().splitlines() if self.record.exists() else []

    def launches(self) -> list[tuple[str, int]]:
        """Return (job, attempt) of every launch."""
        return [(line.split()[0], int(line.split()[1])) for line in self.lines()]


def _handle() -> DriverHandle:
    return handle(host=socket.gethostname(), pid=os.getpid())


class Cluster:
    """A cluster with jobs in every condition that its leader has to tell apart.

    :param root: Directory for the applications and for the engine's record.
    """

    def __init__(self, config: HaConfig, coordinator: Coordinator, root: Path, *, clock: Clock | None = None) -> None:
        self.config = config
        self.coordinator = coordinator
        self.engine = RecordingEngine(root / "launches")
        self.client = self.open(coordinator, clock=clock)
        self._application = root / "application" / "app.py"
        self._application.parent.mkdir()

    def open(self, coordinator: Coordinator, *, clock: Clock | None = None) -> HaClient:
        """Return a client of the cluster with another session."""
        return HaClient(self.config, coordinator, engines=Engines.only(self.engine), clock=clock)

    def context(self, job_id: str) -> JobContext:
        return self.client.context(job_id)

    def paths(self, job_id: str) -> JobPaths:
        return self.client.paths.job(job_id)

    def submitted(self, job_id: str, **options: Any) -> JobContext:
        """Make a job whose first submission is started and does not lead yet."""
        self.client.job(job_id).submit(self.request(job_id, **options))
        return self.context(job_id)

    def request(self, job_id: str, **options: Any) -> JobSpec:
        self._application.write_text(f"print({job_id!r})\n")
        settings = {"restart_delay": 0.0} | options
        return JobSpec(
            job_id=job_id, request_id="request", application=str(self._application), ha=HaOptions(**settings)
        )

    def exited(self, job_id: str, **options: Any) -> JobContext:
        """Make a job whose driver is proven dead before it ever led."""
        job = self.submitted(job_id, **options)
        self.exit(job_id)
        return job

    def refuse(self, job_id: str, reason: str) -> None:
        """Let the supervisor of the newest submission of a job report why it has started no driver."""
        job, view = self.context(job_id), self.context(job_id).runs.latest()
        assert view is not None
        assert view.newest is not None
        path = job.paths.submission_started(view.run.number, view.newest.submission.attempt)
        found = read_record(self.coordinator, path, SubmissionStarted)
        assert found is not None
        self.coordinator.commit(SetData(path, found[0].model_copy(update={"refused": reason}).to_bytes(), found[1]))

    def exit(
        self, job_id: str, failure: Failure | None = None, *, at: datetime | None = None, decision: str = ""
    ) -> None:
        """Prove the newest submission of a job dead, since *at*; it has committed a batch."""
        job, view = self.context(job_id), self.context(job_id).runs.latest()
        assert view is not None
        assert view.newest is not None
        at = at or SystemClock().now()
        gone = SubmissionExit(
            code=-9, reason="killed", failure=failure, decision=decision, started=True, committed=True, at=at
        )
        path = job.paths.submission_exit(view.run.number, view.newest.submission.attempt)
        self.coordinator.commit(Create(path, gone.to_bytes()))

    def led(self, job_id: str, coordinator: Coordinator, **options: Any) -> Leadership:
        """Make a job that is led by *coordinator*'s session."""
        if job_id not in self.client.list_jobs():
            self.submitted(job_id, **options)
        return lead_newest(self.config, coordinator, self.context(job_id))

    def lost(self, job_id: str, **options: Any) -> JobContext:
        """Make a job whose leader has vanished without a word."""
        self.led(job_id, self.coordinator, **options).release()
        return self.context(job_id)

    def ended(self, job_id: str, state: Any = JobState.FINISHED, *, keep_pointer: bool = False) -> JobContext:
        """Make a job with a DIRTY result, as a driver leaves it that dies before its clean-up."""
        leadership, job = self.led(job_id, self.coordinator), self.context(job_id)
        result = RunResult(state=state, epoch=leadership.epoch, at=SystemClock().now())
        removal = [] if keep_pointer else [job.graphs.remove_op(1)]
        leadership.commit(job.runs.result_op(1, result), *(op for op in removal if op is not None))
        leadership.release()
        return job

    def attempts(self, job_id: str) -> list[int]:
        """Return the submissions of the newest run."""
        view = self.context(job_id).runs.latest()
        return [] if view is None else [each.submission.attempt for each in view.submissions]


def lead_newest(config: HaConfig, coordinator: Coordinator, job: JobContext) -> Leadership:
    """Take the job's lock as the driver of its newest submission, for as long as the session lives."""
    view = job.runs.latest()
    assert view is not None
    attempt = view.newest.submission.attempt if view.newest else 0

    def describe(epoch: int) -> bytes:
        since = SystemClock().now()
        info = LeaderInfo(epoch=epoch, run=view.run.number, attempt=attempt, host="host", pid=1, since=since)
        return info.to_bytes()

    return acquire(coordinator, job.paths, timings=config.timings, clock=StandingClock(), describe=describe, timeout=10)
