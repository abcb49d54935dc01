"""Leases of readers: protection of files from removal, for a duration set by the reader.

A lease is a persistent node: a reader that dies, or whose session ends, still protects its target until the lease
expires, and a deposed leader holds no lease that could block a removal (design, contract 4).

Order of a removal: remove the pointer, *then* look for leases, *then* delete the files. Order of a reader: take the
lease, *then* read the pointer. At any timing, either the reader finds no pointer or the remover finds the lease.

Expiry is wall-clock time of two hosts: take leases that are longer than their clocks may differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from airflow_provider_ha.clock import Clock, new_id
from airflow_provider_ha.coordination.coordinator import Coordinator, Delete
from airflow_provider_ha.coordination.node_names import ours
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.coordination.znode_records import create_once, read_record
from airflow_provider_ha.errors import CoordinationError, NodeMissingError
from airflow_provider_ha.records import Record


_ATTEMPTS = 5


class LeaseRecord(Record):
    """Content of a lease's node.

    :param lease_id: Id of the lease: equal requests of a holder stay two leases.
    :param holder: The reader, for people.
    :param expires_at: End of the protection, UTC.
    """

    kind: ClassVar[str] = "reader-lease"

    lease_id: str
    holder: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class ReaderLease:
    """Lease that this process took. Release it when done; otherwise it ends by its expiry.

    :param path: Path of its node.
    :param record: Content of the node.
    """

    coordinator: Coordinator
    path: str
    record: LeaseRecord

    def release(self) -> None:
        """End the lease. Idempotent."""
        _remove(self.coordinator, self.path)  # guard: release-takes-all


def hold(
    coordinator: Coordinator, paths: JobPaths, what: str, *, holder: str, seconds: float, clock: Clock
) -> ReaderLease:
    """Take a lease. Read the pointer of its target *afterwards*.

    :param coordinator: Session; the lease outlives it.
    :param paths: Paths of the job.
    :param what: Name of the target: ``"checkpoint-12"``.
    :param holder: Name of the reader, for people: host, task, command.
    :param seconds: Longest duration of the lease.
    :param clock: Clock for the expiry.
    """
    record = LeaseRecord(lease_id=new_id(), holder=holder, expires_at=clock.now() + timedelta(seconds=seconds))
    parent = paths.leases(what)
    path = f"{parent}/{record.lease_id}"
    for _ in range(_ATTEMPTS):
        coordinator.ensure(parent)
        try:
            create_once(coordinator, path, record)
        except NodeMissingError:
            continue  # its object was removed in this moment, and its leases with it
        return ReaderLease(coordinator, path, record)
    raise CoordinationError(
        f"a lease could not be taken on {what} of job {paths.job_id!r}: its node is created and deleted repeatedly"
    )


def active(coordinator: Coordinator, paths: JobPaths, what: str, clock: Clock) -> list[LeaseRecord]:
    """Return the leases on *what* that have not expired, latest expiry first.

    :raises RecordCorruptError: A lease cannot be read; it may protect something, so nothing may be deleted.
    """
    parent = paths.leases(what)
    while True:
        names = ours(coordinator.children(parent), _is_lease, parent=parent)
        found = [read_record(coordinator, f"{parent}/{name}", LeaseRecord) for name in names]
        # A reader that renews makes the new lease before it removes the old one. A lease removed since the listing may
        # have a successor that is not listed yet.
        if None not in found:  # guard: renewed-lease-is-overlooked
            break
    # guard: lease-never-ends
    leases = [item[0] for item in found if item is not None and item[0].expires_at > clock.now()]
    return sorted(leases, key=lambda lease: lease.expires_at, reverse=True)


def _is_lease(name: str) -> bool:
    """Return whether a name is an id as created by ``clock.new_id``."""
    return len(name) == len(new_id()) and name.isascii() and name.isalnum()


def _remove(coordinator: Coordinator, path: str) -> None:
    try:
        coordinator.commit(Delete(path))
    except NodeMissingError:
        return
