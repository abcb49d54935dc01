"""Reads of a job at three depths, in the only safe order, and the list of a cluster's jobs.

The order of the reads is the invariant of this module. ZooKeeper keeps the reads of a session in order and never goes
back, so a later read sees at least the state of an earlier one. Therefore:

1. The epoch before the leader node. Both are written in one transaction, so if the leader node is then absent, the
   leadership under *this* epoch is over. In the other order, a new leader between the two reads would make a live epoch
   look lost.
2. The leader node before the exits, and the exits before the result. A LOST verdict follows from the first two and is
   refuted by the result, which a driver writes before it gives up its node or its life. So a job that finishes between
   two reads is seen as finished, never as LOST.
3. The status before the result, for the same reason: a reader that sees a status of a finished run sees the result too.

Reads with known paths share a round trip, in which the order is that of the requests.

* A standing takes five reads in two round trips: most jobs of a cluster have a leader, and need no more.
* A list takes eight reads in two round trips.
* A whole job takes three round trips: its own nodes, its newest run, and the submissions of that run.

A LOST verdict may be outdated when it is acted on. That is harmless: recovery creates ``recoveries/<lost epoch>`` and
the next submission in one transaction, and only one can (contract 9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TypeVar

from airflow_provider_ha.coordination.coordinator import (
    Coordinator,
    Node,
    PathWatch,
    ReadResponse,
    Reads,
    Steps,
    follow,
    follow_all,
)
from airflow_provider_ha.coordination.node_names import is_job, node_numbers, ours
from airflow_provider_ha.coordination.paths import CHECKPOINT_DIGITS, ClusterPaths, JobPaths
from airflow_provider_ha.coordination.znode_records import counter_value
from airflow_provider_ha.errors import NotConnectedError, RecordCorruptError, UnknownJobError
from airflow_provider_ha.jobs.job_graph import GraphPointer
from airflow_provider_ha.jobs.model import Generation, LeaderInfo, Recovery, RunResult, Status
from airflow_provider_ha.jobs.removal.removal_records import DeletedJob
from airflow_provider_ha.jobs.runs.run_store import decode, reads_of_run, steps_of_run
from airflow_provider_ha.jobs.status import JobStatus, NewestRun, RunDepth, StandingDepth
from airflow_provider_ha.records import Record


def list_jobs(
    coordinator: Coordinator, cluster_paths: ClusterPaths, *, watch: Callable[[], None] | None = None
) -> list[str]:
    """Return the ids of the cluster's jobs, sorted; empty if the cluster does not exist yet.

    :param watch: Called once or twice when the list may have changed.
    """
    known = ours(coordinator.children(cluster_paths.base, watch=watch), is_job, parent=cluster_paths.base)
    # Read after the jobs: a job deleted between the two reads is in this list.
    gone = set(coordinator.children(cluster_paths.deleted_jobs, watch=watch))
    return [job_id for job_id in known if job_id not in gone]


def list_deleted_jobs(coordinator: Coordinator, cluster_paths: ClusterPaths) -> list[str]:
    """Return the ids of the jobs that are deleted or being deleted, sorted."""
    return ours(coordinator.children(cluster_paths.deleted_jobs), is_job, parent=cluster_paths.deleted_jobs)


def create_job(coordinator: Coordinator, paths: JobPaths) -> None:
    """Create the parents of all nodes of the job. Idempotent.

    A job without a run is harmless: it is not recovered, and the next submission uses it.
    """
    coordinator.ensure(*paths.skeleton)


T = TypeVar("T")
RecordT = TypeVar("RecordT", bound=Record)
SESSIONS = 3  # attempts to read a job within one session: the order of reads holds only there
_AT_ONCE = 500  # jobs per round trip: the responses arrive within a heartbeat


def read_status(coordinator: Coordinator, paths: JobPaths) -> JobStatus:
    """Read a whole job.

    :raises UnknownJobError: The job does not exist; the message has the cluster's jobs.
    :raises RecordCorruptError: A record of the job is damaged.
    :raises NotConnectedError: ZooKeeper could not be read, so the state of the job is unknown.
    """
    return in_one_session(
        coordinator, paths.label, lambda: assemble(coordinator, paths, coordinator.read(first_reads(paths)))
    )


def survey(
    coordinator: Coordinator, cluster: ClusterPaths, job_ids: Iterable[str], *, watch: PathWatch | None = None
) -> Iterator[JobStatus[StandingDepth]]:
    """Yield the jobs' standings, in two round trips for all.

    :param watch: Called with the path of a node that was read, when it may have changed.
    :raises NotConnectedError: ZooKeeper could not be read, so the state of the jobs is unknown.
    """
    kept_apart = set(coordinator.children(cluster.quarantine))
    jobs = [cluster.job(job_id) for job_id in job_ids]
    for start in range(0, len(jobs), _AT_ONCE):
        some = jobs[start : start + _AT_ONCE]
        steps = partial(_standings, coordinator, some, kept_apart, watch)
        yield from in_one_session(coordinator, f"{len(some)} jobs", steps)


def _standings(
    coordinator: Coordinator, jobs: Iterable[JobPaths], kept_apart: set[str], watch: PathWatch | None
) -> list[JobStatus[StandingDepth]]:
    return follow_all(coordinator, [standing_steps(job, job.job_id in kept_apart) for job in jobs], watch=watch)


def in_one_session(coordinator: Coordinator, what: str, read: Callable[[], T]) -> T:
    """Return the result of *read*, repeated if the session changed: the order of reads holds only within a session.

    :param what: Subject of the read, for the error.
    :raises NotConnectedError: The session changed repeatedly.
    """
    for _ in range(SESSIONS):
        session = coordinator.session
        found = read()
        if session is not None and session == coordinator.session:
            return found
    raise NotConnectedError(
        f"{what} could not be read: the ZooKeeper session changed {SESSIONS} times during the read",
        next_step="Check the network and the ensemble",
    )


def standing_steps(paths: JobPaths, quarantined: bool = False) -> Steps[JobStatus[StandingDepth]]:
    """Read whether a job may need recovery. An unreadable record makes the status broken."""
    first = (yield Reads((paths.epoch, paths.leader, paths.job_graph))).nodes
    epoch, node = first[paths.epoch], first[paths.job_graph]
    read = [epoch, first[paths.leader], node]
    pointer, is_readable = _readable(node, GraphPointer)
    newest = None
    if node is not None and pointer is not None and pointer.attempt > 0:
        exit_path, result_path = paths.submission_exit(pointer.run, pointer.attempt), paths.run_result(pointer.run)
        second = (yield Reads((exit_path, result_path))).nodes
        read += [second[exit_path], second[result_path]]
        result, is_readable = _readable(second[result_path], RunResult)
        newest = NewestRun(
            number=pointer.run,
            attempt=pointer.attempt,
            created_zxid=node.modified_zxid,
            ended=second[exit_path] is not None,
            result=result,
        )
    leader, is_known = _readable(first[paths.leader], LeaderInfo)
    if newest is None or not (newest.ended or newest.result):  # the owner of an unreadable node leads anyway
        is_readable = is_readable and is_known
    return JobStatus(
        job_id=paths.job_id,
        leader=leader,
        epoch=epoch.version if epoch is not None else 0,
        epoch_zxid=epoch.modified_zxid if epoch is not None else 0,
        graph=pointer,
        facts=newest,
        quarantined=quarantined,
        broken=node is not None and not is_readable,
        mark=tuple(None if each is None else each.modified_zxid for each in read),
    )


def run_steps(paths: JobPaths, quarantined: bool = False) -> Steps[JobStatus[RunDepth]]:
    """Read the state of the newest run of a job. An unreadable record makes the status broken.

    A live run without a graph pointer takes the reads of the whole job: only the numbers of its submissions show the
    newest one.
    """
    first = yield Reads((paths.epoch, paths.leader, paths.status, paths.job_graph), (paths.runs,))
    epoch, node = first.nodes[paths.epoch], first.nodes[paths.job_graph]
    job: JobStatus[RunDepth] = JobStatus(
        job_id=paths.job_id,
        epoch=epoch.version if epoch is not None else 0,
        epoch_zxid=epoch.modified_zxid if epoch is not None else 0,
        quarantined=quarantined,
    )
    numbers = node_numbers(first.lists[paths.runs], parent=paths.runs)
    try:
        pointer = decode(node, GraphPointer)
        leader, status = decode(first.nodes[paths.leader], LeaderInfo), decode(first.nodes[paths.status], Status)
        job = replace(job, graph=pointer, leader=leader, status=status)
        if not numbers:
            return job
        run, attempt = numbers[-1], pointer.attempt if pointer is not None and pointer.run == numbers[-1] else 0
        ends = (paths.submission_started(run, attempt), paths.submission_exit(run, attempt)) if attempt else ()
        second = (yield Reads((*ends, paths.run_result(run)))).nodes
        result = decode(second[paths.run_result(run)], RunResult)
        if not attempt and result is None:
            return replace((yield from whole_steps(paths)), quarantined=quarantined)
        started, ended = (second[path] is not None for path in ends) if ends else (False, False)
    except (RecordCorruptError, UnknownJobError):
        return replace(job, broken=True)
    zxid = node.modified_zxid if node is not None else 0
    newest = NewestRun(number=run, attempt=attempt, created_zxid=zxid, started=started, ended=ended, result=result)
    return replace(job, facts=newest)


def _readable(node: Node | None, record: type[RecordT]) -> tuple[RecordT | None, bool]:
    """Return the record of a node, and whether it can be read; a missing node can."""
    try:
        return decode(node, record), True
    except RecordCorruptError:
        return None, False


def first_reads(paths: JobPaths) -> Reads:
    """Return the first of the three reads of a whole job."""
    return Reads(
        (
            paths.epoch,
            paths.leader,
            paths.base,
            paths.status,
            paths.job_graph,
            paths.generation,
            paths.checkpoint_id_counter,
        ),
        (paths.runs, paths.checkpoints),
    )


def assemble(coordinator: Coordinator, paths: JobPaths, first: ReadResponse) -> JobStatus:
    """Return the whole job from the first round trip and two more.

    :raises UnknownJobError, RecordCorruptError: As :func:`read_status`.
    """
    if _is_unknown(paths, first):
        raise _unknown(coordinator, paths)
    return follow(coordinator, _assembled(paths, first))


def whole_steps(paths: JobPaths) -> Steps[JobStatus]:
    """Read a whole job in three round trips, which other readers may share.

    :raises UnknownJobError, RecordCorruptError: As :func:`read_status`.
    """
    first = yield first_reads(paths)
    if _is_unknown(paths, first):
        raise UnknownJobError(f"job {paths.job_id!r} is not known in cluster {paths.cluster.cluster_id!r}")
    return (yield from _assembled(paths, first))


def _assembled(paths: JobPaths, first: ReadResponse) -> Steps[JobStatus]:
    epoch = first.nodes[paths.epoch]
    base = first.nodes[paths.base]
    if base is not None and base.data:
        raise DeletedJob.from_bytes(base.data, source=base.path).error(paths.job_id)
    number = epoch.version if epoch else 0
    leader = decode(first.nodes[paths.leader], LeaderInfo)
    status = decode(first.nodes[paths.status], Status)
    checkpoints = node_numbers(first.lists[paths.checkpoints], parent=paths.checkpoints, digits=CHECKPOINT_DIGITS)
    runs = node_numbers(first.lists[paths.runs], parent=paths.runs)
    second = yield Reads((paths.recovery(number),)) + (reads_of_run(paths, runs[-1]) if runs else Reads())
    run = (yield from steps_of_run(paths, runs[-1], second)) if runs else None
    return JobStatus(
        job_id=paths.job_id,
        leader=leader,
        epoch=number,
        epoch_zxid=epoch.modified_zxid if epoch else 0,
        run=run,
        status=status,
        graph=decode(first.nodes[paths.job_graph], GraphPointer),
        generation=decode(first.nodes[paths.generation], Generation),
        checkpoint_numbers=tuple(checkpoints),
        checkpoint_counter=counter_value(first.nodes[paths.checkpoint_id_counter]),
        recovery=decode(second.nodes[paths.recovery(number)], Recovery),
    )


def _is_unknown(paths: JobPaths, first: ReadResponse) -> bool:
    return first.nodes[paths.epoch] is None and first.nodes[paths.base] is None


def _unknown(coordinator: Coordinator, paths: JobPaths) -> UnknownJobError:
    root, _, cluster_id = paths.base.removesuffix(f"/{paths.job_id}").rpartition("/")
    known = list_jobs(coordinator, ClusterPaths(root, cluster_id))
    error = UnknownJobError(
        f"job {paths.job_id!r} is not known in cluster {cluster_id!r}",
        next_step=f"Choose from {known}" if known else "Submit a job first: the cluster has none",
    )
    error.known = tuple(known)
    return error
