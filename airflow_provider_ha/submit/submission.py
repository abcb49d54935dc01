"""Submitting a job: every step leaves a trace that the next caller with the same request id goes on from.

Blobs, graph blob, then one transaction {run node, graph pointer}, then the submission (``submit.launch``). The run node
is the arbiter: its name is its number, so of two submitters one wins, and the loser finds out whether the winner is
itself.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass

from airflow_provider_ha.coordination.coordinator import Check, Create, Op
from airflow_provider_ha.coordination.records import read_record
from airflow_provider_ha.errors import (
    ConfigurationError,
    JobStateError,
    NodeExistsError,
    OutcomeUnknownError,
    VersionConflictError,
)
from airflow_provider_ha.jobs.jobs import create_job
from airflow_provider_ha.jobs.model import Blob, GraphPointer, JobState, LeaderInfo, Run, StartPoint
from airflow_provider_ha.submit.context import JobContext
from airflow_provider_ha.submit.launch import ensure_submitted, refuse_this_host
from airflow_provider_ha.submit.requests import SubmittedRun


log = logging.getLogger(__name__)

_SEPARATOR = "#"  # request#2 is the second run of one request


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a run is made of; its blobs are in storage.

    :param graph: Blob of the job graph.
    :param start: What it starts from.
    :param owner: Whose job it is from then on; ``None`` for everybody's.
    """

    graph: Blob
    start: StartPoint
    owner: str | None = None


def submit_run(job: JobContext, request_id: str, prepare: Callable[[], Prepared]) -> SubmittedRun:
    """Find the run of a request, or make it, and see to it that it is submitted.

    :param request_id: Who asks. The run of a request is found again, unless it FAILED: then the request makes another.
    :param prepare: Uploads what the run needs. Called only when a run is to be made: a refusal changes nothing.
    :raises JobStateError: The job has a live run of another request.
    :raises ConfigurationError: A driver would not outlive the task on this host; nothing was made.
    """
    _check_request_id(request_id)
    while True:
        numbers = job.runs.numbers()
        number, use = _find_request(job, numbers, request_id)
        if number is not None:
            return SubmittedRun(
                job_id=job.job_id, run=number, attempt=ensure_submitted(job, number, by=request_id), created=False
            )
        _refuse_live_run(job, numbers)
        refuse_this_host(job)
        prepared = prepare()
        create_job(job.coordinator, job.paths)
        run = Run(
            number=max(numbers, default=0) + 1,
            graph=prepared.graph,
            start=prepared.start,
            request_id=request_id if use == 1 else f"{request_id}{_SEPARATOR}{use}",
            created_at=job.clock.now(),
            owner=prepared.owner,
        )
        try:
            job.commit(*_creation(job, run))
        except (NodeExistsError, VersionConflictError, OutcomeUnknownError) as error:
            log.info(
                "run %d of %s was not certainly made by this call (%s), looking again", run.number, job.job_id, error
            )
            continue
        log.info("made run %d of %s for request %s", run.number, job.job_id, run.request_id)
        attempt = ensure_submitted(job, run.number, by=request_id)
        return SubmittedRun(job_id=job.job_id, run=run.number, attempt=attempt, created=True)


def _check_request_id(request_id: str) -> None:
    if not request_id or _SEPARATOR in request_id:
        raise ConfigurationError(
            f"request id {request_id!r} cannot be used",
            next_step=f"Use a text that is not empty, without {_SEPARATOR!r}",
        )


def made_by(run: Run, request_id: str) -> bool:
    """Whether a run was made by that request, by its first use or by a later one."""
    return re.fullmatch(re.escape(request_id) + rf"(?:{_SEPARATOR}\d+)?", run.request_id) is not None


def _find_request(job: JobContext, numbers: list[int], request_id: str) -> tuple[int | None, int]:
    """Return the request's newest run that must not be repeated, and how many runs the request would then have made."""
    uses = 0
    for number in reversed(numbers):
        run = read_record(job.coordinator, job.paths.run(number), Run)
        if run is None or not made_by(run[0], request_id):
            continue
        uses += 1
        if uses == 1:
            result = job.runs.result(number)
            if result is None or result.state is not JobState.FAILED:
                return number, 0
    return None, uses + 1


def _refuse_live_run(job: JobContext, numbers: list[int]) -> None:
    if not numbers or job.runs.result(numbers[-1]) is not None:
        return
    leader = read_record(job.coordinator, job.paths.leader, LeaderInfo)
    leads = (
        "nobody leads it now"
        if leader is None
        else (f"epoch {leader[0].epoch} on {leader[0].host} (pid {leader[0].pid}) leads it")
    )
    raise JobStateError(
        f"job {job.job_id!r} already has a live run, number {numbers[-1]}; {leads}",
        next_step="Stop or cancel it first, or submit with the request id that made it",
    )


def _creation(job: JobContext, run: Run) -> list[Op]:
    paths = job.paths
    ops: list[Op] = [
        job.runs.create_op(run),
        Create(paths.submissions(run.number)),
        job.graphs.pointer_op(GraphPointer(graph=run.graph, run=run.number)),
    ]
    if run.number > 1:
        ops.append(Check(paths.run_result(run.number - 1)))  # at most one live run per job
    return ops
