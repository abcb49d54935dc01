"""Many jobs together: states and owners, to filter and sort, and details for a page. Read-only.

A state takes eight reads in two round trips (:func:`~airflow_provider_ha.jobs.observe.run_steps`). A job that was
started again, and whose driver has not led for long since, takes a third one, of its newest attempts.
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
from airflow_provider_ha.fleet.decide import reason_of_quarantine
from airflow_provider_ha.jobs.model import Run
from airflow_provider_ha.jobs.observe import in_one_session, run_steps, whole_steps
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.recovery.losses import LOOPS_FROM, LastFailure, failure_of
from airflow_provider_ha.jobs.run_history import RUNS
from airflow_provider_ha.jobs.runs.run_store import RunView, SubmissionView, decode
from airflow_provider_ha.jobs.runs.submissions import Submission, SubmissionExit, SubmissionStarted
from airflow_provider_ha.jobs.status import JobStatus, RunDepth
from airflow_provider_ha.records import Record


_AT_ONCE = 250  # jobs in one round trip: their answers fit the time of a heartbeat


def read_owners(coordinator: Coordinator, cluster: ClusterPaths, job_ids: Sequence[str]) -> dict[str, str | None]:
    """Return job -> its owner; ``None`` for a job without one, and for one whose newest run cannot be read.

    :raises NotConnectedError: It could not be found out.
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

_ATTEMPTS = 10  # of a run in a crash loop that are read


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail:
    """One job as a list shows it.

    :param snapshot: The job; ``None`` when it cannot be read.
    :param checkpoint: Its newest retained checkpoint; ``None`` without one.
    :param quarantine: Why it is in quarantine; empty when it is not.
    :param restarts: Submissions after the first of their run, since the moment that was asked for.
    :param error: Why it cannot be read.
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
    """Return the state of every job, in the order of *job_ids*.

    :param now: Shows how long a driver has led.
    :raises NotConnectedError: It could not be found out.
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

    :param since: From when on restarts count; without it none is counted.
    :raises NotConnectedError: It could not be found out.
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
    """Return when the newest retained checkpoint of each job was taken; ``None`` for none, or an unreadable one.

    :raises NotConnectedError: It could not be found out.
    """
    return _each(coordinator, cluster, job_ids, _checkpoint_time)


def restarts_since(
    coordinator: Coordinator, cluster: ClusterPaths, job_ids: Sequence[str], since: datetime
) -> dict[str, int]:
    """Return how many submissions after the first of their run each job has had since a moment, as a detail has it.

    :raises NotConnectedError: It could not be found out.
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
    """Count the submissions after the first of their run since a moment, over the runs of that time.

    A run begins when the one before it is over. So what is before one that began before *since* is older, too, and a
    job whose newest run did needs no read: that is most jobs.

    :param newest: Its newest run, when it has been read already.
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
        return None  # its job is shown with the error


def listed_steps(paths: JobPaths, now: datetime, quarantined: bool = False) -> Steps[JobStatus[RunDepth]]:
    """Read the state of one job, and whether its newest attempts have failed in a row."""
    job = yield from run_steps(paths, quarantined)
    newest, leader = job.newest, job.leader
    if newest is None or newest.result is not None:
        return job
    led_since = leader.since if leader is not None and leader.run == newest.number else None
    loops = yield from loop_steps(paths, newest.number, newest.attempt, now, led_since=led_since, lost=job.is_lost)
    return replace(job, loops=loops is not None)


def loop_steps(
    paths: JobPaths, run: int, attempt: int, now: datetime, *, led_since: datetime | None, lost: bool = False
) -> Steps[LastFailure | None]:
    """Return the last failure of a live run whose newest attempts have failed in a row; ``None`` for any other run.

    No read is made for a first run that was never started again, nor for one whose driver has led for long: most jobs.

    :param attempt: The newest one of the run; 0 when it is not known.
    :param led_since: Since when it leads; ``None`` when it does not.
    :param lost: Whether it has ended.
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
