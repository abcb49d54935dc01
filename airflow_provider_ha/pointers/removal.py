"""Processing of the list of deletions: leases first, then files, then the entry. Each step can be repeated.

Invariants: an object stays on the list while a reader's lease on it has not expired. A deposed leader leaves nothing
that could block a removal: there are no lock nodes, and an entry of an older epoch is processed like any other. The
entry is removed last, so an interrupted removal is repeated (H5).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from airflow_provider_ha.clock import Clock
from airflow_provider_ha.coordination.coordinator import Coordinator, Delete
from airflow_provider_ha.coordination.leases import active
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.errors import (
    NodeMissingError,
    OutcomeUnknownError,
    RecordCorruptError,
    StorageError,
    VersionConflictError,
)
from airflow_provider_ha.pointers.outcome import Commit
from airflow_provider_ha.pointers.ownership import AdoptedCheckpoint
from airflow_provider_ha.pointers.to_delete import DeletionEntry, check_entry, waiting
from airflow_provider_ha.storage.directories import Directories
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.store import ObjectStore


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Postponed:
    """An entry that stays on the list.

    :param entry: Its id.
    :param reason: Why its objects were not removed, or only some.
    """

    entry: str
    reason: str


@dataclass(frozen=True, slots=True)
class WorkedOff:
    """Result of processing the list.

    :param done: Ids of the removed entries, whose objects are removed too.
    :param postponed: Entries that stay, with the reason.
    """

    done: tuple[str, ...] = ()
    postponed: tuple[Postponed, ...] = ()


class Remover:
    """Removes the objects of a cluster's list of deletions. Stateless; safe in several threads and processes.

    :param directories: Directories of the cluster.
    :param objects: Storage of the cluster; without it, an entry with objects stays on the list.
    :param clock: For the expiry of leases.
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

    def work_off(self, commit: Commit, *, job_id: str | None = None, entries: Iterable[str] | None = None) -> WorkedOff:
        """Remove the listed objects.

        :param commit: ``leadership.commit`` of the job, or of the cluster for jobs without a leader.
        :param job_id: Only the entries of this job.
        :param entries: Only these.
        :raises LeadershipError: This process may no longer write; unfinished entries stay on the list.
        :raises CoordinationError: ZooKeeper does not answer.
        """
        chosen = waiting(self._coordinator, self._cluster, job_id) if entries is None else entries
        done, postponed = [], []
        for entry in chosen:
            reason = self._try(commit, entry)
            if reason:
                log.warning("%s stays on the list of deletions: %s", entry, reason)
                postponed.append(Postponed(entry, reason))
            else:
                done.append(entry)
        return WorkedOff(tuple(done), tuple(postponed))

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
                raise VersionConflictError(f"the leases of {what} change at this moment") from error
            log.info("another process has removed %s from the list", path)
