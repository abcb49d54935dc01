"""Pointers of a kind below one node: added after their payloads, removed before them, every change fenced.

Invariants (contract 2, H1 to H12):

- An existing pointer has an existing payload: payload written first, pointer second; pointer removed first.
- A certain rejection discards the payload that this call wrote. After an uncertain outcome everything is kept; the node
  is read back and compared by bytes, and a remaining uncertainty is raised, for a retry with the same bytes.
- "Marked for deletion" is one transaction that removes the pointer and creates an entry of the list of deletions. There
  are no lock nodes: the epoch guards the leader's writes, leases guard readers, and a deposed leader blocks nothing.

Invariant: a payload's key belongs to one writer (it contains the epoch), and it is created, never overwritten. A
payload that existed before a call may already have a pointer, so a call discards only payloads that it created.

Invariant: a pointer that cannot be read is reported, never passed over in silence: it may be the newest (contract 6).
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from airflow_provider_ha.checkpoints.ownership import AdoptedCheckpoint
from airflow_provider_ha.checkpoints.store.pointer_scan import (
    Commit,
    PointerScan,
    ScannedPointer,
    TransactionOutcome,
    UnreadableRecord,
    decode,
    outcome_of,
    scan,
    unknown,
)
from airflow_provider_ha.checkpoints.store.removal import DeletionList
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Delete, Op, SetData
from airflow_provider_ha.errors import (
    HaError,
    NodeMissingError,
    ObjectExistsError,
    ObjectMissingError,
    RecordCorruptError,
    StorageError,
)
from airflow_provider_ha.records import Record
from airflow_provider_ha.storage.object_store import ObjectStore


log = logging.getLogger(__name__)
P = TypeVar("P", bound=Record)


@dataclass(frozen=True, slots=True)
class PayloadHandle:
    """Location of a payload."""

    key: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Payloads(Generic[P]):
    """Payloads of a kind of pointer.

    :param handle_of: Returns the payload's handle for a pointer.
    """

    store: ObjectStore
    handle_of: Callable[[P], PayloadHandle]

    def write(self, pointer: P, data: bytes) -> bool:
        """Write the payload; return whether this call created it.

        :raises ObjectExistsError: The key has other content.
        :raises StorageUnavailableError: It could not be written, or the outcome is unknown.
        """
        key = self.handle_of(pointer).key
        try:
            self.store.create(key, data)
        except ObjectExistsError:
            if self.store.read(key) != data:
                raise
            return False
        return True

    def read(self, pointer: P) -> bytes:
        """Return the bytes of the payload.

        :raises RecordCorruptError: The bytes differ from the writer's.
        :raises ObjectMissingError: The payload is missing.
        """
        handle = self.handle_of(pointer)
        data = self.store.read(handle.key)
        if hashlib.sha256(data).hexdigest() != handle.sha256:
            raise RecordCorruptError(f"{handle.key} has another digest than its pointer")
        return data

    def discard(self, pointer: P) -> None:
        """Remove a payload that certainly nothing refers to. What cannot be removed stays, without an owner."""
        key = self.handle_of(pointer).key
        try:
            self.store.delete(key)
        except StorageError as error:
            log.warning("unreferenced payload %s could not be removed: %s", key, error)


@dataclass(frozen=True, slots=True)
class LoadedPointers(Generic[P]):
    """Every pointer with its payload, in the order of the names.

    :param found: Pointer and the bytes of its payload.
    :param unreadable: Pointers that cannot be read, and those whose payloads are damaged or gone, with the reason.
    """

    found: tuple[tuple[ScannedPointer[P], bytes], ...]
    unreadable: tuple[UnreadableRecord, ...]


class PointerStore(Generic[P]):
    """Pointers below *parent*. Stateless and thread-safe.

    :param coordinator: The session, for reads; writes use the ``commit`` passed to each method.
    :param payloads: Storage of the payloads; ``None`` for pointers whose target is not one object of this store.
    :param to_delete: The job's list of deletions; ``None`` for pointers whose payloads are never removed with them.
    :param is_ours: Whether a child of *parent* is a pointer, by its name; other children are skipped.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        parent: str,
        record_type: type[P],
        *,
        payloads: Payloads[P] | None = None,
        to_delete: DeletionList | None = None,
        is_ours: Callable[[str], bool] | None = None,
    ) -> None:
        self._coordinator = coordinator
        self._parent = parent
        self._record_type = record_type
        self._payloads = payloads
        self._to_delete = to_delete
        self._is_ours = is_ours

    def find(self, name: str) -> ScannedPointer[P] | None:
        """Return a pointer; ``None`` when it does not exist.

        :raises RecordCorruptError: The pointer exists and cannot be read.
        """
        node = self._coordinator.find(self._path(name))
        return None if node is None else decode(node, self._record_type)

    def scan(self) -> PointerScan[P]:
        """Return all pointers as of a moment, unreadable ones with the reason."""
        return scan(self._coordinator, self._parent, self._record_type, is_ours=self._is_ours)

    def payload(self, pointer: P) -> bytes:
        """Return the bytes that a pointer refers to; raises as :meth:`Payloads.read`."""
        return self._own_payloads().read(pointer)

    def load(self) -> LoadedPointers[P]:
        """Read all pointers and payloads. Damaged ones are part of the result, not skipped."""
        seen = self.scan()
        found: list[tuple[ScannedPointer[P], bytes]] = []
        unreadable = list(seen.unreadable)
        for pointer in seen.found:
            try:
                found.append((pointer, self.payload(pointer.record)))
            # guard: unknown-counts-as-bad
            except (RecordCorruptError, ObjectMissingError) as error:  # noqa: PERF203  # one bad payload hides no other
                unreadable.append(UnreadableRecord(pointer.name, error.message))  # guard: recovery-skips-bad-payloads
        return LoadedPointers(tuple(found), tuple(unreadable))

    def add(self, commit: Commit, name: str, pointer: P, payload: bytes | None = None, *also: Op) -> None:
        """Write the payload, then the pointer with *also* in one transaction. Repeatable with the same bytes.

        :param also: Further operations of the same transaction, for example a counter.
        :raises ObjectExistsError: The key has another payload; the pointer was not written.
        :raises NodeExistsError: Another pointer has that name; the payload was discarded.
        :raises OutcomeUnknownError: No response, and the pointer is not there: it may still appear; the payload was
            kept.
        :raises LeadershipError, VersionConflictError, NotConnectedError: Rejected; the payload was discarded.
        """
        path, data = self._path(name), pointer.to_bytes()
        if self._holds(path, data):
            return  # an earlier call of ours, whose answer was lost
        fresh = self._write_payload(pointer, payload)  # guard: pointer-before-payload
        try:
            commit(Create(path, data), *also)  # guard: pointer-is-ephemeral
        except HaError as error:
            self._settle(error, path, lambda: self._holds(path, data), pointer if fresh else None)

    def replace(
        self,
        commit: Commit,
        old: ScannedPointer[P],
        pointer: P,
        payload: bytes | None = None,
        *also: Op,
        what: str = "",
    ) -> None:
        """Write a new payload, then set the pointer, if it still is *old*; the old payload goes onto the list.

        :param what: Name of the readers' leases on it; by default the pointer's name.
        :raises VersionConflictError, NodeMissingError: The pointer changed since it was read; the new payload was
            discarded.
        :raises OutcomeUnknownError: Not answered, and not found again: neither payload was discarded.
        """
        path, data = self._path(old.name), pointer.to_bytes()
        fresh = self._write_payload(pointer, payload)
        ops: list[Op] = [SetData(path, data, old.version), *also]  # guard: replace-is-not-versioned
        if payload is not None:
            # Decided and recorded with the change itself: a process that dies after it leaves no untraceable payload.
            ops += self._old_payload(old, pointer, what or old.name)  # guard: replace-forgets-the-old-payload
        try:
            commit(*ops)  # guard: replace-is-not-fenced
        except HaError as error:
            self._settle(error, path, lambda: self._holds(path, data), pointer if fresh else None)

    def mark(
        self,
        commit: Commit,
        name: str,
        what: str,
        *,
        objects: Sequence[str] = (),
        directories: Sequence[str] = (),
        adopted: Sequence[AdoptedCheckpoint] = (),
        version: int = -1,
        also: Sequence[Op] = (),
    ) -> str | None:
        """Mark for deletion: in one transaction, remove the pointer and list the objects to delete.

        :param what: Name of the readers' leases on it.
        :param version: Only if the pointer still has this version.
        :param also: Further operations of the same transaction: checks that make the removal safe.
        :returns: Id of the entry of the list; ``None`` when the pointer was removed before.
        :raises VersionConflictError: The pointer changed since it was read.
        :raises OutcomeUnknownError: No response, and the entry is not there.
        """
        if self._to_delete is None:
            raise TypeError("the list of deletions does not remove these pointers")
        path = self._path(name)
        entry = self._to_delete.entry(what, objects=objects, directories=directories, adopted=adopted)

        def marked() -> bool:
            return self._coordinator.find(path) is None and self._holds(entry.path, entry.data)

        try:
            commit(Delete(path, version), entry, *also)  # guard: mark-leaves-no-entry
        except NodeMissingError as error:
            if error.path != path:  # guard: missing-entry-is-an-error
                raise
            return None
        except HaError as error:
            self._settle(error, path, marked, None)
        return entry.path.rpartition("/")[2]

    def remove(self, commit: Commit, found: ScannedPointer[P]) -> bool:
        """Remove a pointer whose payload stays. Loud: it returns only when the pointer is known to be gone.

        :returns: Whether it was there.
        :raises VersionConflictError: It changed since it was read, and is still there.
        :raises OutcomeUnknownError: Not answered, and still there.
        """
        path = self._path(found.name)
        try:
            commit(Delete(path, found.version))
        except NodeMissingError as error:
            if error.path != path:
                raise
            return False
        except HaError as error:
            self._settle(error, path, lambda: self._coordinator.find(path) is None, None)
        return True

    def _settle(self, error: HaError, path: str, applied: Callable[[], bool], fresh: P | None) -> None:
        """Return when the write was applied after all; else raise, and discard *fresh* if that is certain."""
        outcome = outcome_of(error, path, applied)
        if outcome is TransactionOutcome.APPLIED:
            return
        if outcome is TransactionOutcome.UNKNOWN:
            raise unknown(error, path) from error  # guard: removal-of-unknown-outcome-is-silent
        if fresh is not None:  # guard: rejected-payload-stays
            self._own_payloads().discard(fresh)
        raise error  # guard: rejection-is-silent

    def _write_payload(self, pointer: P, payload: bytes | None) -> bool:
        return payload is not None and self._own_payloads().write(pointer, payload)

    def _old_payload(self, old: ScannedPointer[P], new: P, what: str) -> list[Op]:
        handle_of = self._own_payloads().handle_of
        key = handle_of(old.record).key
        if self._to_delete is None or key == handle_of(new).key:
            return []
        return [self._to_delete.entry(what, objects=(key,))]

    def _own_payloads(self) -> Payloads[P]:
        if self._payloads is None:
            raise TypeError("these pointers do not refer to payloads in storage")
        return self._payloads

    def _holds(self, path: str, data: bytes) -> bool:
        node = self._coordinator.find(path)
        return node is not None and node.data == data

    def _path(self, name: str) -> str:
        return f"{self._parent}/{name}"


@dataclass(frozen=True, slots=True)
class PointerListing(Generic[P]):
    """Pointers below a node; iterates over the readable ones, newest first."""

    pointers: tuple[P, ...]
    unreadable: tuple[UnreadableRecord, ...]

    def __iter__(self) -> Iterator[P]:
        return iter(self.pointers)

    def __len__(self) -> int:
        return len(self.pointers)


def read_listing(pointers: PointerStore[P], *, newest: Callable[[P], Any]) -> PointerListing[P]:
    """Read all pointers, consistent at one moment.

    :param newest: Sort key: the greater, the newer.
    :raises CoordinationError: ZooKeeper could not be read.
    """
    seen = pointers.scan()
    return PointerListing(
        tuple(sorted((item.record for item in seen.found), key=newest, reverse=True)), seen.unreadable
    )
