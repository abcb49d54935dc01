"""Watchers of a job: claims of Airflow tasks, announcements of waiting triggers, and the record of the cluster leader.

Two processes of the same task instance can live simultaneously: the first one's supervisor dies, Airflow starts a
second process, and the first is killed later. Its ``on_kill`` must not stop the stream that the second one watches. So
each process claims the watcher's node, and a kill is a compare-and-set on that claim, without effect for an earlier
process.

The claim has its own version, unrelated to the leader's epoch: a watcher decides nothing about the job. Its node is set
but never deleted, because a version that restarts could make an old claim look current. A run may have any number of
watchers, each with its own ``when_killed``. A second node records the run that a watcher of another request follows, so
that retries and cleared tasks find the same run.

A claim in ``watchers/`` outlives its task and says nothing about the present. So a waiting trigger also holds an
ephemeral node, which vanishes with the wait or with the triggerer's session. It is shown to users, and no decision
depends on it. Its parent has to exist, and is never created for it: a trigger that has not noticed the erasure of a job
must not recreate the job.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import ClassVar

from airflow_provider_ha.clock import SystemClock, new_id
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Op, SetData
from airflow_provider_ha.coordination.node_names import is_plain
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.coordination.znode_records import create_once, read_record
from airflow_provider_ha.errors import (
    LeadershipUnavailableError,
    NodeExistsError,
    NotConnectedError,
    OutcomeUnknownError,
    RecordCorruptError,
    VersionConflictError,
)
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.removal.removal_records import RemovedRunStore, removed
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.names import safe_segment
from airflow_provider_ha.records import Record


class ClusterLeaderInfo(Record):
    """Data of the leader node of ``resource_manager_lock``. Holds no secret.

    :param epoch: Epoch of this leadership of the cluster.
    :param address: Address shown to users and to refused contenders: a URL, a unit name, a DAG run.
    :param inspected_at: Time of its last inspection of jobs, to the nearest quarter of a minute; ``None`` before the
        first.
    """

    kind: ClassVar[str] = "cluster-leader"

    epoch: int
    host: str
    pid: int
    address: str
    since: datetime
    inspected_at: datetime | None = None

    def uninspected(self, now: datetime) -> float:
        """Return the seconds since its last inspection of jobs, or since its grant before the first."""
        return max(0.0, round((now - (self.inspected_at or self.since)).total_seconds(), 3))


def read_cluster_leader(coordinator: Coordinator, paths: ClusterPaths) -> ClusterLeaderInfo | None:
    """Return the leader of the cluster; ``None`` without a leader.

    :raises RecordCorruptError: The leader's record cannot be read.
    """
    found = read_record(coordinator, paths.lock.leader, ClusterLeaderInfo)
    return None if found is None else found[0]


def not_leading(coordinator: Coordinator, paths: ClusterPaths) -> LeadershipUnavailableError:
    """Return the error of a process that would have to lead the cluster; the message names the actual leader."""
    leader = read_cluster_leader(coordinator, paths)
    if leader is None:
        return LeadershipUnavailableError(
            f"{paths.lock.label} has no leader now, and this process does not lead it", next_step="Try again shortly"
        )
    return LeadershipUnavailableError(
        f"{paths.lock.label} is led by {leader.address} on {leader.host} (pid {leader.pid}), epoch {leader.epoch}",
        next_step=f"Ask {leader.address}",
    )


LIVE = "live-"


class Presence(Record):
    """``watchers/live-<id>``, ephemeral: a process waits for a loss now. Holds no secret.

    :param watcher: Request id of the waiting task, or name of the trigger.
    :param host: The triggerer's host.
    :param pid: The triggerer's process id.
    """

    kind: ClassVar[str] = "presence"

    watcher: str
    host: str
    pid: int
    since: datetime


@dataclass(frozen=True, slots=True)
class Announcement:
    """Announcement of a wait. Each has its own node, even if an earlier trigger of the same task still has one.

    :param path: Path of the ephemeral node.
    :param watcher: The waiting task or trigger.
    :param parent: A parent node that may be created for it; ``None`` if it has to exist.
    """

    path: str
    watcher: str
    parent: str | None = None

    @classmethod
    def of_task(cls, paths: JobPaths, watcher: str) -> Announcement:
        """Return the announcement of a task that follows a job."""
        return cls(paths.watcher(_name()), watcher)

    @classmethod
    def of_cluster(cls, cluster: ClusterPaths, watcher: str) -> Announcement:
        """Return the announcement of a trigger for all jobs."""
        return cls(cluster.watcher(_name()), watcher, cluster.watchers)

    def create(self) -> Create:
        """Return the creation of the node, owned by the committing session."""
        record = Presence(watcher=self.watcher, host=socket.gethostname(), pid=os.getpid(), since=SystemClock().now())
        return Create(self.path, record.to_bytes(), ephemeral=True)


def _name() -> str:
    return f"{LIVE}{new_id()[:12]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchStatus:
    """Processes that would recover a job if its driver were lost now.

    :param cluster: Recoverers of all jobs of the cluster: its leader, and event triggers that start a recovering DAG.
    """

    tasks: tuple[str, ...] = ()
    cluster: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Description of the watching processes for users; empty without any."""
        return ", ".join((*self.tasks, *self.cluster))


def watched(coordinator: Coordinator, paths: JobPaths) -> WatchStatus:
    """Return the processes that watch a job now.

    :raises NotConnectedError: ZooKeeper could not be read.
    """
    return WatchStatus(
        tasks=tuple(f"task {each}" for each in _present(coordinator, paths)),
        cluster=(*_leader(coordinator, paths), *_present(coordinator, paths.cluster)),
    )


def warning(snapshot: JobStatus, watching: WatchStatus) -> str:
    """Return a problem and its remedy if no process watches a live run; empty otherwise."""
    live = snapshot.run is not None and snapshot.run.result is None
    if not live or watching.sentence:
        return ""
    lost = snapshot.state is JobState.LOST
    now = (
        "its driver is lost, and only its own host may start it again"
        if lost
        else "a driver that is lost with its host is not submitted again"
    )
    return (
        f"No task follows job {snapshot.job_id!r} and no cluster leader watches it: {now}. "
        f"Recover it once: spark-ha job recover {snapshot.job_id}. "
        "For good: spark-ha cluster recover --watch, or unpause the DAG recover_jobs"
    )


def _present(coordinator: Coordinator, paths: JobPaths | ClusterPaths) -> list[str]:
    found = []
    for name in coordinator.children(paths.watchers):
        if not (name.startswith(LIVE) and is_plain(name)):
            continue
        try:
            read = read_record(coordinator, paths.watcher(name), Presence)
        except RecordCorruptError:
            continue  # a claim of a task with such a name, or a node of another program
        if read is not None:
            found.append(f"{read[0].watcher} (triggerer {read[0].host}, pid {read[0].pid})")
    return sorted(found)


def _leader(coordinator: Coordinator, paths: JobPaths) -> tuple[str, ...]:
    try:
        leader = read_cluster_leader(coordinator, paths.cluster)
    except RecordCorruptError:
        return ("a cluster leader whose node cannot be read",)
    return () if leader is None else (f"cluster leader {leader.address} ({leader.host}, pid {leader.pid})",)


FOLLOWED = "-run"  # suffix of a claim's name: the node that records the followed run
ATTEMPTS = 10  # a task instance has two rival processes, rarely three


class KillPolicy(str, Enum):
    """Effect on the stream when a watcher is killed."""

    DETACH = "detach"
    STOP_WITH_CHECKPOINT = "stop_with_checkpoint"
    CANCEL = "cancel"


class WatcherClaim(Record):
    """``watchers/<id>``: the process of a task instance that watches now.

    :param holder: The task instance's id; Airflow creates a new id for each try.
    :param nonce: Random id of this write, to recognise it after a lost response.
    :param released: Whether its holder has released the claim; for display only, programs compare the version.
    """

    kind: ClassVar[str] = "watcher-claim"

    holder: str
    when_killed: KillPolicy
    nonce: str
    released: bool = False


class FollowedRun(Record):
    """``watchers/<id>-run``: the run of another request that the claim's watcher follows."""

    kind: ClassVar[str] = "followed-run"

    run: int


def follow_first(coordinator: Coordinator, paths: JobPaths, watcher_id: str, run: int) -> int:
    """Return the run that a watcher followed first; record *run* if it follows none yet.

    :raises JobStateError: The followed run was removed.
    """
    path = _followed(paths, watcher_id)
    if coordinator.find(path) is None and (gone := RemovedRunStore(coordinator, paths).find(watcher_id)) is not None:
        raise removed(paths, gone.run)
    create_once(coordinator, path, FollowedRun(run=run))
    found = read_record(coordinator, path, FollowedRun)
    return found[0].run if found else run


def follow(coordinator: Coordinator, paths: JobPaths, watcher_id: str, run: int) -> None:
    """Record that a watcher follows *run* from now on.

    :raises NotConnectedError: ZooKeeper did not answer.
    """
    path = _followed(paths, watcher_id)
    data = FollowedRun(run=run).to_bytes()
    for _ in range(ATTEMPTS):
        found = read_record(coordinator, path, FollowedRun)
        if found is not None and found[0].run == run:
            return
        write: Op = Create(path, data) if found is None else SetData(path, data, found[1])
        try:
            coordinator.commit(write)
        except (NodeExistsError, VersionConflictError, OutcomeUnknownError):
            continue
    raise NotConnectedError(f"the run of watcher {watcher_id!r} could not be recorded in {ATTEMPTS} attempts")


def followed(coordinator: Coordinator, paths: JobPaths, watcher_id: str) -> int | None:
    """Return the run of another request that a watcher follows; ``None`` without any."""
    found = read_record(coordinator, _followed(paths, watcher_id), FollowedRun)
    return found[0].run if found else None


def _followed(paths: JobPaths, watcher_id: str) -> str:
    # Request ids end in a digest, so this name cannot equal another watcher's claim.
    return paths.watcher(f"{safe_segment(watcher_id)}{FOLLOWED}")


def claim(coordinator: Coordinator, paths: JobPaths, watcher_id: str, *, ti_id: str, when_killed: KillPolicy) -> int:
    """Claim a watcher for this process, taking it from any other process, and return the version of the claim.

    :param watcher_id: Id shared by the task instance's retries, processes and triggers.
    :param ti_id: Id of the task instance; it may claim again when its trigger moves to another triggerer.
    :raises NotConnectedError: ZooKeeper did not answer.
    """
    path = paths.watcher(watcher_id)
    data = WatcherClaim(holder=ti_id, when_killed=when_killed, nonce=new_id()).to_bytes()
    for _ in range(ATTEMPTS):
        node = coordinator.find(path)
        write: Op = Create(path, data) if node is None else SetData(path, data, node.version)
        try:
            return coordinator.commit(write)[0]
        except (NodeExistsError, VersionConflictError, OutcomeUnknownError):
            continue
    raise NotConnectedError(f"watcher {watcher_id!r} could not be claimed in {ATTEMPTS} attempts")


def release(coordinator: Coordinator, paths: JobPaths, watcher_id: str, version: int) -> bool:
    """Release a claim; return whether it was still held, because only then may a kill affect the stream.

    True at most once per claim, even after a lost response.

    :param version: Version of the claim, as returned by :func:`claim`.
    :raises OutcomeUnknownError: ZooKeeper's response was lost; call again.
    :raises NotConnectedError: ZooKeeper did not answer, so the state of the claim is unknown.
    """
    path = paths.watcher(watcher_id)
    found = read_record(coordinator, path, WatcherClaim)
    if found is None:
        return False
    data = found[0].model_copy(update={"released": True, "nonce": new_id()}).to_bytes()
    try:
        coordinator.commit(SetData(path, data, version))
    except VersionConflictError:
        return False
    except OutcomeUnknownError:
        node = coordinator.get(path)
        if node.version == version:
            raise
        return node.data == data
    return True
