"""The checkpoints of one job: pointers in ZooKeeper, payloads in storage, pins on the file system.

Invariants (contracts 2 and 7): pin, then payload, then pointer; pointer removed first, the rest second. A pointer and
the counter are written in one fenced transaction, so a number never repeats and a deposed leader adds nothing.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from pathlib import Path

from airflow_provider_ha.checkpoints.directories.links import remove_tree
from airflow_provider_ha.checkpoints.model import Checkpoint, CheckpointPointer
from airflow_provider_ha.checkpoints.retained.collector import PayloadCollector
from airflow_provider_ha.checkpoints.retained.listing import Listing, read_listing
from airflow_provider_ha.checkpoints.retained.retention import superfluous
from airflow_provider_ha.clock import Clock, SystemClock
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Delete
from airflow_provider_ha.coordination.counter import counter_op, read_counter
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.leases import active
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.coordination.records import read_record
from airflow_provider_ha.errors import (
    CheckpointError,
    CheckpointMissingError,
    NodeExistsError,
    NodeMissingError,
    ObjectExistsError,
    OutcomeUnknownError,
    RecordCorruptError,
)
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.store import ObjectStore


log = logging.getLogger(__name__)


class CheckpointStore:
    """The checkpoints of one job.

    :param coordinator: The session; reads go through it, writes through the leadership.
    :param store: Storage of the cluster.
    :param work_path: Directory of the pins of the cluster.
    :param clock: For readers' leases.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        store: ObjectStore,
        paths: JobPaths,
        keys: JobKeys,
        work_path: Path,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._coordinator = coordinator
        self._store = store
        self._paths = paths
        self._keys = keys
        self._work_path = work_path
        self._clock = clock or SystemClock()
        self._collector = PayloadCollector(coordinator, store, paths, keys, work_path)

    @property
    def job_id(self) -> str:
        """The job whose checkpoints these are."""
        return self._paths.job_id

    def list(self) -> Listing[CheckpointPointer]:
        """Return the pointers newest first, and beside them those that cannot be read."""
        return read_listing(
            self._coordinator, self._paths.checkpoints, CheckpointPointer, newest=lambda pointer: pointer.number
        )

    def pointer(self, number: int) -> CheckpointPointer:
        """Return the pointer of one checkpoint.

        :raises CheckpointMissingError: There is no checkpoint of that number.
        :raises RecordCorruptError: Its pointer cannot be read.
        """
        found = read_record(self._coordinator, self._paths.checkpoint(number), CheckpointPointer)
        if found is None:
            raise CheckpointMissingError(
                f"job {self._paths.job_id!r} has no checkpoint {number}",
                next_step="List its checkpoints with `spark-ha checkpoint list`",
            )
        return found[0]

    def load(self, pointer: CheckpointPointer) -> Checkpoint:
        """Return the payload that a pointer refers to.

        :raises RecordCorruptError: It is not what the pointer's writer wrote.
        :raises ObjectMissingError: It is not there.
        :raises StorageUnavailableError: It could not be read: nothing is known about it.
        """
        data = self._store.read(pointer.payload)
        if hashlib.sha256(data).hexdigest() != pointer.sha256:
            raise RecordCorruptError(f"{pointer.payload} has another digest than its pointer says")
        return Checkpoint.from_bytes(data, source=pointer.payload)

    def payloads(self) -> Iterator[Checkpoint]:
        """Yield every payload in storage, also of checkpoints whose pointers are gone; damaged ones are logged.

        :raises StorageUnavailableError: Storage could not be read.
        """
        for info in self._store.list(self._keys.payloads):
            try:
                yield Checkpoint.from_bytes(self._store.read(info.key), source=info.key)
            except RecordCorruptError as error:  # noqa: PERF203  # one bad payload hides no other
                log.warning("payload is left out: %s", error)

    def latest_number(self) -> int | None:
        """Return the number of the newest checkpoint, readable or not; ``None`` when there is none."""
        return max((int(name) for name in self._coordinator.children(self._paths.checkpoints)), default=None)

    def next_number(self) -> int:
        """Return the number of the next checkpoint: higher than any that was ever given out."""
        return read_counter(self._coordinator, self._paths.checkpoint_id_counter) + 1

    def add(self, leadership: Leadership, checkpoint: Checkpoint) -> CheckpointPointer:
        """Write the payload, then its pointer and the counter in one fenced transaction.

        Can be called again with the same checkpoint when an outcome is unknown.

        :raises FencedError: Another epoch owns the job; the payload stays and is nobody's.
        :raises OutcomeUnknownError: Sent, not answered, and not found again: it may still appear.
        :raises CheckpointError: Another checkpoint has that number.
        """
        data = checkpoint.to_bytes()
        pointer = self._pointer_of(checkpoint, data)
        self._write_payload(pointer.payload, data)
        path = self._paths.checkpoint(checkpoint.number)
        counter = self._coordinator.find(self._paths.checkpoint_id_counter)
        count = counter_op(self._paths.checkpoint_id_counter, counter, checkpoint.number)
        try:
            leadership.commit(Create(path, pointer.to_bytes()), count)
        except (NodeExistsError, OutcomeUnknownError) as error:
            # Compared by bytes: "exists" may be our own write whose answer was lost (FLINK-24543).
            node = self._coordinator.find(path)
            if node is None or node.data != pointer.to_bytes():
                if isinstance(error, OutcomeUnknownError):
                    raise
                raise CheckpointError(f"another checkpoint has number {checkpoint.number}") from error
        return pointer

    def retain(self, leadership: Leadership, keep: int) -> tuple[int, ...]:
        """Remove the oldest checkpoints beyond *keep*, and what nothing refers to any more; return their numbers.

        The newest one stays, and what somebody holds a lease on. A file that cannot be removed is logged and tried
        again the next time: its pointer is gone already, so nobody reads it.

        :raises LeadershipError: This process may no longer write for the job.
        """
        pointers = self.list().pointers
        leased = {
            pointer.number
            for pointer in pointers[max(keep, 1) :]
            if active(self._coordinator, self._paths, f"checkpoint-{pointer.number}", self._clock)
        }
        removed = []
        for pointer in superfluous(pointers, keep, leased):
            try:
                leadership.commit(Delete(self._paths.checkpoint(pointer.number)))
            except NodeMissingError:
                log.info("checkpoint %d was removed before", pointer.number)
            self._remove_pin(pointer)
            removed.append(pointer.number)
        self._collector.collect()
        return tuple(removed)

    def _remove_pin(self, pointer: CheckpointPointer) -> None:
        pin = self._work_path / self._keys.pin(pointer.number, pointer.epoch)
        try:
            remove_tree(pin)
        except OSError as error:
            log.warning("pin %s could not be removed: %s", pin, error)

    def _pointer_of(self, checkpoint: Checkpoint, data: bytes) -> CheckpointPointer:
        return CheckpointPointer(
            number=checkpoint.number,
            epoch=checkpoint.epoch,
            run=checkpoint.run,
            reason=checkpoint.reason,
            payload=self._keys.payload(checkpoint.number, checkpoint.epoch),
            sha256=hashlib.sha256(data).hexdigest(),
            size=len(data),
            cut={query: part.batch for query, part in checkpoint.queries.items()},
            created_at=checkpoint.created_at,
        )

    def _write_payload(self, key: str, data: bytes) -> None:
        try:
            self._store.create(key, data)
        except ObjectExistsError:
            # The key carries the epoch, so only this very leader can have written it: in an earlier try.
            if self._store.read(key) != data:
                raise CheckpointError(
                    f"payload {key} exists with other content", next_step="Take the next checkpoint"
                ) from None
