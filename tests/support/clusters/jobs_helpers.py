"""What tests of the jobs share: records that differ only in what a test is about."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Node, ReadResponse, Reads
from airflow_provider_ha.coordination.election import acquire
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.node_names import is_plain, ours
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.driver.members.driver_session import check_admission
from airflow_provider_ha.fleet.observations import quarantine_reason
from airflow_provider_ha.jobs.job_graph import Blob
from airflow_provider_ha.jobs.job_records import JobRecords
from airflow_provider_ha.jobs.model import JobState, LeaderInfo, Run, RunEnd, RunResult, StartKind, StartPoint, Status
from airflow_provider_ha.jobs.observe import create_job
from airflow_provider_ha.jobs.runs.run_store import RunStore, RunView, SubmissionView
from airflow_provider_ha.jobs.runs.submissions import (
    DriverHandle,
    Failure,
    FailureKind,
    Submission,
    SubmissionExit,
    SubmissionStarted,
)
from airflow_provider_ha.jobs.status import JobStatus, StandingDepth


NOON = datetime(2013, 1, 1, 12, tzinfo=timezone.utc)
BLOB = Blob(sha256="0" * 64, size=1)


def a_run(number: int = 1, *, request_id: str = "request-1") -> Run:
    return Run(number=number, graph=BLOB, start=StartPoint(), request_id=request_id, created_at=NOON)


def a_submission(attempt: int = 1) -> Submission:
    return Submission(
        attempt=attempt, submission_id=f"s-{attempt}", requested_by="test", engine="local", created_at=NOON
    )


def id_of(view: RunView, attempt: int) -> str:
    """Return the id of a submission of a run; empty for one that it does not have."""
    found = (each.submission for each in view.submissions)
    return next((each.submission_id for each in found if each.attempt == attempt), "")


def admit_attempt(job: JobRecords, run: int, attempt: int) -> None:
    """Admit a driver by the rule of the product; it was started for the submission of that number."""
    view = job.runs.get(run)
    check_admission(view, job.graphs.pointer(), attempt, id_of(view, attempt))


def a_start() -> SubmissionStarted:
    return SubmissionStarted(handle=DriverHandle(engine="local", log_uri="file://host/driver.log"))


def an_exit(code: int = -9) -> SubmissionExit:
    return SubmissionExit(code=code, at=NOON)


def a_result(state: Any = JobState.FINISHED, *, end: RunEnd | None = None) -> RunResult:
    return RunResult(state=state, epoch=1, end=end, at=NOON)


def a_leader(epoch: int = 1, *, run: int = 1, attempt: int = 1) -> LeaderInfo:
    return LeaderInfo(epoch=epoch, run=run, attempt=attempt, host="host", pid=1, since=NOON)


def a_status(state: JobState = JobState.RUNNING, *, epoch: int = 1, run: int = 1) -> Status:
    return Status(state=state, run=run, epoch=epoch, at=NOON)


def submit(coordinator: Coordinator, paths: JobPaths, number: int = 1, attempt: int = 1) -> None:
    """Make a run with its first submission, or a further submission of it."""
    create_job(coordinator, paths)
    runs = RunStore(coordinator, paths)
    creations = (runs.create_op(a_run(number, request_id=f"request-{number}")),) if attempt == 1 else ()
    coordinator.commit(*creations, *runs.submission_ops(number, a_submission(attempt)))


def begin_from_savepoint(coordinator: Coordinator, paths: JobPaths, savepoint_id: str, number: int = 2) -> None:
    """Make a run that begins from a savepoint of its job, and has no driver yet; the run before it is over."""
    create_job(coordinator, paths)
    runs = RunStore(coordinator, paths)
    start = StartPoint(kind=StartKind.SAVEPOINT, source_job=paths.job_id, source_id=savepoint_id)
    run = a_run(number, request_id=f"request-{number}").model_copy(update={"start": start})
    over = (runs.result_op(number - 1, a_result()),) if number > 1 else ()
    coordinator.commit(*over, runs.create_op(run))


class StandingClock(SystemClock):
    """A clock that stands: the lease of a stand-in for a driver, which sends no heartbeats, does not run out by time.

    Its session is real, and ends as any other: by a release, a lost connection or a new epoch.
    """

    def __init__(self) -> None:
        self._lease_time, self._now = super().lease_time(), super().now()

    def lease_time(self) -> float:
        return self._lease_time

    def now(self) -> datetime:
        return self._now


def lead(coordinator: Coordinator, paths: JobPaths, config: HaConfig, *, run: int = 1, attempt: int = 1) -> Leadership:
    """Take the job's lock as the driver of that submission, for as long as the session lives."""
    return acquire(
        coordinator,
        paths,
        timings=config.timings,
        clock=StandingClock(),
        describe=lambda epoch: a_leader(epoch, run=run, attempt=attempt).to_bytes(),
        timeout=5,
    )


class Interrupted:
    """A session that lets something happen in the job just before one of its reads, once."""

    def __init__(self, inner: Coordinator, event: Callable[[], Any], *, before_read: int) -> None:
        self._inner = inner
        self._event = event
        self._before_read = before_read
        self.reads = 0

    def find(self, path: str, **options: Any) -> Node | None:
        self._read()
        return self._inner.find(path, **options)

    def get(self, path: str, **options: Any) -> Node:
        self._read()
        return self._inner.get(path, **options)

    def children(self, path: str, **options: Any) -> list[str]:
        self._read()
        return self._inner.children(path, **options)

    def read(self, reads: Reads, **options: Any) -> ReadResponse:
        """Read one after the other: between the requests of one round trip something may happen as well."""
        if options.get("watch") is not None:
            raise NotImplementedError("a watch on several nodes")
        nodes = {path: self.find(path) for path in reads.nodes}
        return ReadResponse(nodes, {path: self.children(path) for path in reads.lists})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _read(self) -> None:
        if self.reads == self._before_read:
            self._event()
        self.reads += 1


# An error of the application, as a driver leaves it.
MISTAKE = Failure(
    kind=FailureKind.APPLICATION,
    error_class="KeyError",
    message="'price'",
    query="rows",
    batches={"rows": 4},
    location="main.py:12 in write",
)


def standing_of(job: JobStatus[StandingDepth]) -> str:
    """Return the word of the golden table for the standing of a job."""
    if job.quarantined:
        return "in quarantine"
    words = (("idle", job.is_idle), ("unclear", job.is_unclear), ("ended", job.is_over), ("led", job.is_led))
    return next((word for word, holds in words if holds), "lost" if job.is_lost else "starting")


def list_quarantined(coordinator: Coordinator, paths: ClusterPaths) -> dict[str, str]:
    """Return the jobs in quarantine with their reasons."""
    names = ours(coordinator.children(paths.quarantine), is_plain, parent=paths.quarantine)
    return {name: quarantine_reason(coordinator, paths, name) or "" for name in names}


TAKEN = SubmissionView(submission=a_submission(), started=a_start(), created_zxid=10)
