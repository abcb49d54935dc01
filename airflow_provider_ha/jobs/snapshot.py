"""Everything known about a job at one time, and the state that follows from it.

The order of the reads is the invariant of this module. ZooKeeper keeps the reads of one session in order and never goes
back, so a later read sees at least what an earlier one saw. Therefore:

1. The epoch before the leader node. Both are written in one transaction, so when the leader node is then absent, the
   leadership of *that* epoch is over. The other way round, a new leader between the two reads would make a living epoch
   look lost.
2. The leader node before the exits, and the exits before the result. The first two are what a LOST verdict rests on;
   the result is what refutes it, and a driver writes it before it gives up its node or its life. So a job that finished
   meanwhile is seen as finished, never as LOST.
3. The status before the result, for the same reason: who sees a status of a finished run sees the result too.

A LOST verdict may be outdated when it is acted on. That is harmless: recovery creates ``recoveries/<lost epoch>`` and
the next submission in one transaction, and only one can (contract 9).
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.counter import read_counter
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.errors import NotConnectedError, UnknownJobError
from airflow_provider_ha.jobs.jobs import list_jobs
from airflow_provider_ha.jobs.model import Generation, GraphPointer, JobState, LeaderInfo, Recovery, Status
from airflow_provider_ha.jobs.runs import RunStore, RunView, SubmissionView, decode


SESSIONS = 3  # attempts to read a job within one session: the order of reads holds only there


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSnapshot:
    """A job as it was read.

    :param leader: Who leads; ``None`` when nobody does.
    :param epoch: Epoch of the latest leadership, past or present; 0 when the job was never led.
    :param epoch_zxid: ZooKeeper transaction of that leadership: orders it against submissions.
    :param run: The newest run.
    :param status: What the leader last wrote; may be of an earlier epoch.
    :param graph: Exists if and only if a new leader has to recover the job.
    :param generation: Which working directory is current.
    :param checkpoint_numbers: Retained checkpoints, ascending.
    :param checkpoint_counter: Highest checkpoint number ever given out; 0 for none.
    :param recovery: Who recovers the loss of *epoch*; ``None`` while nobody does.
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


def read_snapshot(coordinator: Coordinator, paths: JobPaths) -> JobSnapshot:
    """Read a job, in the order that the module explains.

    :raises UnknownJobError: The cluster has no such job; names those that it has.
    :raises RecordCorruptError: A record of the job is not what was written.
    :raises NotConnectedError: Could not be found out: says nothing about the job.
    """
    for _ in range(SESSIONS):
        session = coordinator.session
        snapshot = _read(coordinator, paths)
        if session is not None and session == coordinator.session:
            return snapshot
    raise NotConnectedError(
        f"job {paths.job_id!r} could not be read: the ZooKeeper session changed {SESSIONS} times meanwhile",
        next_step="Check the network and the ensemble",
    )


def job_state(snapshot: JobSnapshot) -> JobState:
    """Decide in which state the newest run of a job is. Pure.

    A result decides. Else the newest submission is lost when its processes are proven dead (its leader node may outlive
    them by a session timeout). Else the leader of this run decides. Without one, the submission is lost when it has led
    before, and otherwise on its way.
    """
    if snapshot.run is None:
        return JobState.SUBMITTED
    if snapshot.run.result is not None:
        return snapshot.run.result.state
    return _live_state(snapshot, snapshot.run)


def _live_state(snapshot: JobSnapshot, view: RunView) -> JobState:
    newest = view.newest
    if newest is not None and newest.exit is not None:
        return JobState.LOST
    if snapshot.leader is not None and snapshot.leader.run == view.run.number:
        return _led_state(snapshot.leader, snapshot.status)
    if newest is None:
        return JobState.SUBMITTED
    if snapshot.leader is None and _has_led(snapshot, newest):
        return JobState.LOST
    return JobState.STARTING if newest.started is not None else JobState.SUBMITTED


def _read(coordinator: Coordinator, paths: JobPaths) -> JobSnapshot:
    epoch = coordinator.find(paths.epoch)
    leader = decode(coordinator.find(paths.leader), LeaderInfo)
    if epoch is None and coordinator.find(paths.base) is None:
        raise _unknown(coordinator, paths)
    number = epoch.version if epoch else 0
    status = decode(coordinator.find(paths.status), Status)
    run = RunStore(coordinator, paths).latest()
    return JobSnapshot(
        job_id=paths.job_id,
        leader=leader,
        epoch=number,
        epoch_zxid=epoch.modified_zxid if epoch else 0,
        run=run,
        status=status,
        graph=decode(coordinator.find(paths.job_graph), GraphPointer),
        generation=decode(coordinator.find(paths.generation), Generation),
        checkpoint_numbers=tuple(sorted(int(name) for name in coordinator.children(paths.checkpoints))),
        checkpoint_counter=read_counter(coordinator, paths.checkpoint_id_counter),
        recovery=decode(coordinator.find(paths.recovery(number)), Recovery),
    )


def _led_state(leader: LeaderInfo, status: Status | None) -> JobState:
    """Return what the leader says of itself; a status of another epoch says nothing about this one."""
    if status is None or status.epoch != leader.epoch:
        return JobState.STARTING
    # Terminal is what has a result. Without one the leader is still on its way there.
    return JobState.STOPPING if status.state.terminal else status.state


def _has_led(snapshot: JobSnapshot, newest: SubmissionView) -> bool:
    """Whether the latest leadership was granted after the newest submission was made, so that it was its own.

    Epochs alone cannot tell: those of earlier runs are in the same counter. The order of ZooKeeper's transactions can.
    """
    return snapshot.epoch > 0 and snapshot.epoch_zxid > newest.created_zxid


def _unknown(coordinator: Coordinator, paths: JobPaths) -> UnknownJobError:
    root, _, cluster_id = paths.base.removesuffix(f"/{paths.job_id}").rpartition("/")
    known = list_jobs(coordinator, ClusterPaths(root, cluster_id))
    return UnknownJobError(
        f"job {paths.job_id!r} is not known in cluster {cluster_id!r}",
        next_step=f"Choose one of {known}" if known else "Submit a job first: the cluster has none",
    )
