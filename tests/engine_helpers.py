"""Handles and engines of tests whose drivers are no processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.host.engines.engine import (
    EngineCheck,
    EngineFacts,
    GoneSubmission,
    Observation,
    UnknownSubmission,
    WantedSubmission,
    observe_one,
)
from airflow_provider_ha.host.engines.local import LocalEngine
from airflow_provider_ha.host.engines.local_arrival import LocalProcess
from airflow_provider_ha.jobs.drivers.driver_home import Ticket
from airflow_provider_ha.jobs.job_graph import Target
from airflow_provider_ha.jobs.runs.submissions import DriverHandle, SubmissionStarted, file_uri


CONFIG = HaConfig.build(zookeeper="127.0.0.1:1", storage_root="file:///nowhere")


def handle(*, host: str = "host", pid: int = 1, log: str = "driver.log", engine: str = "local") -> DriverHandle:
    """Return the handle of a process that nothing is known of."""
    local = LocalProcess(host=host, pid=pid, process_started=0.0, uid=0)
    return DriverHandle(engine=engine, ref=local.model_dump(), log_uri=file_uri(host, log))


def started(*, host: str = "host", pid: int = 1, log: str = "driver.log") -> SubmissionStarted:
    """Return the record of its start."""
    return SubmissionStarted(handle=handle(host=host, pid=pid, log=log))


def pid_of(record: SubmissionStarted) -> int:
    """Return the process id of a local submission's supervisor."""
    return LocalProcess.of(record.handle).pid


def changed(record: SubmissionStarted, **reference: object) -> SubmissionStarted:
    """Return the record with another reference in its handle."""
    handle = record.handle.model_copy(update={"ref": record.handle.ref | reference})
    return SubmissionStarted(handle=handle)


def is_gone(submission_id: str, record: SubmissionStarted) -> bool:
    """Whether the local engine proves on this host that a submission is gone."""
    return isinstance(observe_one(LocalEngine(CONFIG), submission_id, record.handle), GoneSubmission)


class NothingToSee:
    """The part of an engine that has no processes: it refuses no target, observes none, and ends none."""

    facts = EngineFacts(launch_seconds=0.0, poll_seconds=0.2, runs_here=True)

    def check_host(self) -> None:
        """Take every host."""

    def check(self, target: Target) -> None:
        del target

    def probe(self, target: Target) -> Iterator[EngineCheck]:
        yield EngineCheck(f"of {target.master}", "unknown", usable=True)

    def reserve(self, ticket: Ticket) -> DriverHandle | None:
        del ticket
        return None

    def observe(self, wanted: Sequence[WantedSubmission]) -> dict[str, Observation]:
        return {each.submission_id: self.seen(each.submission_id, each.handle) for each in wanted}

    def seen(self, submission_id: str, handle: DriverHandle | None) -> Observation:
        """Return what is seen of one submission."""
        del submission_id, handle
        return UnknownSubmission("a test has no processes")

    def terminate(self, handle: DriverHandle) -> None:
        """End nothing."""

    def forget(self, handle: DriverHandle) -> None:
        """Remove nothing."""
