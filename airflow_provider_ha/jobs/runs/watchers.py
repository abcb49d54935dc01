"""Watchers of a job: claims of Airflow tasks, and the processes that notice a lost driver.

Two processes of one task instance can live at once: its supervisor dies, Airflow starts a second process, and the
first is killed later. Its ``on_kill`` must not stop the stream that the second one watches. So each process claims the
watcher's node, and a kill is a compare-and-set on that claim: a process that was overtaken kills
nothing.

The claim has its own version and never the leader's epoch: a watcher decides nothing about the job. Its node is set,
never deleted: a version that begins again could make an old claim look like a current one.

A run may have any number of watchers. Which run the watcher of another request follows is written down beside its
claim, so that its retries and clears find the same one. Each claim has its own ``when_killed``.

A claim in ``watchers/`` outlives its task, so it says nothing about now. A trigger that waits therefore keeps an
ephemeral node as well: it vanishes with the wait, or with the triggerer's session. Only people read it: nothing
decides by it.

The node lies below a parent that exists, and no parent is ever made for it: a job that was erased is not made again by
a trigger that has not noticed.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import ClassVar

from airflow_provider_ha.clock import SystemClock, new_id
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Node, Op, SetData
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
from airflow_provider_ha.jobs.model import JobState, LeaderInfo
from airflow_provider_ha.jobs.removal.removal_records import RemovedRunStore, removed
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.names import safe_segment
from airflow_provider_ha.records import Record


class ClusterLeaderInfo(Record):
    """Data of the leader node of ``resource_manager_lock``. Holds no secret.

    :param epoch: Epoch of this leadership of the cluster.
    :param address: Address shown to people and to refused contenders: a URL, a unit name, a DAG run.
    :param inspected_at: When it had last inspected jobs, to the nearest quarter of a minute; ``None`` when it had not.
    """

    kind: ClassVar[str] = "cluster-leader"

    epoch: int
    host: str
    pid: int
    address: str
    since: datetime
    inspected_at: datetime | None = None

    def uninspected(self, now: datetime) -> float:
        """Return the seconds for which it has inspected no job, since its grant when it never has."""
        return max(0.0, round((now - (self.inspected_at or self.since)).total_seconds(), 3))


def read_cluster_leader(coordinator: Coordinator, paths: ClusterPaths) -> ClusterLeaderInfo | None:
    """Return the leader of the cluster; ``None`` when there is none.

    :raises RecordCorruptError: There is one, and its record cannot be read.
    """
    found = read_record(coordinator, paths.lock.leader, ClusterLeaderInfo)
    return None if found is None else found[0]


def not_leading(coordinator: Coordinator, paths: ClusterPaths) -> LeadershipUnavailableError:
    """Return the error for a process that would have to lead the cluster and does not: it names the one that does."""
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
    """``watchers/live-<id>``, ephemeral: something waits for a loss now. Holds no secret.

    :param watcher: Which task, by its request id, or which trigger.
    :param host: Where it waits: the triggerer's host.
    :param pid: The triggerer's process.
    """

    kind: ClassVar[str] = "presence"

    watcher: str
    host: str
    pid: int
    since: datetime


@dataclass(frozen=True, slots=True)
class Announcement:
    """One wait that is announced; its node is its own, also beside that of an earlier trigger of the same task.

    :param path: The ephemeral node.
    :param watcher: Which task or trigger waits.
    :param parent: A parent that may be made for it; ``None`` when it has to exist.
    """

    path: str
    watcher: str
    parent: str | None = None

    @classmethod
    def of_task(cls, paths: JobPaths, watcher: str) -> Announcement:
        """Return that of a task that follows a job."""
        return cls(paths.watcher(_name()), watcher)

    @classmethod
    def of_cluster(cls, cluster: ClusterPaths, watcher: str) -> Announcement:
        """Return that of a trigger that looks after all jobs."""
        return cls(cluster.watcher(_name()), watcher, cluster.watchers)

    def create(self) -> Create:
        """Return the write that makes the node for the session that commits it."""
        record = Presence(watcher=self.watcher, host=socket.gethostname(), pid=os.getpid(), since=SystemClock().now())
        return Create(self.path, record.to_bytes(), ephemeral=True)


def _name() -> str:
    return f"{LIVE}{new_id()[:12]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchStatus:
    """What would recover a job if its driver were lost now.

    :param tasks: Tasks that follow the job.
    :param cluster: Recoverers of all jobs of the cluster: its leader, and event triggers that start a DAG for that.
    """

    tasks: tuple[str, ...] = ()
    cluster: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Return what watches, for people; empty when nothing does."""
        return ", ".join((*self.tasks, *self.cluster))


def watched(coordinator: Coordinator, paths: JobPaths) -> WatchStatus:
    """Return what watches a job now.

    :raises NotConnectedError: Could not be found out.
    """
    return WatchStatus(
        tasks=tuple(f"task {each}" for each in _present(coordinator, paths)),
        cluster=(*_leader(coordinator, paths), *_present(coordinator, paths.cluster)),
    )


def warning(snapshot: JobStatus, watching: WatchStatus) -> str:
    """Return what is wrong and what helps when nothing watches a live run; empty when all is well."""
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
        f"Recover it once: spark-ha recover {snapshot.job_id}. "
        "For good: spark-ha recover --watch, or unpause the DAG recover_jobs"
    )


def _present(coordinator: Coordinator, paths: JobPaths | ClusterPaths) -> list[str]:
    found = []
    for name in coordinator.children(paths.watchers):
        if not (name.startswith(LIVE) and is_plain(name)):
            continue
        try:
            read = read_record(coordinator, paths.watcher(name), Presence)
        except RecordCorruptError:
            continue  # a claim of a task that is called like that, or a node of another program
        if read is not None:
            found.append(f"{read[0].watcher} (triggerer {read[0].host}, pid {read[0].pid})")
    return sorted(found)


def _leader(coordinator: Coordinator, paths: JobPaths) -> tuple[str, ...]:
    try:
        leader = read_cluster_leader(coordinator, paths.cluster)
    except RecordCorruptError:
        return ("a cluster leader whose node cannot be read",)
    return () if leader is None else (f"cluster leader {leader.address} ({leader.host}, pid {leader.pid})",)


def readable_leader(node: Node | None) -> LeaderInfo | None:
    """Return what a leader says of itself; ``None`` when there is no node, or what it holds is no record.

    A node that cannot be read is no error here: its owner leads all the same, and a look at the whole job names it.
    """
    if node is None:
        return None
    try:
        return LeaderInfo.from_bytes(node.data, source=node.path)
    except RecordCorruptError:
        return None


FOLLOWED = "-run"  # after the name of a claim: the node that says which run it follows
ATTEMPTS = 10  # rivals for one task instance are two, seldom three


class KillPolicy(str, Enum):
    """What the killing of a watcher does to the stream."""

    DETACH = "detach"
    STOP_WITH_CHECKPOINT = "stop_with_checkpoint"
    CANCEL = "cancel"


class WatcherClaim(Record):
    """``watchers/<id>``: which process of a task instance watches now.

    :param holder: The task instance's id: Airflow makes a new one for each try.
    :param nonce: Of this very write: distinguishes it from another one after a lost answer.
    :param released: Whether its holder gave it up; for people; programs compare the version.
    """

    kind: ClassVar[str] = "watcher-claim"

    holder: str
    when_killed: KillPolicy
    nonce: str
    released: bool = False


class FollowedRun(Record):
    """``watchers/<id>-run``: which run of another request the watcher of that claim follows.

    :param run: Its number.
    """

    kind: ClassVar[str] = "followed-run"

    run: int


def follow_first(coordinator: Coordinator, paths: JobPaths, watcher_id: str, run: int) -> int:
    """Return the run that a watcher has followed first, which is *run* when it follows none yet.

    :raises JobStateError: The run that it has followed was removed.
    """
    path = _followed(paths, watcher_id)
    if coordinator.find(path) is None and (gone := RemovedRunStore(coordinator, paths).find(watcher_id)) is not None:
        raise removed(paths, gone.run)
    create_once(coordinator, path, FollowedRun(run=run))
    found = read_record(coordinator, path, FollowedRun)
    return found[0].run if found else run


def follow(coordinator: Coordinator, paths: JobPaths, watcher_id: str, run: int) -> None:
    """Note that a watcher follows *run* from now on.

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
    raise NotConnectedError(f"what watcher {watcher_id!r} follows could not be noted in {ATTEMPTS} attempts")


def followed(coordinator: Coordinator, paths: JobPaths, watcher_id: str) -> int | None:
    """Return the run of another request that a watcher follows; ``None`` when there is none."""
    found = read_record(coordinator, _followed(paths, watcher_id), FollowedRun)
    return found[0].run if found else None


def _followed(paths: JobPaths, watcher_id: str) -> str:
    # Ids of requests end in a digest, so this is no other watcher's claim.
    return paths.watcher(f"{safe_segment(watcher_id)}{FOLLOWED}")


def claim(coordinator: Coordinator, paths: JobPaths, watcher_id: str, *, ti_id: str, when_killed: KillPolicy) -> int:
    """Claim a watcher for this process, also when another one had it, and return the version of the claim.

    :param watcher_id: Of the task instance: the same for its retries, its processes and its triggers.
    :param ti_id: Id of the task instance; it may claim again, when its trigger moves to another triggerer.
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
    """Give a claim up. Whether it was still held: only then may a kill do anything to the stream.

    True at most once per claim, also when an answer is lost on the way.

    :param version: Of the claim, as :func:`claim` returned it.
    :raises OutcomeUnknownError: ZooKeeper did not say; ask again.
    :raises NotConnectedError: ZooKeeper did not answer: whether it is held is not known.
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
