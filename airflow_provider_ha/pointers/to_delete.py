"""List of pending deletions in ZooKeeper, which outlives the process that deletes (FLIP-270).

Invariant: an entry is created in the transaction that removes the pointer, so at every moment either the pointer or the
entry refers to the stored objects. The entry is removed last. The leader of the job processes its entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import PurePosixPath
from typing import ClassVar

from airflow_provider_ha.clock import Clock, new_id
from airflow_provider_ha.coordination.coordinator import Coordinator, Create
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.errors import ConfigurationError, RecordCorruptError
from airflow_provider_ha.names import check_name
from airflow_provider_ha.pointers.ownership import AdoptedCheckpoint
from airflow_provider_ha.records import Record
from airflow_provider_ha.storage.key_names import check_key
from airflow_provider_ha.storage.keys import JobKeys


_SEPARATOR = "~"  # in no job id and in no name of a lease


class DeletionEntry(Record):
    """Entry ``to_delete/<job>~<what>~<unique>``: the objects to delete.

    :param what: Name of the readers' leases that protect them: ``checkpoint-12``.
    :param objects: Keys in storage.
    :param directories: Keys of directories below the work path.
    :param adopted: Checkpoint directories outside of the cluster.
    """

    kind: ClassVar[str] = "to-delete"

    job_id: str
    what: str
    objects: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    adopted: tuple[AdoptedCheckpoint, ...] = ()
    marked_at: datetime


class ToDelete:
    """Entries of a job. Stateless and thread-safe.

    :param clock: For the time of an entry.
    """

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
