"""Many jobs together: states and owners, to filter and sort, and details for a page. Read-only.

A state takes eight reads in two round trips (:func:`~airflow_provider_ha.jobs.observe.run_steps`). A restarted job
whose driver has not led for long takes a third round trip, for its newest attempts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from airflow_provider_ha.checkpoints.model import CheckpointPointer
from airflow_provider_ha.coordination.coordinator import Coordinator, Node, Reads, Steps, follow_all, or_error
from airflow_provider_ha.coordination.node_names import node_numbers
from airflow_provider_ha.coordination.paths import CHECKPOINT_DIGITS, ClusterPaths, JobPaths
from airflow_provider_ha.errors import HaError, RecordCorruptError
from airflow_provider_ha.fleet.observations import reason_of_quarantine
from airflow_provider_ha.jobs.model import Run
from airflow_provider_ha.jobs.observe import in_one_session, run_steps, whole_steps
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.recovery.losses import failure_of
from airflow_provider_ha.jobs.run_history import RUNS
from airflow_provider_ha.jobs.runs.run_store import RunView, SubmissionView, decode
from airflow_provider_ha.jobs.runs.submissions import (
    LOOPS_FROM,
    LastFailure,
    Submission,
    SubmissionExit,
    SubmissionStarted,
)
from airflow_provider_ha.jobs.status import JobStatus, RunDepth
from airflow_provider_ha.records import Record


_AT_ONCE = 250  # jobs per round trip: the responses arrive within a heartbeat


def read_owners(coordinator: Coordinator, cluster: ClusterPaths, job_ids: Sequence[str]) -> dict[str, str | None]:
    """Return job -> its owner; ``None`` for a job without an owner, or with an unreadable newest run.

    :raises NotConnectedError: ZooKeeper could not be read.
    """
    found: list[str | None] = []
    for start in range(0, len(job_ids), _AT_ONCE):
        some = job_ids[start : start + _AT_ONCE]
        found += follow_all(coordinator, [_owner_steps(cluster.job(job_id)) for job_id in some])
    return dict(zip(job_ids, found, strict=True))


def _owner_steps(paths: JobPaths) -> Steps[str | None]:
    first = yield Reads((), (paths.runs,))
    numbers = node_numbers(first.lists[paths.runs], parent=paths.runs)
    if not numbers:
        return None
    second = yield Reads((paths.run(numbers[-1]),))
    try:
        run = decode(second.nodes[paths.run(numbers[-1])], Run)
    except RecordCorruptError:
        return None
    return run.owner if run is not None else None


T = TypeVar("T")
RecordT = TypeVar("RecordT", bound=Record)

_ATTEMPTS = 10  # read per run in a crash loop


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail:
    """A job as a list shows it.

    :param snapshot: The job; ``None`` if it cannot be read.
    :param checkpoint: Its newest retained checkpoint; ``None`` without one.
    :param quarantine: Reason of its quarantine; empty without one.
    :param restarts: Number of resubmissions since the requested moment.
    """

    job_id: str
    snapshot: JobStatus | None = None
    checkpoint: CheckpointPointer | None = None
    quarantine: str = ""
    restarts: int = 0
    error: HaError | None = None


def read_states(
    coordinator: Coordinator, cluster: ClusterPaths, job_ids: Sequence[str], *, now: datetime
) -> list[JobStatus[RunDepth]]:
    """Return the jobs' states, in the order of *job_ids*.

    :param now: Current time, for the duration of leaderships.
    :raises NotConnectedError: ZooKeeper could not be read.
    """
    kept_apart = set(coordinator.children(cluster.quarantine))
    found: list[JobStatus[RunDepth]] = []
    for some in _pieces(job_ids):
        found += in_one_session(
            coordinator,
            f"{len(some)} jobs",
            lambda some=some: follow_all(  # type: ignore[misc]  # mypy cannot infer a lambda with a default
                coordinator, [listed_steps(cluster.job(job_id), now, job_id in kept_apart) for job_id in some]
            ),
        )
    return found


def read_details(
    coordinator: Coordinator, cluster: ClusterPaths, job_ids: Sequence[str], *, since: datetime | None = None
) -> list[JobDetail]:
    """Return jobs as a list shows them, in the order of *job_ids*.

    :param since: Moment from which restarts count; without it, they are not counted.
    :raises NotConnectedError: ZooKeeper could not be read.
    """
    found: list[JobDetail] = []
    for some in _pieces(job_ids):
        read = in_one_session(
            coordinator,
            f"{len(some)} jobs",
            lambda some=some: follow_all(  # type: ignore[misc]  # as above
                coordinator, [or_error(_detail_steps(cluster, cluster.job(job_id), since)) for job_id in some]
            ),
        )
        found += [
            JobDetail(job_id=job_id, error=detail) if isinstance(detail, HaError) else detail
            for job_id, detail in zip(some, read, strict=True)
        ]
    return found


def checkpoint_times(
    coordinator: Coordinator, cluster: ClusterPaths, job_ids: Sequence[str]
) -> dict[str, datetime | None]:
    """Return job -> creation time of its newest retained checkpoint; ``None`` if missing or unreadable.

    :raises NotConnectedError: ZooKeeper could not be read.
    """
    return _each(coordinator, cluster, job_ids, _checkpoint_time)


def restarts_since(
    coordinator: Coordinator, cluster: ClusterPaths, job_ids: Sequence[str], since: datetime
) -> dict[str, int]:
    """Return job -> number of resubmissions since a moment, as in :attr:`JobDetail.restarts`.

    :raises NotConnectedError: ZooKeeper could not be read.
    """
    return _each(coordinator, cluster, job_ids, lambda paths: restart_steps(paths, since))


def _each(
    coordinator: Coordinator, cluster: ClusterPaths, job_ids: Sequence[str], steps: Callable[[JobPaths], Steps[T]]
) -> dict[str, T]:
    found: dict[str, T] = {}
    for some in _pieces(job_ids):
        read = follow_all(coordinator, [steps(cluster.job(job_id)) for job_id in some])
        found.update(zip(some, read, strict=True))
    return found


def _checkpoint_time(paths: JobPaths) -> Steps[datetime | None]:
    listed = yield Reads(lists=(paths.checkpoints,))
    numbers = node_numbers(listed.lists[paths.checkpoints], parent=paths.checkpoints, digits=CHECKPOINT_DIGITS)
    if not numbers:
        return None
    seen = yield Reads((paths.checkpoint(numbers[-1]),))
    try:
        pointer = decode(seen.nodes[paths.checkpoint(numbers[-1])], CheckpointPointer)
    except RecordCorruptError:
        return None
    return pointer.created_at if pointer is not None else None


def restart_steps(paths: JobPaths, since: datetime, newest: RunView | None = None) -> Steps[int]:
    """Count the resubmissions since a moment, over the runs since then.

    A run begins after the end of the previous one. So runs before a run that began earlier than *since* are irrelevant,
    and a job whose newest run began earlier needs no read: most jobs.

    :param newest: The newest run, if already read.
    """
    count = _again((each.submission for each in newest.submissions), since) if newest is not None else 0
    if newest is not None and newest.run.created_at < since:
        return count
    listed = yield Reads(lists=(paths.runs,))
    numbers = node_numbers(listed.lists[paths.runs], parent=paths.runs)[-RUNS:]
    for number in reversed(numbers):
        if newest is not None and number >= newest.run.number:
            continue
        parent = paths.submissions(number)
        begun = yield Reads((paths.run(number),), (parent,))
        attempts = node_numbers(begun.lists[parent], parent=parent)
        wanted = tuple(paths.submission(number, attempt) for attempt in attempts)
        seen = yield Reads(wanted)
        found = (_readable(seen.nodes[path], Submission) for path in wanted)
        count += _again((each for each in found if each is not None), since)
        run = _readable(begun.nodes[paths.run(number)], Run)
        if run is not None and run.created_at < since:
            break
    return count


def _again(submissions: Iterable[Submission], since: datetime) -> int:
    return sum(each.attempt > 1 and each.created_at >= since for each in submissions)


def _readable(node: Node | None, record: type[RecordT]) -> RecordT | None:
    try:
        return decode(node, record)
    except RecordCorruptError:
        return None  # the job is shown with the error


def listed_steps(paths: JobPaths, now: datetime, quarantined: bool = False) -> Steps[JobStatus[RunDepth]]:
    """Read the state of a job, and whether its newest attempts have all failed."""
    job = yield from run_steps(paths, quarantined)
    newest, leader = job.newest, job.leader
    if newest is None or newest.result is not None:
        return job
    led_since = leader.since if leader is not None and leader.run == newest.number else None
    loop = yield from loop_steps(paths, newest.number, newest.attempt, now, led_since=led_since, lost=job.is_lost)
    return replace(job, loop=loop)


def loop_steps(
    paths: JobPaths, run: int, attempt: int, now: datetime, *, led_since: datetime | None, lost: bool = False
) -> Steps[LastFailure | None]:
    """Return the last failure of a live run whose newest attempts have all failed; ``None`` for any other run.

    Most jobs need no read: a first run without restarts, or a driver that has led for long.

    :param attempt: Newest attempt of the run; 0 if unknown.
    :param led_since: Start of its leadership; ``None`` without one.
    :param lost: Whether the attempt has ended.
    """
    options = HaOptions()
    if (run == 1 and attempt + lost <= LOOPS_FROM) or (
        not lost and led_since is not None and (now - led_since).total_seconds() >= options.restart_reset_after
    ):
        return None
    newest = range(max(1, attempt - _ATTEMPTS), attempt + 1)
    records = [
        (paths.submission(run, each), paths.submission_started(run, each), paths.submission_exit(run, each))
        for each in newest
    ]
    seen = yield Reads((paths.run(run), *(path for each in records for path in each)))
    made_as, views = _readable(seen.nodes[paths.run(run)], Run), []
    for made, started, left in records:
        submission = _readable(seen.nodes[made], Submission)
        if submission is not None:
            began = _readable(seen.nodes[started], SubmissionStarted)
            ended = _readable(seen.nodes[left], SubmissionExit)
            views.append(SubmissionView(submission=submission, started=began, exit=ended))
    before = made_as.failures if made_as is not None else None
    found = failure_of(tuple(views), options, now, lost=lost, led_since=led_since, before=before)
    return found if found is not None and found.loops else None


def _detail_steps(cluster: ClusterPaths, paths: JobPaths, since: datetime | None) -> Steps[JobDetail]:
    apart = yield Reads((cluster.quarantined(paths.job_id),))
    node = apart.nodes[cluster.quarantined(paths.job_id)]
    snapshot = yield from whole_steps(paths)
    newest, checkpoint = snapshot.latest_checkpoint, None
    if newest is not None:
        seen = yield Reads((paths.checkpoint(newest),))
        checkpoint = decode(seen.nodes[paths.checkpoint(newest)], CheckpointPointer)
    restarts = 0
    if snapshot.run is not None and since is not None:
        restarts = yield from restart_steps(paths, since, snapshot.run)
    return JobDetail(
        job_id=paths.job_id,
        snapshot=snapshot,
        checkpoint=checkpoint,
        quarantine=reason_of_quarantine(node) if node is not None else "",
        restarts=restarts,
    )


def _pieces(job_ids: Sequence[str]) -> Iterable[Sequence[str]]:
    return (job_ids[start : start + _AT_ONCE] for start in range(0, len(job_ids), _AT_ONCE))
