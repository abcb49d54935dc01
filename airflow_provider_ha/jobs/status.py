"""Everything known about a job at one time, and the state that follows from it.

The order of the reads is the invariant of this module. ZooKeeper keeps the reads of one session in order and never goes
back, so a later read sees at least what an earlier one saw. Therefore:

1. The epoch before the leader node. Both are written in one transaction, so when the leader node is then absent, the
   leadership of *that* epoch is over. The other way round, a new leader between the two reads would make a living epoch
   look lost.
2. The leader node before the exits, and the exits before the result. The first two are what a LOST verdict rests on;
   the result is what refutes it, and a driver writes it before it gives up its node or its life. So a job that finishes
   between two reads is seen as finished, never as LOST.
3. The status before the result, for the same reason: a reader that sees a status of a finished run sees the result too.

Reads whose paths are known go out together, so a job takes three round trips: what it has, its newest run, and the
submissions of that run. Within one round trip the order is that of the requests.

A LOST verdict may be outdated when it is acted on. That is harmless: recovery creates ``recoveries/<lost epoch>`` and
the next submission in one transaction, and only one can (contract 9).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.counter import counter_value
from airflow_provider_ha.coordination.node_names import node_numbers
from airflow_provider_ha.coordination.paths import CHECKPOINT_DIGITS, ClusterPaths, JobPaths
from airflow_provider_ha.coordination.reads import Reads, Seen
from airflow_provider_ha.coordination.steps import Steps, follow
from airflow_provider_ha.errors import NotConnectedError, UnknownJobError
from airflow_provider_ha.jobs.deleted import Deleted
from airflow_provider_ha.jobs.jobs import list_jobs
from airflow_provider_ha.jobs.model import Generation, GraphPointer, JobState, LeaderInfo, Recovery, RunResult, Status
from airflow_provider_ha.jobs.runs import RunView, decode, reads_of_run, steps_of_run


T = TypeVar("T")
SESSIONS = 3  # attempts to read a job within one session: the order of reads holds only there


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """A job as it was read.

    :param leader: The leader; ``None`` without a leader.
    :param epoch: Epoch of the latest leadership, past or present; 0 when the job was never led.
    :param epoch_zxid: ZooKeeper transaction of that leadership: orders it against submissions.
    :param run: The newest run.
    :param status: What the leader last wrote; may be of an earlier epoch.
    :param graph: Exists if and only if a new leader has to recover the job.
    :param generation: Which working directory is current.
    :param checkpoint_numbers: Retained checkpoints, ascending.
    :param checkpoint_counter: Highest checkpoint number ever given out; 0 for none.
    :param recovery: The recovery of the loss of *epoch*; ``None`` while no process has claimed it.
    """

    job_id: str
    leader: LeaderInfo | None = None
    epoch: int = 0
    epoch_zxid: int = 0
    run: RunView | None = None
    status: Status | None = None
    graph: GraphPointer | None = None
    generation: Generation | None = None
    checkpoint_numbers: tuple[int, ...] = ()
    checkpoint_counter: int = 0
    recovery: Recovery | None = None

    @property
    def state(self) -> JobState:
        """State of the newest run."""
        return job_state(self)

    @property
    def latest_checkpoint(self) -> int | None:
        """Number of the newest retained checkpoint."""
        return self.checkpoint_numbers[-1] if self.checkpoint_numbers else None


def read_status(coordinator: Coordinator, paths: JobPaths) -> JobStatus:
    """Read a job, in the order that the module explains.

    :raises UnknownJobError: The cluster has no such job; names those that it has.
    :raises RecordCorruptError: A record of the job is not what was written.
    :raises NotConnectedError: Could not be found out: says nothing about the job.
    """
    return in_one_session(
        coordinator, paths.label, lambda: assemble(coordinator, paths, coordinator.read(first_reads(paths)))
    )


def in_one_session(coordinator: Coordinator, what: str, read: Callable[[], T]) -> T:
    """Return what *read* returns, read again when the session changed: the order of reads holds only in one.

    :param what: What is read, for the error.
    :raises NotConnectedError: It changed again and again.
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


@dataclass(frozen=True, slots=True)
class NewestSubmission:
    """The facts about the newest submission of a run that its state depends on.

    :param created_zxid: ZooKeeper transaction that created it; the graph pointer is written in the same one.
    :param started: Whether its driver or supervisor has reported its start.
    :param ended: Whether all of its processes are proven dead.
    """

    created_zxid: int
    started: bool
    ended: bool


def job_state(snapshot: JobStatus) -> JobState:
    """Return the state of the newest run of a job. Pure."""
    view = snapshot.run
    if view is None:
        return JobState.SUBMITTED
    newest = view.newest
    facts = None
    if newest is not None:
        facts = NewestSubmission(newest.created_zxid, newest.started is not None, newest.exit is not None)
    return run_state(
        view.run.number,
        view.result,
        facts,
        leader=snapshot.leader,
        status=snapshot.status,
        epoch_zxid=snapshot.epoch_zxid if snapshot.epoch > 0 else 0,
    )


def run_state(
    run: int,
    result: RunResult | None,
    newest: NewestSubmission | None,
    *,
    leader: LeaderInfo | None,
    status: Status | None,
    epoch_zxid: int,
) -> JobState:
    """Decide the state of the newest run. Pure; every reader of a job uses this function.

    A result decides. Otherwise the run is lost when the processes of its newest submission are proven dead: its leader
    node may outlive them by a session timeout. Otherwise the leader of this run decides. Without a leader, the run is
    lost when its newest submission has led, and otherwise on its way.

    :param newest: Its newest submission; ``None`` without one.
    :param leader: The leader of the job, of any run.
    :param epoch_zxid: ZooKeeper transaction of the latest leadership; 0 when the job was never led. Epochs alone do not
        show which submission has led, because earlier runs use the same counter; the order of transactions does.
    """
    if result is not None:
        return result.state
    if newest is not None and newest.ended:
        return JobState.LOST
    if leader is not None and leader.run == run:
        return led_state(leader, status)
    if newest is None:
        return JobState.SUBMITTED
    if leader is None and epoch_zxid > newest.created_zxid:
        return JobState.LOST
    return JobState.STARTING if newest.started else JobState.SUBMITTED


def first_reads(paths: JobPaths) -> Reads:
    """Return what can be read of a job before anything is known of it: the first of three round trips."""
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


def assemble(coordinator: Coordinator, paths: JobPaths, first: Seen) -> JobStatus:
    """Return the job from what was seen first, and from two round trips more.

    :raises UnknownJobError, RecordCorruptError: As :func:`read_status`.
    """
    if _is_unknown(paths, first):
        raise _unknown(coordinator, paths)
    return follow(coordinator, _assembled(paths, first))


def whole_steps(paths: JobPaths) -> Steps[JobStatus]:
    """Read a job in three round trips, which other readers may share.

    :raises UnknownJobError, RecordCorruptError: As :func:`read_status`.
    """
    first = yield first_reads(paths)
    if _is_unknown(paths, first):
        raise UnknownJobError(f"job {paths.job_id!r} is not known in cluster {paths.cluster.cluster_id!r}")
    return (yield from _assembled(paths, first))


def _assembled(paths: JobPaths, first: Seen) -> Steps[JobStatus]:
    epoch = first.nodes[paths.epoch]
    base = first.nodes[paths.base]
    if base is not None and base.data:
        raise Deleted.from_bytes(base.data, source=base.path).error(paths.job_id)
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


def _is_unknown(paths: JobPaths, first: Seen) -> bool:
    return first.nodes[paths.epoch] is None and first.nodes[paths.base] is None


def led_state(leader: LeaderInfo, status: Status | None) -> JobState:
    """Return the leader's own record; a status of another epoch says nothing about this one."""
    if status is None or status.epoch != leader.epoch:
        return JobState.STARTING
    if status.is_stalled:
        return JobState.STALLED
    # Terminal is what has a result. Without one the leader is still on its way there.
    return JobState.STOPPING if status.state.terminal else status.state  # guard: status-is-taken-for-a-result


def led_lag(leader: LeaderInfo | None, status: Status | None) -> int | None:
    """Return the rows that the sources of a led job have and its queries have not read; at most a minute old.

    :returns: ``None`` without a leader that has written a status, and when no query of it tells its lag.
    """
    if leader is None or status is None or status.epoch != leader.epoch:
        return None
    told = [query.lag for query in status.queries.values() if query.lag is not None]
    return sum(told) if told else None


def _unknown(coordinator: Coordinator, paths: JobPaths) -> UnknownJobError:
    root, _, cluster_id = paths.base.removesuffix(f"/{paths.job_id}").rpartition("/")
    known = list_jobs(coordinator, ClusterPaths(root, cluster_id))
    error = UnknownJobError(
        f"job {paths.job_id!r} is not known in cluster {cluster_id!r}",
        next_step=f"Choose one of {known}" if known else "Submit a job first: the cluster has none",
    )
    error.known = tuple(known)
    return error
