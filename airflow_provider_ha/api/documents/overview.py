"""Pages of the jobs of a cluster: search, filter, order, and the problem of each job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.api.documents.view import View
from airflow_provider_ha.jobs.condition import NO_RUN, QUARANTINED, UNREADABLE, JobCondition, decide
from airflow_provider_ha.jobs.status import JobStatus, RunDepth


if TYPE_CHECKING:
    from airflow_provider_ha.fleet.fleet_overview import JobDetail


PAGE = 100  # jobs
ATTENTION = "attention"  # in the place of a state: what a person should look at
DAY = timedelta(hours=24)
STATES = (
    QUARANTINED, UNREADABLE, "LOST", "FAILED", "STALLED", "STOPPING", "STARTING", "SUBMITTED", "RUNNING", NO_RUN,
    "CANCELED", "FINISHED",
)  # fmt: skip


class SortKey(str, Enum):
    """What a list is sorted by."""

    URGENCY = "urgency"
    JOB = "job"
    EPOCH = "epoch"
    HOST = "host"
    CHECKPOINT = "checkpoint"  # the oldest newest checkpoint first
    LAG = "lag"
    RESTARTS = "restarts"


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewQuery:
    """What a reader of the list wants to see.

    :param search: Part of a job's id.
    :param state: A state, ``attention``, or empty for all.
    :param page: From 1.
    """

    search: str = ""
    state: str = ""
    sort: SortKey = SortKey.URGENCY
    page: int = 1


class OverviewRow(View):
    """One job.

    :param state: State of its newest run; ``QUARANTINED``, ``UNREADABLE``, or ``NO_RUN`` without one.
    :param needs_attention: Whether a person should look at it.
    :param problem: What is wrong with it, in one line; empty when nothing.
    :param run: Number of its newest run.
    :param epoch: Epoch of the latest leadership; 0 when it was never led.
    :param host: Host of its leader; ``null`` without one.
    :param pid: Process of its leader.
    :param checkpoint: Number of its newest retained checkpoint.
    :param checkpoint_at: When that was taken.
    :param lag: Rows that the sources of its queries have, and the queries have not read; ``null`` without a leader that
        tells it.
    :param restarts: Submissions after the first one of their run, in the last 24 hours.
    """

    job_id: str
    state: str
    needs_attention: bool
    problem: str = ""
    run: int | None = None
    epoch: int = 0
    host: str | None = None
    pid: int | None = None
    checkpoint: int | None = None
    checkpoint_at: datetime | None = None
    lag: int | None = None
    restarts: int = 0


class OverviewView(View):
    """One page of the list.

    :param rows: The jobs of the page.
    :param found: How many jobs the search and the filter have found.
    :param jobs: How many jobs the cluster has.
    :param page: Number of the page, from 1.
    :param pages: How many there are; at least 1.
    :param states: State -> how many jobs of the cluster are in it.
    :param attention: How many jobs a person should look at.
    """

    rows: tuple[OverviewRow, ...]
    found: int
    jobs: int
    page: int
    pages: int
    states: dict[str, int]
    attention: int


def choose(
    jobs: Sequence[JobStatus[RunDepth]],
    asked: OverviewQuery,
    *,
    now: datetime,
    checkpoints: Mapping[str, datetime | None] | None = None,
    restarts: Mapping[str, int] | None = None,
) -> list[str]:
    """Return the ids of the jobs that were asked for, sorted.

    :param checkpoints: When the newest checkpoint of each job was taken; to sort by it.
    :param restarts: How often each job was restarted; to sort by it.
    """
    taken, often = checkpoints or {}, restarts or {}
    seen = {job.job_id: decide(job, None, now) for job in jobs if asked.search.lower() in job.job_id.lower()}
    found = [job for job in jobs if job.job_id in seen and _is_in(seen[job.job_id], asked.state)]
    keys: dict[SortKey, Callable[[JobStatus[RunDepth]], Any]] = {
        SortKey.URGENCY: lambda job: (
            not seen[job.job_id].needs_person,
            STATES.index(seen[job.job_id].state),
            job.job_id,
        ),
        SortKey.JOB: lambda job: job.job_id,
        SortKey.EPOCH: lambda job: (-job.epoch, job.job_id),
        SortKey.HOST: lambda job: (not job.host, job.host, job.job_id),
        SortKey.CHECKPOINT: lambda job: (taken.get(job.job_id) is None, taken.get(job.job_id), job.job_id),
        SortKey.LAG: lambda job: (job.lag is None, -(job.lag or 0), job.job_id),
        SortKey.RESTARTS: lambda job: (-often.get(job.job_id, 0), job.job_id),
    }
    return [job.job_id for job in sorted(found, key=keys[asked.sort])]


def pages_of(found: int) -> int:
    """Return how many pages so many jobs have."""
    return max(1, -(-found // PAGE))


def on_page(page: int) -> slice:
    """Return which of all found jobs a page shows."""
    return slice((page - 1) * PAGE, page * PAGE)


def overview(
    jobs: Sequence[JobStatus[RunDepth]], found: int, rows: Sequence[OverviewRow], page: int, *, now: datetime
) -> OverviewView:
    """Return one page."""
    seen = [decide(job, None, now) for job in jobs]
    counted = Counter(each.state for each in seen)
    return OverviewView(
        rows=tuple(rows),
        found=found,
        jobs=len(jobs),
        page=page,
        pages=pages_of(found),
        states={state: counted[state] for state in STATES if counted[state]},
        attention=sum(each.needs_person for each in seen),
    )


def overview_row(detail: JobDetail, *, now: datetime) -> OverviewRow:
    """Return one job."""
    read = detail.snapshot or JobStatus(job_id=detail.job_id, broken=True)
    trouble = detail.quarantine or (str(detail.error) if detail.error is not None else "")
    snapshot = replace(read, quarantined=bool(detail.quarantine), trouble=trouble)
    run, leader, pointer, found = snapshot.run, snapshot.leader, detail.checkpoint, decide(snapshot, None, now)
    return OverviewRow(
        job_id=detail.job_id,
        state=found.state,
        needs_attention=found.needs_person,
        problem=found.problem,
        run=run.run.number if run is not None else None,
        epoch=snapshot.epoch,
        host=leader.host if leader is not None else None,
        pid=leader.pid if leader is not None else None,
        checkpoint=snapshot.latest_checkpoint,
        checkpoint_at=pointer.created_at if pointer is not None else None,
        lag=snapshot.lag,
        restarts=detail.restarts,
    )


def _is_in(found: JobCondition, state: str) -> bool:
    return found.needs_person if state == ATTENTION else state in ("", found.state)
