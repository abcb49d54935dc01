"""Observations of a cluster's leader: the read of one job, its quarantine, and the queue of due jobs.

``look`` reads one job; ``jobs.condition`` decides about it. The order of the reads is the contract: results first, then
graphs (R3). A run with a result is never run again, even if a graph pointer still names it (FLINK-10011). A job without
a pointer is not recovered: the pointer exists if and only if a new leader has to recover the job.

A broken job differs from an unknown one. Broken (a damaged record, or a graph or file that is missing in a mounted
root) is a reason for quarantine. Unavailable storage or ZooKeeper, or an unmounted root, is an error of ``look``, which
says nothing about the job.

One broken job must not stop the others (FLINK-5193, FLINK-40554), and must not be forgotten. So the cluster's leader
writes its reason once, in a separate node, which stays until a user removes it. A quarantine from a time when storage
had no file of any job ends by itself when the files are there again.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from datetime import datetime
from typing import ClassVar

from airflow_provider_ha.clock import Clock
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Delete, Node, Reads
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.errors import (
    JobStateError,
    NodeExistsError,
    NodeMissingError,
    ObjectMissingError,
    RecordCorruptError,
)
from airflow_provider_ha.jobs.graph_store import JobGraphStore
from airflow_provider_ha.jobs.job_graph import JobGraph
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.observe import assemble, first_reads, in_one_session
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.runs.run_store import RunStore
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.records import Record
from airflow_provider_ha.storage import keys
from airflow_provider_ha.storage.object_store import ObjectStore


class Quarantine(Record):
    """``quarantine/<job_id>``: the reason why a job is not recovered.

    :param reason: Reason, for users.
    :param by: Process that wrote it.
    :param cluster_epoch: Epoch of that leader of the cluster.
    :param outage: Whether the files of all jobs were missing, as when a part of storage is not mounted.
    """

    kind: ClassVar[str] = "quarantine"

    job_id: str
    reason: str
    by: str
    cluster_epoch: int
    at: datetime
    outage: bool = False


def quarantine_op(paths: ClusterPaths, record: Quarantine) -> Create:
    """Return the creation of a quarantine; it fails if the job is in quarantine already."""
    return Create(paths.quarantined(record.job_id), record.to_bytes())


def quarantine_reason(coordinator: Coordinator, paths: ClusterPaths, job_id: str) -> str | None:
    """Return the reason of a job's quarantine; ``None`` without a quarantine."""
    node = coordinator.find(paths.quarantined(job_id))
    return None if node is None else reason_of_quarantine(node)


def reason_of_quarantine(node: Node) -> str:
    """Return the reason in a quarantine's node; an unreadable node is a reason too."""
    try:
        return Quarantine.from_bytes(node.data, source=node.path).reason
    except RecordCorruptError as error:
        return f"why it is in quarantine cannot be read: {error.message}"


def may_end(node: Node) -> bool:
    """Return whether a quarantine ends by itself once the missing files are there again."""
    try:
        return Quarantine.from_bytes(node.data, source=node.path).outage
    except RecordCorruptError:
        return False


def release_quarantine(coordinator: Coordinator, paths: ClusterPaths, job_id: str) -> str:
    """Release a job from quarantine; return the reason of the quarantine.

    The only removal by a process that does not lead: a user decides it, for exactly the node that was read. The
    cluster's leader only creates such nodes, so the removal undoes none of its work.

    :raises JobStateError: The job is not in quarantine.
    """
    reason = quarantine_reason(coordinator, paths, job_id)
    node = coordinator.find(paths.quarantined(job_id))
    if node is None or reason is None:
        raise _not_there(job_id)
    try:
        coordinator.commit(Delete(node.path, node.version))
    except NodeMissingError:
        raise _not_there(job_id) from None
    return reason


def release_shown_quarantine(
    coordinator: Coordinator, paths: ClusterPaths, job_id: str, *, shown: int, last_run: int
) -> bool:
    """Release a job as a user has seen it: from this quarantine, and with this newest run, which names its owner.

    A transaction cannot compare a node's transaction, so a quarantine that is recreated between the read and the
    removal is removed too.

    :param shown: Transaction that wrote the shown node; a recreated node has the same version.
    :param last_run: Number of the job's newest run; 0 without a run.
    :returns: Whether the job was in quarantine; ``False`` for a repeated request.
    :raises JobStateError: The job is in another quarantine, or has a newer run; nothing was changed.
    """
    node = coordinator.find(paths.quarantined(job_id))
    if node is None:
        return False
    if node.modified_zxid != shown:
        raise JobStateError(
            f"job {job_id!r} was put into quarantine again, because {reason_of_quarantine(node).rstrip('.')}",
            next_step="Load the page again, and look at the reason",
        )
    following = paths.job(job_id).run(last_run + 1)
    # A new owner comes with a new run. Create and delete in one transaction: ZooKeeper has no check for absence.
    owned = (Create(following), Delete(following))
    try:
        coordinator.commit(Delete(node.path, node.version), *owned)
    except NodeExistsError:
        raise JobStateError(
            f"job {job_id!r} has a newer run, possibly of another owner, so it remains in quarantine",
            next_step="Load the page again",
        ) from None
    except NodeMissingError as error:
        if error.path != node.path:
            raise
        return False
    return True


def _not_there(job_id: str) -> JobStateError:
    return JobStateError(f"job {job_id!r} is not in quarantine", next_step="Nothing needs to be done")


class ReconcileQueue:
    """Due times of jobs. Safe in several threads."""

    def __init__(self, clock: Clock) -> None:
        self.changed = threading.Event()
        self._clock = clock
        self._lock = threading.Lock()
        self._due: dict[str, float] = {}
        self._busy: set[str] = set()

    def expect(self, names: list[str]) -> None:
        """Replace the jobs: new ones are due now, missing ones are forgotten."""
        now = self._clock.lease_time()
        with self._lock:
            self._due = {name: self._due.get(name, now) for name in names}

    def touch(self, name: str) -> None:
        """Make *name* due now, after a change."""
        with self._lock:
            if name in self._due:
                self._due[name] = self._clock.lease_time()
        self.changed.set()

    def take(self) -> list[str]:
        """Return the due names that are not in work, and mark them as in work."""
        now = self._clock.lease_time()
        with self._lock:
            # guard: agenda-busy
            taken = sorted(name for name, due in self._due.items() if due <= now and name not in self._busy)
            self._busy.update(taken)
            # A touch while a name is in work makes it due again: the work may have missed the change.
            self._due.update(dict.fromkeys(taken, float("inf")))
        return taken

    def done(self, name: str, again: float) -> None:
        """Mark *name* as done; it is due in *again* seconds, or now when it was touched since it was taken."""
        with self._lock:
            self._busy.discard(name)
            if name in self._due:
                self._due[name] = min(self._due[name], self._clock.lease_time() + again)
        self.changed.set()

    def pause(self, longest: float) -> float:
        """Return the seconds until a job is due, at most *longest*."""
        now = self._clock.lease_time()
        with self._lock:
            waiting = [due - now for name, due in self._due.items() if name not in self._busy]
        return max(0.0, min([longest, *waiting]))


@dataclass(frozen=True)
class DueWatch:
    """A watch that makes a job due. Equal for the same job, so that the session keeps only one."""

    agenda: ReconcileQueue
    job_id: str

    def __call__(self) -> None:
        """Receive the session's call: the job may have changed."""
        self.agenda.touch(self.job_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobObservation:
    """A job as read.

    :param status: The job; little more than that fact for a job in quarantine, and for a broken one.
    :param options: Options of the newest run; read only if a leader may have to start it.
    :param outage: Whether the files of all jobs are missing.
    :param quarantine: Node of a quarantine that was due to an outage, now over.
    """

    status: JobStatus
    options: HaOptions | None = None
    outage: bool = False
    quarantine: Node | None = None


def look(coordinator: Coordinator, store: ObjectStore, cluster: ClusterPaths, job_id: str) -> JobObservation:
    """Read the facts for :func:`~airflow_provider_ha.jobs.condition.decide` about a job.

    :raises UnknownJobError: The job does not exist.
    :raises NotConnectedError, StorageUnavailableError: A read failed, so the state of the job is unknown.
    """
    paths = cluster.job(job_id)
    return in_one_session(coordinator, paths.label, lambda: _look(coordinator, store, cluster, paths))


def _look(coordinator: Coordinator, store: ObjectStore, cluster: ClusterPaths, paths: JobPaths) -> JobObservation:
    job_id, quarantine = paths.job_id, cluster.quarantined(paths.job_id)
    first = coordinator.read(Reads((quarantine,)) + first_reads(paths))
    node = first.nodes[quarantine]
    held = None
    if node is not None:
        held = JobStatus(job_id=job_id, quarantined=True, trouble=reason_of_quarantine(node))
        if not may_end(node):
            return JobObservation(status=held)
    try:
        status = assemble(coordinator, paths, first)
        dirty = _dirty(RunStore(coordinator, paths)) if status.is_over else ()
        graph = _graph(JobGraphStore(coordinator, store, paths), store, status) if _idle(status) else None
    except (RecordCorruptError, ObjectMissingError) as error:
        outage = isinstance(error, ObjectMissingError) and next(iter(store.list(keys.BLOBS)), None) is None
        locked = coordinator.find(paths.leader) is not None
        broken = JobStatus(job_id=job_id, broken=True, locked=locked, trouble=error.message)
        return JobObservation(status=held or broken, outage=outage)
    if held is not None:
        return JobObservation(status=replace(held, repaired=True), quarantine=node)
    return JobObservation(status=replace(status, dirty=dirty), options=graph.options if graph is not None else None)


def _dirty(runs: RunStore) -> tuple[int, ...]:
    # guard: results-dirty-listing
    return tuple(number for number, result in runs.results().items() if result.cleanup == "DIRTY")


def _idle(snapshot: JobStatus) -> bool:
    """Return whether a leader of the cluster may have to start the job: only then is its graph needed."""
    run = snapshot.run
    lost = snapshot.leader is None or snapshot.state is JobState.LOST
    return run is not None and run.result is None and snapshot.graph is not None and lost


def _graph(graphs: JobGraphStore, store: ObjectStore, snapshot: JobStatus) -> JobGraph:
    """Read the graph of the newest run, and check that its files exist.

    :raises ObjectMissingError, RecordCorruptError: The graph or a file is missing or damaged.
    """
    assert snapshot.run is not None, "an idle job has a run"  # noqa: S101  # checked by the caller
    graph = graphs.read_graph(snapshot.run.run.graph)
    for artifact in graph.artifacts:
        found = store.info(keys.blob(artifact.blob.sha256))
        if found is None or found.size != artifact.blob.size:
            raise ObjectMissingError(f"file {artifact.name!r} of its graph is not in storage, or is truncated")
    return graph
