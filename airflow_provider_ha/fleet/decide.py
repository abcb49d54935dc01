"""Jobs of a cluster, as its leader sees them: due jobs, the read of one job, and quarantine.

``look`` reads one job; ``jobs.condition`` decides about it. The order of the reads is the contract: results first,
then graphs (R3). A run with a result is never run again, even if a graph pointer still names it (FLINK-10011); it is
cleaned up.
A job without a pointer is not recovered: the pointer exists if and only if a new leader has to.

What is broken is kept apart from what is unknown. Broken (a record that is not what was written, a graph
or a file of it that is gone from a root that is there) is a reason for quarantine. An unavailable storage or ZooKeeper,
or a root that is not mounted, is an error of ``look`` and says nothing about the job. A quarantine from a time when the
files of all jobs were missing ends when they are there.

One broken job must not stop the others (FLINK-5193, FLINK-40554), and it must not be forgotten either. So its reason
lies beside the jobs, is written once by the cluster's leader, and stays until an operator takes it away. One that was
made while storage had no file of any job ends by itself: an outage that is over leaves nothing behind.
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
    """``quarantine/<job_id>``: why a job is not recovered.

    :param reason: What is broken, for people.
    :param by: The process that put it there.
    :param cluster_epoch: Leadership of the cluster that did.
    :param outage: Whether the files of every job were missing, as when a part of storage is not mounted.
    """

    kind: ClassVar[str] = "quarantine"

    job_id: str
    reason: str
    by: str
    cluster_epoch: int
    at: datetime
    outage: bool = False


def quarantine_op(paths: ClusterPaths, record: Quarantine) -> Create:
    """Return the creation of a quarantine; it fails when the job is in quarantine already."""
    return Create(paths.quarantined(record.job_id), record.to_bytes())


def quarantine_reason(coordinator: Coordinator, paths: ClusterPaths, job_id: str) -> str | None:
    """Return why a job is in quarantine; ``None`` when it is not."""
    node = coordinator.find(paths.quarantined(job_id))
    return None if node is None else reason_of_quarantine(node)


def reason_of_quarantine(node: Node) -> str:
    """Return why a job is in quarantine, from its node there. One that cannot be read is a reason as well."""
    try:
        return Quarantine.from_bytes(node.data, source=node.path).reason
    except RecordCorruptError as error:
        return f"why it is in quarantine cannot be read: {error.message}"


def may_end(node: Node) -> bool:
    """Whether a quarantine ends by itself once what is missing is there again."""
    try:
        return Quarantine.from_bytes(node.data, source=node.path).outage
    except RecordCorruptError:
        return False


def release_quarantine(coordinator: Coordinator, paths: ClusterPaths, job_id: str) -> str:
    """Let a job be recovered again; returns why it was not.

    The one removal by a process that does not lead: a person decides it, for exactly the node that was read. The
    cluster's leader only creates such nodes, so this undoes none of its work.

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
    """Release a job as a person has seen it: from this quarantine, and of the owner whom its newest run names.

    A transaction can compare no transaction: a quarantine that is removed and made again in the moment between the read
    and the removal goes, too.

    :param shown: Transaction that made the node that was shown: one that is made again has the same version.
    :param last_run: Number of the job's newest run; 0 for a job without one.
    :returns: Whether it was in quarantine: a request that is repeated finds that it is not any more.
    :raises JobStateError: It is in another quarantine, or has a newer run; nothing was changed.
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
    # Each owner comes with a run. What can be made and removed at once is not there.
    owned = (Create(following), Delete(following))
    try:
        coordinator.commit(Delete(node.path, node.version), *owned)
    except NodeExistsError:
        raise JobStateError(
            f"job {job_id!r} has a newer run, whose owner may be another one; nothing was released",
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
    """The time at which each job is due. Safe in several threads.

    :param clock: Where the time comes from.
    """

    def __init__(self, clock: Clock) -> None:
        self.changed = threading.Event()
        self._clock = clock
        self._lock = threading.Lock()
        self._due: dict[str, float] = {}
        self._busy: set[str] = set()

    def expect(self, names: list[str]) -> None:
        """Take *names* as all there are: new ones are due now, others are forgotten."""
        now = self._clock.lease_time()
        with self._lock:
            self._due = {name: self._due.get(name, now) for name in names}

    def touch(self, name: str) -> None:
        """Make *name* due now: something about it has changed."""
        with self._lock:
            if name in self._due:
                self._due[name] = self._clock.lease_time()
        self.changed.set()

    def take(self) -> list[str]:
        """Return the names that are due and not in work, and mark them as in work."""
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
        """Return the seconds until something is due, at most *longest*."""
        now = self._clock.lease_time()
        with self._lock:
            waiting = [due - now for name, due in self._due.items() if name not in self._busy]
        return max(0.0, min([longest, *waiting]))


@dataclass(frozen=True)
class DueWatch:
    """A watch that makes a job due. Equal for the same job, so that arming it again does not pile up in the session."""

    agenda: ReconcileQueue
    job_id: str

    def __call__(self) -> None:
        """Take the call of a session: something about the job may have changed."""
        self.agenda.touch(self.job_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobObservation:
    """One job as it was seen.

    :param status: The job; of one that is in quarantine or broken, little more than that.
    :param options: Of the newest run; read only when it may have to be run.
    :param outage: Whether the files of every job are missing.
    :param quarantine: Node of its quarantine, when that was because of an outage that is over.
    """

    status: JobStatus
    options: HaOptions | None = None
    outage: bool = False
    quarantine: Node | None = None


def look(coordinator: Coordinator, store: ObjectStore, cluster: ClusterPaths, job_id: str) -> JobObservation:
    """Read what :func:`~airflow_provider_ha.jobs.condition.decide` needs to know about a job.

    :raises UnknownJobError: There is no such job.
    :raises NotConnectedError, StorageUnavailableError: It could not be found out: says nothing about the job.
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
    """Whether a leader of the cluster may have to run the job: only then its graph is worth reading."""
    run = snapshot.run
    lost = snapshot.leader is None or snapshot.state is JobState.LOST
    return run is not None and run.result is None and snapshot.graph is not None and lost


def _graph(graphs: JobGraphStore, store: ObjectStore, snapshot: JobStatus) -> JobGraph:
    """Read the graph of the newest run, and see whether its files are there.

    :raises ObjectMissingError, RecordCorruptError: It cannot be run from what is there.
    """
    assert snapshot.run is not None, "an idle job has a run"  # noqa: S101  # checked by the caller
    graph = graphs.read_graph(snapshot.run.run.graph)
    for artifact in graph.artifacts:
        found = store.info(keys.blob(artifact.blob.sha256))
        if found is None or found.size != artifact.blob.size:
            raise ObjectMissingError(f"file {artifact.name!r} of its graph is not in storage, or is truncated")
    return graph
