"""The processes that notice a lost driver: the tasks that follow a job, and those that recover the whole cluster.

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
from typing import ClassVar

from airflow_provider_ha.clock import SystemClock, new_id
from airflow_provider_ha.coordination.coordinator import Coordinator, Create
from airflow_provider_ha.coordination.node_names import is_plain
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.coordination.records import read_record
from airflow_provider_ha.errors import RecordCorruptError
from airflow_provider_ha.jobs.cluster import read_cluster_leader
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.records import Record


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
class Watched:
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


def watched(coordinator: Coordinator, paths: JobPaths) -> Watched:
    """Return what watches a job now.

    :raises NotConnectedError: Could not be found out.
    """
    return Watched(
        tasks=tuple(f"task {each}" for each in _present(coordinator, paths)),
        cluster=(*_leader(coordinator, paths), *_present(coordinator, paths.cluster)),
    )


def warning(snapshot: JobStatus, watching: Watched) -> str:
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
