"""List of pending deletions in ZooKeeper, its processing, and the removal of old reader leases.

Invariants: an object stays on the list while a reader's lease on it has not expired. A deposed leader leaves nothing
that could block a removal: there are no lock nodes, and an entry of an older epoch is processed like any other. The
entry is removed last, so an interrupted removal is repeated (H5).

Invariant: an entry is created in the transaction that removes the pointer, so at every moment either the pointer or the
entry refers to the stored objects. The entry is removed last. The leader of the job processes its entries.

Invariant: a lease that has not expired stays, and so do leases on existing objects and on objects in the list of
deletions: they are removed with these (``pointers.removal``). A reader that arrives at this moment creates the parent
again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath
from typing import ClassVar

from airflow_provider_ha.checkpoints.ownership import AdoptedCheckpoint
from airflow_provider_ha.checkpoints.store.pointer_scan import Commit
from airflow_provider_ha.clock import Clock, new_id
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Delete, Op, Reads
from airflow_provider_ha.coordination.node_names import is_plain, node_number, ours
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.coordination.reader_leases import active
from airflow_provider_ha.errors import (
    ConfigurationError,
    NodeMissingError,
    OutcomeUnknownError,
    RecordCorruptError,
    StorageError,
    VersionConflictError,
)
from airflow_provider_ha.names import check_name
from airflow_provider_ha.records import Record
from airflow_provider_ha.storage.keys import JobKeys, check_key
from airflow_provider_ha.storage.object_store import Directories, ObjectStore


_SEPARATOR = "~"  # in no job id and in no name of a lease


class DeletionEntry(Record):
    """Entry ``to_delete/<job>~<what>~<unique>``: the objects to delete.

    :param what: Name of the readers' leases that protect them: ``checkpoint-12``.
    """

    kind: ClassVar[str] = "to-delete"

    job_id: str
    what: str
    objects: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    adopted: tuple[AdoptedCheckpoint, ...] = ()
    marked_at: datetime


class DeletionList:
    """Entries of a job. Stateless and thread-safe."""

    def __init__(self, coordinator: Coordinator, paths: JobPaths, *, clock: Clock) -> None:
        self._coordinator = coordinator
        self._job_id = paths.job_id
        self._cluster = paths.cluster
        self._clock = clock
        self._made = False

    def entry(
        self,
        what: str,
        *,
        objects: Sequence[str] = (),
        directories: Sequence[str] = (),
        adopted: Sequence[AdoptedCheckpoint] = (),
    ) -> Create:
        """Return the creation of an entry, for the transaction that removes the pointer. Its name is always a new one.

        :raises RecordCorruptError: It would name something that is not the job's.
        """
        record = DeletionEntry(
            job_id=self._job_id,
            what=check_name(what, "lease name"),
            objects=tuple(objects),
            directories=tuple(directories),
            adopted=tuple(adopted),
            marked_at=self._clock.now(),
        )
        entry_id = _SEPARATOR.join((self._job_id, what, new_id()[:16]))  # guard: entries-share-a-name
        check_entry(entry_id, record)
        if not self._made:
            self._coordinator.ensure(self._cluster.to_delete)
            self._made = True
        return Create(f"{self._cluster.to_delete}/{entry_id}", record.to_bytes())

    def waiting(self, what: str | None = None) -> list[str]:
        """Return the ids of the job's entries, optionally of a target only. One read, however many there are."""
        return waiting(self._coordinator, self._cluster, self._job_id, what)


def waiting(
    coordinator: Coordinator, cluster: ClusterPaths, job_id: str | None = None, what: str | None = None
) -> list[str]:
    """Return the ids of the entries of a cluster, of a job, or of a target of a job."""
    ids = coordinator.children(cluster.to_delete)
    return [
        entry_id
        for entry_id in ids
        if job_id is None or (job_of(entry_id) == job_id and (what is None or thing_of(entry_id) == what))
    ]


def job_of(entry_id: str) -> str:
    """Return the job that an entry belongs to, by its id."""
    return entry_id.partition(_SEPARATOR)[0]


def thing_of(entry_id: str) -> str:
    """Return the target of an entry, from its id."""
    return entry_id.partition(_SEPARATOR)[2].partition(_SEPARATOR)[0]


def check_entry(entry_id: str, record: DeletionEntry) -> None:
    """Check that an entry refers only to objects of its job, before a name from ZooKeeper becomes a path.

    :raises RecordCorruptError: It refers to other objects; none may be touched.
    """
    if (job_of(entry_id), thing_of(entry_id)) != (record.job_id, record.what):
        raise RecordCorruptError(f"entry {entry_id} of the list of deletions holds {record.job_id}~{record.what}")
    try:
        check_name(record.what, "lease name")
        prefixes = JobKeys(record.job_id).removable
        keys = [check_key(key) for key in (*record.objects, *record.directories)]
    except ConfigurationError as error:
        raise RecordCorruptError(f"entry {entry_id} of the list of deletions is refused: {error.message}") from error
    for key in keys:
        if not any(key.startswith(prefix) and "/" not in key.removeprefix(prefix) for prefix in prefixes):
            raise RecordCorruptError(
                f"entry {entry_id} of the list of deletions is refused: "
                f"{key!r} is no payload, pin or savepoint of job {record.job_id!r}"
            )
    for path in (PurePosixPath(each.path) for each in record.adopted):
        if not path.is_absolute() or ".." in path.parts or path == path.parent:
            raise RecordCorruptError(
                f"entry {entry_id} of the list of deletions is refused: {str(path)!r} is no path of a checkpoint"
            )


log = logging.getLogger(__name__)
_AT_ONCE = 50


def clear_leases(coordinator: Coordinator, paths: JobPaths, commit: Commit, clock: Clock) -> Iterator[None]:
    """Remove the leases on checkpoints and savepoints that are gone; yields after each transaction.

    :param commit: ``leadership.commit`` of the job.
    :raises LeadershipError: This process may no longer write for the job.
    """
    gone = leases_on_nothing(coordinator, paths, clock)
    for start in range(0, len(gone), _AT_ONCE):
        parents = [paths.leases(what) for what in gone[start : start + _AT_ONCE]]
        below = coordinator.read(Reads((), tuple(parents))).lists
        nodes = [path for parent in parents for path in (*(f"{parent}/{name}" for name in below[parent]), parent)]
        try:
            commit(*map(Delete, nodes))
        except (NodeMissingError, VersionConflictError) as error:
            log.info("some leases of %s stay, because another process is changing one: %s", paths.job_id, error.message)
        yield


def leases_on_nothing(coordinator: Coordinator, paths: JobPaths, clock: Clock) -> list[str]:
    """Return the targets that are removed, not on the list of deletions, and have expired leases only."""
    parent = f"{paths.base}/leases"
    names = ours(coordinator.children(parent), is_plain, parent=parent)
    if not names:
        return []
    there = {f"checkpoint-{int(name)}" for name in coordinator.children(paths.checkpoints) if name.isdecimal()}
    there |= {f"savepoint-{name}" for name in coordinator.children(paths.savepoints)}
    # Pointers before the list: objects removed in between are on it by then.
    there |= set(map(thing_of, waiting(coordinator, paths.cluster, paths.job_id)))
    return [
        what for what in names if what not in there and _is_pointer(what) and not _held(coordinator, paths, what, clock)
    ]


def _is_pointer(what: str) -> bool:
    kind, _, name = what.partition("-")
    return kind == "savepoint" or (kind == "checkpoint" and node_number(name) is not None)


def _held(coordinator: Coordinator, paths: JobPaths, what: str, clock: Clock) -> bool:
    try:
        return bool(active(coordinator, paths, what, clock))  # guard: leases-of-readers-go
    except RecordCorruptError:
        return True  # it may protect something


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRunStart:
    """Start of a job's live run.

    :param run: Number of the live run; ``None`` without one.
    :param savepoint_id: The job's savepoint that this run starts from; ``None`` when it starts from something else.
    :param unchanged: For the transaction that removes a savepoint: it fails when a run was created since.
    """

    run: int | None = None
    savepoint_id: str | None = None
    unchanged: tuple[Op, ...] = ()


@dataclass(frozen=True, slots=True)
class PostponedDeletion:
    """An entry that stays on the list."""

    entry: str
    reason: str


@dataclass(frozen=True, slots=True)
class RemovalResult:
    """Result of processing the list.

    :param done: Ids of the removed entries, whose objects are removed too.
    :param postponed: Entries that stay, with the reason.
    """

    done: tuple[str, ...] = ()
    postponed: tuple[PostponedDeletion, ...] = ()


class Remover:
    """Removes the objects of a cluster's list of deletions. Stateless; safe in several threads and processes.

    :param objects: Storage of the cluster; without it, an entry with objects stays on the list.
    :param adopted: Removes a checkpoint directory outside of the cluster, for the target of an entry; without it, an
        entry with such a directory stays on the list.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        cluster: ClusterPaths,
        directories: Directories,
        *,
        objects: ObjectStore | None,
        clock: Clock,
        adopted: Callable[[str, AdoptedCheckpoint], None] | None = None,
    ) -> None:
        self._coordinator = coordinator
        self._cluster = cluster
        self._directories = directories
        self._objects = objects
        self._clock = clock
        self._adopted = adopted

    def work_off(
        self, commit: Commit, *, job_id: str | None = None, entries: Iterable[str] | None = None
    ) -> RemovalResult:
        """Remove the listed objects.

        :param commit: ``leadership.commit`` of the job, or of the cluster for jobs without a leader.
        :raises LeadershipError: This process may no longer write; unfinished entries stay on the list.
        :raises CoordinationError: ZooKeeper does not answer.
        """
        chosen = waiting(self._coordinator, self._cluster, job_id) if entries is None else entries
        done, postponed = [], []
        for entry in chosen:
            reason = self._try(commit, entry)
            if reason:
                log.warning("%s stays on the list of deletions: %s", entry, reason)
                postponed.append(PostponedDeletion(entry, reason))
            else:
                done.append(entry)
        return RemovalResult(tuple(done), tuple(postponed))

    def _try(self, commit: Commit, entry: str) -> str:
        """Remove the objects of an entry, then the entry; return why it stays, or an empty text."""
        path = f"{self._cluster.to_delete}/{entry}"
        node = self._coordinator.find(path)
        if node is None:
            return ""
        try:
            record = DeletionEntry.from_bytes(node.data, source=f"znode {path}")
            check_entry(entry, record)
            job = self._cluster.job(record.job_id)
            leases = active(self._coordinator, job, record.what, self._clock)
            if leases:  # guard: removal-ignores-leases
                return f"{leases[0].holder} reads it until {leases[0].expires_at:%Y-%m-%d %H:%M:%S} UTC at the latest"
            self._remove(record, entry)  # guard: entry-goes-first
            self._strike_off(commit, path, job, record.what)
        except (RecordCorruptError, StorageError, VersionConflictError, OutcomeUnknownError) as error:
            return error.message
        except OSError as error:  # guard: removal-error-is-raised
            return f"a file could not be removed: {error}"
        return ""

    def _remove(self, record: DeletionEntry, entry: str) -> None:
        inside, source = JobKeys(record.job_id).removable, f"entry {entry} of the list of deletions"
        for key in record.directories:
            self._directories.remove(self._directories.admit(key, inside=inside, source=source))
        for key in record.objects:
            if self._objects is None:
                raise StorageError(f"object {key} cannot be removed: this process has not opened storage")
            self._objects.delete(key)
        for each in record.adopted:
            self._remove_adopted(record.what, each)

    def _remove_adopted(self, what: str, each: AdoptedCheckpoint) -> None:
        if self._directories.touches(each.path):  # guard: claimed-paths-may-be-ours
            raise StorageError(f"{each.path} is not outside of the cluster, so it was never adopted")
        if self._adopted is None:
            raise StorageError(f"{each.path} cannot be removed: this process cannot read checkpoints of Spark")
        self._adopted(what, each)

    def _strike_off(self, commit: Commit, path: str, job: JobPaths, what: str) -> None:
        """Remove the entry, together with the leases that have expired. A new reader makes it wait once more."""
        parent = job.leases(what)
        leases = [f"{parent}/{name}" for name in self._coordinator.children(parent)]
        if leases or self._coordinator.find(parent) is not None:
            leases.append(parent)
        try:
            commit(*map(Delete, leases), Delete(path))
        except NodeMissingError as error:
            if error.path != path:
                raise VersionConflictError(f"the leases of {what} are changing") from error
            log.info("another process has removed %s from the list", path)
