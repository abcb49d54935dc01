"""Launch of the standby drivers that a run lacks, apart from the host of its leader where the engine has a choice.

A request that waits in the queue of a cluster is recorded (``jobs.runs.standbys``): it is not repeated while it waits,
and ends with the run. Every other request has a process, which joins the run when it starts, and of which nothing
remains when it ends before that.
"""

from __future__ import annotations

import logging

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.errors import HaError
from airflow_provider_ha.host.engines.engine import (
    Engine,
    Observation,
    PendingSubmission,
    RunningSubmission,
    observe_one,
)
from airflow_provider_ha.jobs.drivers.driver_home import NO_ATTEMPT, Ticket
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.model import Run
from airflow_provider_ha.jobs.runs.standbys import Standby, StandbyLevel, StandbyStore


log = logging.getLogger(__name__)

LAUNCHES = 3  # of one standby driver, while a cluster places it on the host of the leader or of another one


def launch_standbys(job: JobContext, run: Run, engine: Engine) -> int:
    """Start the standby drivers that a run lacks; return how many.

    Without one, the job is recovered more slowly: errors are logged.
    """
    started = 0
    try:
        requested = job.graph_of(run).options.standby_drivers
        if not requested:
            return 0
        standbys = StandbyStore(job.coordinator, job.paths, run.number)
        missing = requested - standbys.joined() - _still_queued(engine, standbys)
        taken = {_host_of_leader(job, run.number, engine)} if missing > 0 else set()
        for _ in range(missing):
            taken.add(_launch_apart(job, run, engine, standbys, requested=requested, taken=taken - {""}))
            started += 1
    except HaError as error:
        log.warning("run %d of %s lacks a standby driver: %s", run.number, job.job_id, error)
    return started


def _still_queued(engine: Engine, standbys: StandbyStore) -> int:
    """Count the requests that wait in the queue of a cluster; remove the others, whose processes join by themselves."""
    count = 0
    for standby in standbys.living():
        if standby.queued is None:
            continue
        if isinstance(observe_one(engine, standby.standby_id, standby.queued), PendingSubmission):
            count += 1
        else:
            standbys.drop(standby)
    return count


def _host_of_leader(job: JobContext, run: int, engine: Engine) -> str:
    newest = job.runs.get(run).newest
    if newest is None or newest.started is None:
        return ""
    return _host(observe_one(engine, newest.submission.submission_id, newest.started.handle))


def _host(seen: Observation) -> str:
    return seen.host if isinstance(seen, RunningSubmission) else ""


def _launch_apart(
    job: JobContext, run: Run, engine: Engine, standbys: StandbyStore, *, requested: int, taken: set[str]
) -> str:
    """Start a standby driver, again if it is placed on a host that is taken; return its host, empty if unknown."""
    for left in reversed(range(LAUNCHES)):
        ticket = Ticket(job_id=job.job_id, run=run.number, attempt=NO_ATTEMPT, submission_id=new_id(), graph=run.graph)
        handle = engine.launch(ticket, None)
        seen = observe_one(engine, ticket.submission_id, handle)
        if isinstance(seen, PendingSubmission):
            waits = Standby(
                standby_id=ticket.submission_id,
                level=StandbyLevel.REQUESTED,
                since=job.clock.now(),
                host="",
                pid=0,
                note=seen.reason,
                queued=handle,
            )
            # guard: request-in-the-queue-is-forgotten
            if not standbys.join(waits, requested):
                engine.terminate(handle)
            return ""
        host = _host(seen)
        if not left or host not in taken:
            return host
        log.info("a standby driver of %s is started again: %s has a driver of the job already", job.job_id, host)
        engine.terminate(handle)
    raise AssertionError("the last launch returns")


def end_queued_standbys(job: JobContext, run: int) -> None:
    """End the standby drivers of an ended run that wait in the queue of a cluster.

    If one cannot be reached, it ends itself when it starts.
    """
    standbys = StandbyStore(job.coordinator, job.paths, run)
    for standby in standbys.living():
        if standby.queued is None:
            continue
        try:
            job.engines.get(standby.queued.engine).terminate(standby.queued)
            standbys.drop(standby)
        except HaError as error:
            log.info("a standby driver of %s run %d is left to itself: %s", job.job_id, run, error)
