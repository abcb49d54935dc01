"""Checkpoints of a job: pointers in ZooKeeper, payloads in storage, pins on the file system.

Invariants (contracts 2, 5 and 7): pin, then payload, then pointer; pointer removed first, the rest second, through the
list of deletions. A pointer and the counter are written in one fenced transaction, so a number never repeats and a
deposed leader adds nothing. Only the end of a run may remove the last checkpoint, and only when that is requested.

A checkpoint's payload is not removed with its pointer: it has the record of its batches, which an older savepoint may
have to replay. The collector removes it when it is no longer needed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

from airflow_provider_ha.checkpoints.areas.work_area import WorkArea
from airflow_provider_ha.checkpoints.model import Checkpoint, CheckpointPointer
from airflow_provider_ha.checkpoints.store.checkpoint_pointers import (
    DamagedPointer,
    RecoveredCheckpoints,
    handle_of,
    keep_bytes,
    lease_name,
    node_name,
    pointer_path,
    pointer_to,
    recovered,
    unreadable_pointer,
)
from airflow_provider_ha.checkpoints.store.claims import Claims
from airflow_provider_ha.checkpoints.store.payload_collector import PayloadCollector
from airflow_provider_ha.checkpoints.store.payload_history import PayloadHistory
from airflow_provider_ha.checkpoints.store.pointer_scan import ScannedPointer
from airflow_provider_ha.checkpoints.store.pointer_store import Payloads, PointerListing, PointerStore, read_listing
from airflow_provider_ha.checkpoints.store.removal import DeletionList, RemovalResult, Remover, thing_of
from airflow_provider_ha.checkpoints.store.retention_policy import superfluous
from airflow_provider_ha.clock import Clock, SystemClock
from airflow_provider_ha.coordination.coordinator import Check, Coordinator, Op
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.node_names import is_checkpoint, node_numbers
from airflow_provider_ha.coordination.paths import CHECKPOINT_DIGITS, JobPaths
from airflow_provider_ha.coordination.reader_leases import active
from airflow_provider_ha.coordination.znode_records import counter_op, counter_value, read_counter
from airflow_provider_ha.errors import (
    CheckpointError,
    CheckpointMissingError,
    JobStateError,
    NodeExistsError,
    NodeMissingError,
    ObjectExistsError,
    VersionConflictError,
)
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.object_store import ObjectStore


COLLECTION_SECONDS = 5.0  # for one turn of a collection, and for the collection at the end of a run


class CheckpointStore:
    """Checkpoints of a job. Thread-safe.

    :param coordinator: The session, for reads; writes use the leadership.
    :param clock: For readers' leases and the list of deletions.
    :ivar claims: Claims of the job, subsumed together with its checkpoints.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        store: ObjectStore,
        paths: JobPaths,
        keys: JobKeys,
        area: WorkArea,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._coordinator = coordinator
        self._store = store
        self._paths = paths
        self._keys = keys
        self._area = area
        self._clock = clock or SystemClock()
        self._to_delete = DeletionList(coordinator, paths, clock=self._clock)
        self._pointers = PointerStore(
            coordinator,
            paths.checkpoints,
            CheckpointPointer,
            payloads=Payloads(store, handle_of),
            to_delete=self._to_delete,
            is_ours=is_checkpoint,
        )
        self.claims = Claims(coordinator, paths, self._to_delete, self._clock)
        self._remover = Remover(
            coordinator, paths.cluster, area, objects=store, clock=self._clock, adopted=self.claims.remove
        )
        self._history = PayloadHistory(store, keys)
        self._collector = PayloadCollector(coordinator, store, paths, keys, area, clock=self._clock)
        self._cleaning = threading.Lock()
        self._collecting = threading.Lock()
        self._closed = False

    @property
    def job_id(self) -> str:
        """The job whose checkpoints these are."""
        return self._paths.job_id

    def list(self) -> PointerListing[CheckpointPointer]:
        """Return the readable pointers, newest first, and the unreadable ones."""
        return read_listing(self._pointers, newest=lambda pointer: pointer.number)

    def pointer(self, number: int) -> CheckpointPointer:
        """Return the pointer of a checkpoint.

        :raises CheckpointMissingError: The checkpoint does not exist.
        :raises RecordCorruptError: Its pointer cannot be read.
        """
        return self._found(number).record

    def _found(self, number: int) -> ScannedPointer[CheckpointPointer]:
        found = self._pointers.find(node_name(number))
        if found is None:
            raise self._no_checkpoint(number)
        return found

    def load(self, pointer: CheckpointPointer) -> Checkpoint:
        """Return the payload of a pointer.

        :raises RecordCorruptError: It is damaged.
        :raises ObjectMissingError: It is missing.
        """
        return Checkpoint.from_bytes(self._pointers.payload(pointer), source=pointer.payload)

    def directory(self, checkpoint: Checkpoint) -> str:
        """Return the key of the closure of a checkpoint: its pin, or the working directory of its epoch.

        :raises RecordCorruptError: Its payload refers to a directory that is not the job's.
        """
        key, inside = (
            (checkpoint.directory, self._keys.live) if checkpoint.pin is None else (checkpoint.pin, self._keys.pins)
        )
        source = f"the payload of checkpoint {checkpoint.number} of job {self.job_id!r}"
        return self._area.admit(key, inside=(inside,), source=source)

    def recover(self) -> RecoveredCheckpoints:
        """Read all pointers and payloads, ordered by number, without any removal (C4).

        :raises StorageUnavailableError: A payload could not be read; it is not skipped.
        """
        return recovered(self._pointers.load())

    def payloads(self) -> Iterator[Checkpoint]:
        """Yield every payload in storage, also of checkpoints whose pointers are gone, archived or not.

        Damaged payloads are logged and skipped.
        """
        return self._history.checkpoints()

    def recorded(self) -> int:
        """Return the number of checkpoints recorded in storage; reads names only."""
        return self._history.count()

    def latest_number(self) -> int | None:
        """Return the number of the newest checkpoint, readable or not; ``None`` without one."""
        parent = self._paths.checkpoints
        names = self._coordinator.children(parent)
        return max(node_numbers(names, parent=parent, digits=CHECKPOINT_DIGITS), default=None)

    def next_number(self) -> int:
        """Return the number of the next checkpoint: higher than any earlier one."""
        counted = read_counter(self._coordinator, self._paths.checkpoint_id_counter)
        # guard: lost-counter-begins-again
        return max(counted, self.latest_number() or 0) + 1  # a lost counter does not restart at 1

    def add(self, leadership: Leadership, checkpoint: Checkpoint, *also: Op) -> CheckpointPointer:
        """Write the payload, then its pointer and the counter in one fenced transaction.

        Can be called again with the same checkpoint when an outcome is unknown.

        :param also: Further operations of the transaction: a claim.
        :raises FencedError: Another epoch owns the job; the payload was discarded.
        :raises OutcomeUnknownError: Sent, not answered, and not found again: it may still appear. No data was
            discarded.
        :raises CheckpointError: Another checkpoint has that number, or the store was shut down.
        """
        if self._closed:
            raise CheckpointError(f"the checkpoints of job {self._paths.job_id!r} are closed: its run has ended")
        data = checkpoint.to_bytes()
        pointer = pointer_to(self._keys, checkpoint, data)
        known = self._coordinator.find(self._paths.checkpoint(checkpoint.number))
        if known is not None and known.data == pointer.to_bytes():
            return pointer  # an earlier call was applied although its answer was lost, and so was its counter
        counter = self._coordinator.find(self._paths.checkpoint_id_counter)
        if checkpoint.number <= counter_value(counter):
            leadership.commit(Check(self._paths.checkpoint_id_counter))  # raises when this leader is deposed
            raise CheckpointError(
                f"checkpoint number {checkpoint.number} was used before", next_step="Take the next number"
            )
        count = counter_op(self._paths.checkpoint_id_counter, counter, checkpoint.number)
        try:
            # guard: checkpoint-add-is-not-fenced
            self._pointers.add(leadership.commit, node_name(checkpoint.number), pointer, data, count, *also)
        except NodeExistsError as error:
            raise CheckpointError(f"another checkpoint has number {checkpoint.number}") from error
        except ObjectExistsError as error:
            raise CheckpointError(
                f"payload {pointer.payload} exists with other content", next_step="Take the next checkpoint"
            ) from error
        return pointer

    def retain(self, leadership: Leadership, keep: int) -> tuple[int, ...]:
        """Mark the oldest checkpoints beyond *keep*, and remove unreferenced files; return their numbers.

        :raises LeadershipError: This process may no longer write for the job.
        """
        marked = self.subsume(leadership, keep)
        self.clean_up(leadership)
        return marked

    def subsume(self, leadership: Leadership, keep: int) -> tuple[int, ...]:
        """Mark the oldest checkpoints beyond *keep* for deletion and return their numbers; remove no file.

        Claims of the same age are marked with them. The newest checkpoint stays, and so do checkpoints with a reader's
        lease.

        :raises LeadershipError: This process may no longer write for the job.
        """
        pointers = self.list().pointers
        marked = self._mark(leadership, superfluous(pointers, keep, self._leased(pointers[max(keep, 1) :])))
        self.claims.subsume(leadership.commit, pointers, keep, lambda pointer: self.load(pointer).pin is not None)
        return marked

    def dispose(
        self, leadership: Leadership, number: int, *, proven: str, unreadable: str = "", also: Sequence[Op] = ()
    ) -> None:
        """Remove one checkpoint for its user: its pointer in one transaction, then its files.

        If the pointer cannot be read, only the pointer is removed: the checkpoint's files are unknown. The collector
        removes them when they are not needed.

        :param proven: The newest proven one, ``checkpoint-9`` or ``savepoint-<id>``: it stays.
        :param unreadable: Digest of the pointer's bytes, which the user has seen to be unreadable.
        :raises CheckpointMissingError: The checkpoint does not exist.
        :raises JobStateError: It is the newest one, the newest proven one, or is being read; or another process changed
            the checkpoints concurrently. It was kept.
        :raises RecordCorruptError: Its pointer cannot be read, and *unreadable* is empty.
        :raises StorageError: The bytes of its pointer could not be saved. It was kept.
        :raises LeadershipError: This process may no longer write for the job.
        """
        pins: tuple[str, ...] = ()
        if unreadable:
            version = self._set_aside(leadership, number, proven, unreadable)
        else:
            found = self.removable(number, proven)
            version, pins = found.version, (self._keys.pin(number, found.record.epoch),)
        newest = self.latest_number()
        assert newest is not None  # noqa: S101  # there is this one
        stays = [Check(path) for path in {self._paths.checkpoint(newest), pointer_path(self._paths, proven)}]
        name, lease = node_name(number), lease_name(number)
        try:
            marked = self._pointers.mark(
                leadership.commit, name, lease, directories=pins, version=version, also=(*stays, *also)
            )
        except (NodeMissingError, NodeExistsError, VersionConflictError) as error:
            raise JobStateError(
                f"the checkpoints of job {self.job_id!r} were changed concurrently",
                next_step="Repeat the request",
            ) from error
        if marked is None:
            raise self._no_checkpoint(number)
        # A late reader holds a lease: then the files stay on the list.
        self._remover.work_off(leadership.commit, entries=self._to_delete.waiting(lease))

    def removable(self, number: int, proven: str) -> ScannedPointer[CheckpointPointer]:
        """Return the pointer of a checkpoint that a user may remove; raises as :meth:`dispose`. Changes nothing."""
        found = self._found(number)
        self.refuse_needed(number, proven)
        return found

    def unreadable(self, number: int) -> DamagedPointer | None:
        """Return the pointer of a checkpoint if it cannot be read; ``None`` if it can.

        :raises CheckpointMissingError: The checkpoint does not exist.
        :raises RecordTooNewError: A newer release wrote it.
        """
        node = self._coordinator.find(self._paths.checkpoint(number))
        if node is None:
            raise self._no_checkpoint(number)
        return unreadable_pointer(node, number)

    def refuse_needed(self, number: int, proven: str) -> None:
        """Refuse the removal of a needed checkpoint, readable or not; raises as :meth:`dispose`."""
        what = f"checkpoint {number} of job {self.job_id!r}"
        if number == self.latest_number():  # guard: the-newest-checkpoint-is-removed
            raise JobStateError(
                f"{what} is the newest one, from which the job would continue",
                next_step="First take a newer checkpoint (`spark-ha checkpoint trigger`)",
            )
        if proven == lease_name(number):  # guard: the-proven-checkpoint-is-removed
            raise JobStateError(
                f"{what} is the newest proven one: later ones cannot be restored",
                next_step="First take a newer checkpoint (`spark-ha checkpoint trigger`)",
            )
        # guard: checkpoints-go-under-their-readers
        for lease in active(self._coordinator, self._paths, lease_name(number), self._clock):
            raise JobStateError(
                f"{what} is being read by {lease.holder}", next_step="Wait for the reader, then delete again"
            )

    def _set_aside(self, leadership: Leadership, number: int, proven: str, digest: str) -> int:
        """Save the bytes of a pointer before its removal; return the version of its node."""
        found = self.unreadable(number)
        self.refuse_needed(number, proven)
        if found is None or found.digest != digest:
            raise JobStateError(
                f"the pointer of checkpoint {number} of job {self.job_id!r} has changed since it was read",
                next_step="Repeat the request",
            )
        leadership.prove()
        keep_bytes(self._store, self._keys, found, at=self._clock.now())
        return found.version

    def _no_checkpoint(self, number: int) -> CheckpointMissingError:
        parent = self._paths.checkpoints
        names = node_numbers(self._coordinator.children(parent), parent=parent, digits=CHECKPOINT_DIGITS)
        there = ", ".join(str(each) for each in sorted(names, reverse=True)) or "none"
        return CheckpointMissingError(
            f"job {self.job_id!r} has no checkpoint {number}; it has {there}",
            next_step=f"List them with `spark-ha checkpoint list {self.job_id}`",
        )

    def waiting(self) -> int:
        """Return the number of the job's entries on the list of deletions."""
        return len(self._to_delete.waiting())

    def read_while_waiting(self) -> tuple[str, ...]:
        """Return the targets on the job's list of deletions that readers' leases keep: ``checkpoint-12``."""
        things = dict.fromkeys(map(thing_of, self._to_delete.waiting()))
        return tuple(thing for thing in things if active(self._coordinator, self._paths, thing, self._clock))

    def clean_up(self, leadership: Leadership) -> RemovalResult:
        """Process the job's list of deletions, then collect to the end. Repeatable.

        Entries that cannot be removed, or are being read, stay on the list for the next call, or the next leader.

        :raises LeadershipError: This process may no longer write for the job.
        """
        report = self.work_off(leadership)
        self._collect(leadership, lambda: True)
        return report

    def work_off(self, leadership: Leadership) -> RemovalResult:
        """Process the job's list of deletions, without waiting for a collection.

        :raises LeadershipError: This process may no longer write for the job.
        """
        with self._cleaning:
            return self._remover.work_off(leadership.commit, job_id=self._paths.job_id)

    def collect(self, leadership: Leadership, go_on: Callable[[], bool]) -> bool:
        """Remove unneeded payloads and pins, and archive payloads to keep for long.

        :param go_on: Called after each small step; when it returns false, the next call continues from there.
        :returns: Whether the collection is complete.
        :raises LeadershipError: This process may no longer write for the job.
        """
        return self._closed or self._collect(leadership, lambda: not self._closed and go_on())

    def _collect(self, leadership: Leadership, go_on: Callable[[], bool]) -> bool:
        with self._collecting:
            return self._collector.collect(leadership, go_on)

    def floor(self) -> dict[str, int] | None:
        """Return the lowest batch of all restorable cuts by query; ``None`` when a cut cannot be read."""
        with self._collecting:
            return self._collector.floor()

    def shutdown(self, leadership: Leadership, *, terminal: bool, retained: bool = True) -> None:
        """Close the store for additions, and remove checkpoints according to the end of the job (C5).

        :param terminal: Whether the run is FINISHED, CANCELED or FAILED. Without it, everything stays (contract 5).
        :param retained: Whether the checkpoints stay, as they do by default. Savepoints always stay: they are the
            user's.
        :raises LeadershipError: This process may no longer write for the job.
        """
        self._closed = True  # guard: store-stays-open
        if not terminal:  # guard: suspension-discards
            return
        if not retained:  # guard: end-discards-never
            pointers = self.list().pointers
            leased = self._leased(pointers)
            # guard: end-discards-what-is-read
            self._mark(leadership, [pointer for pointer in reversed(pointers) if pointer.number not in leased])
        self.work_off(leadership)
        deadline = self._clock.lease_time() + COLLECTION_SECONDS
        self._collect(leadership, lambda: self._clock.lease_time() < deadline)

    def _leased(self, pointers: Iterable[CheckpointPointer]) -> set[int]:
        return {
            pointer.number
            for pointer in pointers
            if active(self._coordinator, self._paths, lease_name(pointer.number), self._clock)
        }

    def _mark(self, leadership: Leadership, pointers: Iterable[CheckpointPointer]) -> tuple[int, ...]:
        marked = []
        for number, epoch in ((pointer.number, pointer.epoch) for pointer in pointers):
            pins = (self._keys.pin(number, epoch),)
            self._pointers.mark(leadership.commit, node_name(number), lease_name(number), directories=pins)
            marked.append(number)
        return tuple(marked)
