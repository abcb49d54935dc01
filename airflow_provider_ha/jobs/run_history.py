"""History of a job: runs, submissions, the leaders of epochs, and its end. Read-only.

All nodes are written once (``runs/<n>``, its submissions, their ``led`` and ``exit``, the results, the recoveries), so
the order of reads does not matter. Retention limits the length of the history. A run is removed as a whole
(``jobs.removal.past_runs``): if it still exists after the last read, it was read as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from airflow_provider_ha.checkpoints.store.pointer_scan import UnreadableRecord
from airflow_provider_ha.coordination.coordinator import Coordinator, Node, ReadResponse, Reads, Steps, follow
from airflow_provider_ha.coordination.node_names import node_numbers
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.errors import RecordCorruptError, UnknownJobError
from airflow_provider_ha.jobs.model import LeaderInfo, Recovery, Run, RunResult, Status
from airflow_provider_ha.jobs.removal.removal_records import DeletedJob
from airflow_provider_ha.jobs.runs.run_store import decode
from airflow_provider_ha.jobs.runs.submissions import (
    StartTimes,
    StateRestore,
    Submission,
    SubmissionExit,
    SubmissionLed,
)
from airflow_provider_ha.records import Record


RecordT = TypeVar("RecordT", bound=Record)
RUNS = 20  # default number of newest runs to read
ATTEMPTS = 200  # newest submissions per run


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A submission of a run.

    :param led: The process that led, and when; ``None`` if none did.
    :param exit: Its proven end; ``None`` while it lives, or without a proof of death.
    :param recovery: The recovery of its loss; ``None`` without one.
    :param times: When its driver completed the phases of its start; unknown if its host was lost and another driver
        has led since.
    :param state_restores: Query -> how tasks read its state until its first commit; known as the time is, and only with
        ``local_recovery``.
    """

    submission: Submission
    led: SubmissionLed | None = None
    exit: SubmissionExit | None = None
    recovery: Recovery | None = None
    times: StartTimes = field(default_factory=StartTimes)
    state_restores: Mapping[str, StateRestore] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHistory:
    """A run.

    :param attempts: The newest submissions, ascending.
    :param attempts_left_out: Number of earlier submissions that were not read.
    """

    run: Run
    result: RunResult | None
    attempts: tuple[Attempt, ...]
    attempts_left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHistory:
    """The runs of a job.

    :param leader: The current leader, or ``None``.
    :param runs: Newest first.
    :param runs_left_out: Number of earlier runs that were not read.
    :param unreadable: Records that cannot be read.
    """

    job_id: str
    leader: LeaderInfo | None
    runs: tuple[RunHistory, ...]
    runs_left_out: int = 0
    unreadable: tuple[UnreadableRecord, ...] = ()


def read_history(
    coordinator: Coordinator, paths: JobPaths, *, runs: int = RUNS, epochs: int | None = None
) -> JobHistory:
    """Read the newest *runs* runs of a job.

    :param epochs: Limit for the number of submissions, newest first; no limit by default.
    :raises UnknownJobError: The job does not exist.
    :raises NotConnectedError: ZooKeeper could not be read.
    """
    return follow(coordinator, history_steps(paths, runs=runs, epochs=epochs))


def history_steps(paths: JobPaths, *, runs: int = RUNS, epochs: int | None = None) -> Steps[JobHistory]:
    """Read the same as :func:`read_history` in four round trips, which other readers may share."""
    unreadable: list[UnreadableRecord] = []
    first = yield Reads((paths.base, paths.leader, paths.status), (paths.runs, paths.recoveries))
    base = first.nodes[paths.base]
    if base is None:
        raise UnknownJobError(
            f"job {paths.job_id!r} is not known in cluster {paths.cluster.cluster_id!r}",
            next_step="See the jobs that it has: spark-ha job list",
        )
    if base.data:
        raise DeletedJob.from_bytes(base.data, source=base.path).error(paths.job_id)
    numbers = node_numbers(first.lists[paths.runs], parent=paths.runs)
    chosen = numbers[-runs:] if runs > 0 else numbers
    second = yield _of_runs(paths, chosen)
    known = {number: _attempts(paths, number, second) for number in chosen}
    attempts = _newest(known, epochs)
    third = yield _of_attempts(paths, attempts) + Reads(tuple(map(paths.run, attempts)))
    led = {
        (number, attempt): _record(third.nodes, paths.submission_led(number, attempt), SubmissionLed, unreadable)
        for number, found in attempts.items()
        for attempt in found
    }
    epochs_led = {each.epoch for each in led.values() if each is not None}
    claims = [
        each for each in node_numbers(first.lists[paths.recoveries], parent=paths.recoveries) if each in epochs_led
    ]
    fourth = yield Reads(tuple(paths.recovery(epoch) for epoch in claims))
    recoveries = {epoch: _record(fourth.nodes, paths.recovery(epoch), Recovery, unreadable) for epoch in claims}
    status = _record(first.nodes, paths.status, Status, unreadable)
    found_runs = []
    for number in attempts:
        run = _record(second.nodes, paths.run(number), Run, unreadable)
        if run is None or third.nodes[paths.run(number)] is None:
            continue  # unreadable, or removed since it was listed
        made = []
        for attempt in attempts[number]:
            submission = _record(third.nodes, paths.submission(number, attempt), Submission, unreadable)
            if submission is None:
                continue  # forgotten since it was listed, or unreadable
            leads = led[number, attempt]
            left = _record(third.nodes, paths.submission_exit(number, attempt), SubmissionExit, unreadable)
            made.append(
                Attempt(
                    submission=submission,
                    led=leads,
                    exit=left,
                    recovery=recoveries.get(leads.epoch) if leads is not None else None,
                    times=_times(leads, left, status),
                    state_restores=_state_restores(leads, left, status),
                )
            )
        found_runs.append(
            RunHistory(
                run=run,
                result=_record(second.nodes, paths.run_result(number), RunResult, unreadable),
                attempts=tuple(made),
                attempts_left_out=len(known[number]) - len(attempts[number]),
            )
        )
    return JobHistory(
        job_id=paths.job_id,
        leader=_record(first.nodes, paths.leader, LeaderInfo, unreadable),
        runs=tuple(found_runs),
        runs_left_out=len(numbers) - len(attempts),
        unreadable=tuple(unreadable),
    )


def _times(led: SubmissionLed | None, left: SubmissionExit | None, status: Status | None) -> StartTimes:
    """Return the times of a start: by the exit, before that by the status."""
    if left is not None:
        return left.times
    told = status is not None and led is not None and status.epoch == led.epoch
    return status.times if status is not None and told else StartTimes()


def _state_restores(
    led: SubmissionLed | None, left: SubmissionExit | None, status: Status | None
) -> Mapping[str, StateRestore]:
    """Return query -> how its state was read: by the exit, before that by the status."""
    if left is not None:
        return left.state_restores
    if status is None or led is None or status.epoch != led.epoch:
        return {}
    return {name: query.state_restore for name, query in status.queries.items() if query.state_restore is not None}


def _of_runs(paths: JobPaths, numbers: list[int]) -> Reads:
    nodes = tuple(path for number in numbers for path in (paths.run(number), paths.run_result(number)))
    return Reads(nodes, tuple(paths.submissions(number) for number in numbers))


def _attempts(paths: JobPaths, number: int, seen: ReadResponse) -> list[int]:
    parent = paths.submissions(number)
    return node_numbers(seen.lists[parent], parent=parent)


def _newest(known: Mapping[int, list[int]], epochs: int | None) -> dict[int, list[int]]:
    """Return run -> submissions to read, newest run first; runs beyond the limit are left out."""
    left = epochs if epochs is not None else ATTEMPTS * len(known)
    chosen: dict[int, list[int]] = {}
    for number in sorted(known, reverse=True):
        if left <= 0:
            break
        chosen[number] = known[number][-min(left, ATTEMPTS) :]
        left -= len(chosen[number])
    return chosen


def _of_attempts(paths: JobPaths, attempts: Mapping[int, list[int]]) -> Reads:
    return Reads(
        tuple(
            path(number, attempt)
            for number, found in attempts.items()
            for attempt in found
            for path in (paths.submission, paths.submission_led, paths.submission_exit)
        )
    )


def _record(
    nodes: Mapping[str, Node | None], path: str, record: type[RecordT], unreadable: list[UnreadableRecord]
) -> RecordT | None:
    try:
        return decode(nodes[path], record)
    except RecordCorruptError as error:
        unreadable.append(UnreadableRecord(path, error.message))
        return None
