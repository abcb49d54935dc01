"""Removal in a cluster: unreferenced blobs, and all data at the end of the cluster's life.

An erasure is refused while a job has a leader, while a run has no result (a lost driver is no end, contract 5) and
while a reader holds a lease. Epochs stay as tombstones, so that a process that slept through the erasure cannot return
under an epoch that is issued again. Data of users stays: savepoints, their pointers and manifests, and the blobs that
they name. A failed removal of a pointer stops the erasure before the first blob. It is repeatable. Submissions to the
cluster should stop for that time; objects written or renewed after its start are kept.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
from datetime import datetime
from typing import Literal

from tenacity import Retrying, retry_if_result, stop_after_delay, wait_exponential

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.areas.open_work_area import open_files
from airflow_provider_ha.checkpoints.store.orphaned_blobs import OrphanCollection
from airflow_provider_ha.checkpoints.store.savepoints.manifest import MANIFEST, manifest_bytes, parse_manifest
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.node_names import is_plain, ours
from airflow_provider_ha.errors import (
    CheckpointMissingError,
    ConfigurationError,
    JobStateError,
    ObjectMissingError,
)
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.job_graph import Blob
from airflow_provider_ha.jobs.job_stores import checkpoint_store, require_over
from airflow_provider_ha.jobs.observe import list_deleted_jobs
from airflow_provider_ha.jobs.recovery.transactions import take_lock
from airflow_provider_ha.jobs.removal.job_deletion import delete_job, remove_nodes
from airflow_provider_ha.jobs.removal.removal_records import read_life, refuse_half_deleted
from airflow_provider_ha.names import RESERVED_JOB_IDS
from airflow_provider_ha.storage import keys
from airflow_provider_ha.storage.durable import remove_tree
from airflow_provider_ha.storage.object_store import ObjectStore


LOOK_SECONDS = 3600.0  # between two collections; a short-lived leader collects once, at its end


class BlobCollection:
    """The collections of unreferenced blobs by a leader of the cluster. For one thread."""

    def __init__(self, client: HaClient, leadership: Leadership) -> None:
        self._clock = client.clock
        self._collection = cluster_collection(client, leadership)
        self._due = client.clock.lease_time() + LOOK_SECONDS
        self._thread: threading.Thread | None = None

    def turn(self) -> None:
        """Start a collection in its own thread if it is due; it ends with the process."""
        now = self._clock.lease_time()
        if now < self._due or (self._thread is not None and self._thread.is_alive()):
            return
        self._due = now + LOOK_SECONDS
        self._thread = self._collection.begin()


def cluster_collection(client: HaClient, leadership: Leadership) -> OrphanCollection:
    """Return the collections of a cluster, for its leader."""
    return OrphanCollection(client.coordinator, client.paths, client.store, client.area, client.clock, leadership.prove)


log = logging.getLogger(__name__)

_NAMED = 5  # jobs in an error
_STEP_SECONDS = 10.0  # longer than the resolution of all known stores; the coarsest is S3 with seconds


@dataclasses.dataclass(frozen=True, slots=True)
class _UserData:
    """Data that users own.

    :param blobs: Keys of the blobs that savepoints name.
    :param prefixes: Prefixes of keys that stay.
    """

    blobs: frozenset[str]
    prefixes: tuple[str, ...]

    def keeps(self, key: str) -> bool:
        return key in self.blobs or key.startswith(self.prefixes)  # guard: erase-not-savepoints


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """A planned or completed erasure.

    :param cluster: Id of the cluster.
    :param jobs: Jobs to remove, including partly removed ones.
    :param runs: Number of their runs.
    :param checkpoints: Number of their retained checkpoints.
    :param savepoints: Savepoints that stay, as ``job/id``, because users own them.
    """

    cluster: str
    state: Literal["planned", "deleted"]
    jobs: tuple[str, ...]
    runs: int
    checkpoints: int
    savepoints: tuple[str, ...]


def plan_erase(client: HaClient) -> Erasure:
    """Return the erasure that :func:`erase_cluster` would make. Changes nothing.

    :raises JobStateError, RecordCorruptError, CheckpointError: As :func:`erase`.
    """
    living, gone = _all_over(client)
    _owned_by_users(client, [*living, *gone])
    half = [job.job_id for job in gone if _is_half_deleted(job)]
    return Erasure(
        cluster=client.config.cluster_id,
        state="planned",
        jobs=(*(job.job_id for job in living), *half),
        runs=sum(len(job.runs.numbers()) for job in living),
        checkpoints=sum(len(checkpoint_store(job).list()) for job in living),
        savepoints=tuple(
            f"{job.job_id}/{name}"
            for job in (*living, *gone)
            for name in ours(job.coordinator.children(job.paths.savepoints), is_plain, parent=job.paths.savepoints)
        ),
    )


def erase_cluster(client: HaClient, leadership: Leadership, *, by: str) -> None:
    """Remove the HA data of all jobs, each job in one transaction for all readers. Repeatable after a kill.

    :raises HaError: As :func:`erase`, and as ``jobs.removal.job_deletion.delete_job``. An error before the first job
        leaves the cluster unchanged.
    """
    living, gone = _all_over(client)
    _owned_by_users(client, [*living, *gone])
    for job in (*living, *filter(_is_half_deleted, gone)):
        deleted = read_life(job.coordinator, job.paths).deleted
        delete_job(job, keep_savepoints=deleted is None or deleted.keep_savepoints, by=by)
    erase(client, leadership)


def erase(client: HaClient, leadership: Leadership) -> None:
    """Remove the HA data of all jobs of the cluster, except the data of users.

    :param leadership: Leadership of the cluster, which excludes all recovering processes.
    :raises JobStateError: A job has a leader, a live run or a reader. Raised before any removal.
    :raises RecordCorruptError, CheckpointError: The files that a savepoint needs are unknown. Raised before any
        removal.
    :raises CoordinationError: A pointer could not be removed. Raised before the first blob.
    :raises StorageError: A blob could not be removed; its pointer is removed.
    """
    jobs, gone = _all_over(client)
    for job in gone:
        refuse_half_deleted(read_life(job.coordinator, job.paths))
    jobs += gone
    kept, before = _owned_by_users(client, jobs), _beginning(client.store)
    for job in jobs:  # guard: blobs-go-first
        _erase_pointers(job)
    for parent in (client.paths.to_delete, client.paths.quarantine, client.paths.outputs):
        remove_nodes(client.coordinator, leadership, parent, spared=())  # guard: erase-under-cluster-lock
    _erase_files(client, kept, before)


def _all_over(client: HaClient) -> tuple[list[JobContext], list[JobContext]]:
    """Return the live jobs of the cluster, and the deleted or partly deleted ones.

    :raises JobStateError: A job is live or has a reader, or storage has files of a job unknown to ZooKeeper.
    :raises StorageUnavailableError: The work root is missing.
    """
    _require_known(client)
    living = [client.context(job_id) for job_id in client.list_jobs()]
    for job in living:
        require_over(job)
    return living, [client.context(job_id) for job_id in list_deleted_jobs(client.coordinator, client.paths)]


def _require_known(client: HaClient) -> None:
    """Refuse to erase data unknown to this ZooKeeper, which may be another one, or have lost its data.

    A deleted or erased job keeps its node, so every job that ever existed is known.
    """
    known = set(client.coordinator.children(client.paths.base))
    if known - RESERVED_JOB_IDS:
        client.area.require()  # guard: blobs-go-while-the-work-root-is-away
    found = {
        *client.area.list(keys.JOBS),
        *filter(None, (keys.job_of(each.key) for each in client.store.list(keys.JOBS))),
    }
    strange = sorted(found - known)
    if strange:  # guard: erase-takes-what-zookeeper-does-not-know
        raise JobStateError(
            f"there are files of {', '.join(strange[:_NAMED])}{' and others' if len(strange) > _NAMED else ''}, and "
            f"ZooKeeper does not know these jobs in cluster {client.config.cluster_id!r}, so the cluster is unchanged",
            next_step="Check the addresses and the root of ZooKeeper. If it has lost its data, `spark-ha cluster "
            "rebuild` recreates the jobs",
        )


def _is_half_deleted(job: JobContext) -> bool:
    deleted = read_life(job.coordinator, job.paths).deleted
    return deleted is not None and not deleted.complete


def _erase_pointers(job: JobContext) -> None:
    """Remove the job's nodes in ZooKeeper, as its leader, except the lock itself and the data of users."""
    with take_lock(job, max(job.runs.numbers(), default=0), admit=lambda: _require_no_live_run(job)) as leadership:
        spared = (job.paths.lock, job.paths.savepoints, job.paths.checkpoint_id_counter)  # guard: erase-keeps-epochs
        remove_nodes(job.coordinator, leadership, job.paths.base, spared=spared)


def _require_no_live_run(job: JobContext) -> None:
    if job.runs.live_run() is not None:
        raise JobStateError(f"job {job.job_id!r} has a new run", next_step="Submit nothing while a cluster is erased")


def _owned_by_users(client: HaClient, jobs: list[JobContext]) -> _UserData:
    blobs: set[str] = set()
    prefixes = []
    for job in jobs:
        directories = [
            client.area.tree(f"{job.keys.savepoints}{name}")
            for name in client.area.list(job.keys.savepoints)
            if client.area.read(f"{job.keys.savepoints}{name}", MANIFEST) is not None
        ]
        names = ours(job.coordinator.children(job.paths.savepoints), is_plain, parent=job.paths.savepoints)
        without = sorted(set(names) - {directory.name for directory in directories})
        if without:
            raise CheckpointMissingError(
                f"savepoint {without[0]!r} of job {job.job_id!r} has no manifest, so its files are unknown",
                next_step=f"Mount its storage, or `spark-ha delete savepoint {job.job_id} {without[0]}`",
            )
        if directories or names:
            # The payloads hold the boundaries of later batches, which a restore needs to repeat those exactly.
            prefixes += [f"{job.keys.base}/savepoints/", job.keys.payloads, job.keys.archives]
        for directory in directories:
            blobs |= _named_by(job, parse_manifest(directory, manifest_bytes(directory)).graph)
    return _UserData(frozenset(map(keys.blob, blobs)), tuple(prefixes))


def _named_by(job: JobContext, digest: str) -> set[str]:
    graph = job.graph(Blob(sha256=digest, size=0))
    return {digest, *(artifact.blob.sha256 for artifact in graph.artifacts)}


def _beginning(store: ObjectStore) -> datetime:
    """Return a moment in the store's own time: earlier writes are older, later writes are not.

    Stores count in steps (S3 in seconds, file systems in clock ticks), so this waits for the next step. If the store's
    clock does not advance, objects written in its last step stay for ``spark-ha storage clean``.
    """
    probe = f"erase-{new_id()}"
    first = _written(store, probe)
    next_step = Retrying(
        retry=retry_if_result(lambda moment: moment <= first),
        wait=wait_exponential(0.002, max=0.2),
        stop=stop_after_delay(_STEP_SECONDS),
        retry_error_callback=lambda _: first,
    )
    moment: datetime = next_step(_written, store, probe)
    store.delete(probe)
    return moment


def _written(store: ObjectStore, key: str) -> datetime:
    store.write(key, b"")
    found = store.info(key)
    if found is None:
        raise ObjectMissingError(f"{key} is missing right after its creation", next_step="Check the storage")
    return found.modified


def _erase_files(client: HaClient, kept: _UserData, before: datetime) -> None:
    files = open_files(client.config)
    for job_id in client.area.list(keys.JOBS):
        try:
            job = keys.JobKeys(job_id)
        except ConfigurationError:
            continue  # a directory of another program
        for prefix in (job.live, job.pins):
            client.area.remove(prefix.removesuffix("/"))
        if files is not None:  # in a store, a removed directory waits for the collector of a driver
            for working in [*files.list(job.live), *files.prepared(job.live)]:
                files.delete(working.key)
        remove_tree(client.config.home_path / job.submissions)
    for prefix in ("jobs/", "blobs/"):
        for found in client.store.list(prefix):
            if not kept.keeps(found.key) and found.modified < before:
                client.store.delete(found.key)
    log.info("the HA data of %s is removed; %d blobs of savepoints stay", client.paths.lock.label, len(kept.blobs))
