"""A job whose drivers run on a standalone cluster, with a stand-in for ``spark-submit``."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from airflow_provider_ha.host.engines.engine import GoneSubmission, Observation, observe_one
from airflow_provider_ha.host.engines.standalone import StandaloneEngine
from airflow_provider_ha.jobs.drivers.driver_home import Ticket
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.model import StartPoint
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.runs.run_store import SubmissionView
from airflow_provider_ha.jobs.runs.submissions import DriverHandle, SubmissionExit
from airflow_provider_ha.jobs.submit.preparation import upload
from airflow_provider_ha.jobs.submit.run_submission import PreparedSubmission, submit_run
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters import submit_helpers
from tests.support.clusters.standalone_cluster import PATIENCE, StandaloneCluster, TestHost


OPTIONS = HaOptions(restart_in_place=False, allow_remote_executors=True, restart_delay=0.05)


@dataclass
class StandaloneJob:
    """The job of a context, and the cluster that runs it."""

    job: JobContext
    cluster: StandaloneCluster
    root: Path

    @property
    def engine(self) -> StandaloneEngine:
        found = self.job.engines.get(StandaloneEngine.name)
        assert isinstance(found, StandaloneEngine)
        return found

    def submit(self, *, mode: str = "wait", options: HaOptions = OPTIONS, **values: Any) -> None:
        """Submit the stand-in as run 1; its ``engine_options`` may be given."""
        given = dict(values)
        target = self.cluster.target(self.job.config, spark_home=str(self.root / "spark"))
        given.setdefault("master", target.master)
        more = given.pop("engine_options", {})
        request = submit_helpers.request(
            submit_helpers.script(self.root),
            mode=mode,
            options=options,
            engine=target.engine,
            engine_options=target.engine_options | more,
            **given,
        )

        def prepare() -> PreparedSubmission:
            return PreparedSubmission(graph=self.job.graphs.write_graph(upload(self.job, request)), start=StartPoint())

        submit_run(self.job, request.request_id, prepare, engine=target.engine)

    @property
    def newest(self) -> SubmissionView:
        found = self.job.runs.get(1).newest
        assert found is not None
        return found

    @property
    def submission_id(self) -> str:
        return self.newest.submission.submission_id

    @property
    def ticket(self) -> Ticket:
        view = self.job.runs.get(1)
        assert view.newest is not None
        submission = view.newest.submission
        return Ticket(
            job_id=self.job.job_id,
            run=1,
            attempt=submission.attempt,
            submission_id=submission.submission_id,
            graph=view.run.graph,
        )

    @property
    def handle(self) -> DriverHandle:
        started = self.newest.started
        assert started is not None
        return started.handle

    @property
    def host(self) -> TestHost:
        """The host that runs the newest submission, once one does."""
        return self.cluster.host_of(self.submission_id)

    def observe(self) -> Observation:
        return observe_one(self.engine, self.submission_id, self.handle)

    def processes(self) -> list[psutil.Process]:
        """Return all processes of the newest submission, on whichever host."""
        return [process for host in self.cluster.hosts for process in host.of(self.submission_id)]

    def await_driver(self) -> TestHost:
        """Wait until the driver's Python and its worker run; returns the host."""
        host = self.host

        def up() -> bool:
            log = self.handle.log_path
            return bool(log) and host.outside(log).with_name("driver.pid").exists()

        wait_until(up, timeout=PATIENCE, what="the driver")
        return host

    def await_gone(self) -> GoneSubmission:
        def gone() -> GoneSubmission | None:
            seen = self.observe()
            return seen if isinstance(seen, GoneSubmission) else None

        return wait_until(gone, timeout=PATIENCE, what="the proof of death")

    def await_exit(self, attempt: int = 1) -> SubmissionExit:
        return wait_until(
            lambda: self.job.runs.get(1).submissions[attempt - 1].exit, timeout=PATIENCE, what="the report of an end"
        )

    def end(self) -> None:
        """Kill what the job's submissions have started."""
        for number in self.job.runs.numbers():
            for view in self.job.runs.get(number).submissions:
                for host in self.cluster.hosts:
                    for process in host.of(view.submission.submission_id):
                        with contextlib.suppress(psutil.NoSuchProcess):
                            process.kill()
