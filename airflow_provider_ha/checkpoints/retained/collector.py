"""Removes payloads and pins that no pointer refers to and no restore could need.

Invariant: only what is known to be needless goes. While one pointer cannot be read, its cut is unknown and every
payload stays; a payload that cannot be read stays as well (contract 6). Numbers above the counter belong to a
checkpoint that is just being made. What is on the list of deletions is left to who works it off: it may be leased.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from airflow_provider_ha.checkpoints.model import Checkpoint, CheckpointPointer, SavepointPointer
from airflow_provider_ha.checkpoints.retained.listing import Listing, read_listing
from airflow_provider_ha.checkpoints.retained.retention import floors, replayable
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.counter import read_counter
from airflow_provider_ha.coordination.node_names import is_checkpoint, is_plain, node_number
from airflow_provider_ha.coordination.paths import CHECKPOINT_DIGITS, JobPaths
from airflow_provider_ha.errors import RecordCorruptError, StorageError
from airflow_provider_ha.pointers.store import PointerStore
from airflow_provider_ha.pointers.to_delete import thing_of, waiting
from airflow_provider_ha.records import Record
from airflow_provider_ha.storage.durable import remove_tree
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.store import ObjectStore


log = logging.getLogger(__name__)
P = TypeVar("P", bound=Record)


class PayloadCollector:
    """Collector of one job; remembers how far each payload reaches, so that it reads each one once.

    :param work_path: Directory of the pins of the cluster.
    """

    def __init__(
        self, coordinator: Coordinator, store: ObjectStore, paths: JobPaths, keys: JobKeys, work_path: Path
    ) -> None:
        self._coordinator = coordinator
        self._store = store
        self._paths = paths
        self._keys = keys
        self._pins = (work_path / keys.pin(0, 0)).parent
        self._reach: dict[str, dict[str, int]] = {}

    def collect(self) -> None:
        """Remove what nothing needs; what cannot be removed now is tried again the next time."""
        count = read_counter(self._coordinator, self._paths.checkpoint_id_counter)
        checkpoints = self._listing(self._paths.checkpoints, CheckpointPointer, is_checkpoint)
        savepoints = self._listing(self._paths.savepoints, SavepointPointer, is_plain)
        named = {pointer.number for pointer in checkpoints.pointers}
        named |= {int(pointer.name) for pointer in checkpoints.unreadable}
        # After the pointers: one that is marked meanwhile is in the first answer or in this one.
        named |= self._doomed()
        self._collect_pins(count, named)
        if checkpoints.unreadable or savepoints.unreadable or not checkpoints.pointers:
            return
        cuts = [pointer.cut for pointer in checkpoints] + [pointer.cut for pointer in savepoints]
        self._collect_payloads(min(count, min(named) - 1), floors(cuts))

    def _listing(self, parent: str, record_type: type[P], is_ours: Callable[[str], bool]) -> Listing[P]:
        return read_listing(PointerStore(self._coordinator, parent, record_type, is_ours=is_ours), newest=lambda _: 0)

    def _doomed(self) -> set[int]:
        entries = waiting(self._coordinator, self._paths.cluster, self._paths.job_id)
        numbers = (node_number(thing_of(entry).removeprefix("checkpoint-")) for entry in entries)
        return {number for number in numbers if number is not None}

    def _collect_pins(self, last: int, named: set[int]) -> None:
        if not self._pins.is_dir():
            return
        for pin in self._pins.iterdir():
            # Also the hidden remains of a pin whose maker died.
            number = node_number(pin.name.lstrip(".")[:CHECKPOINT_DIGITS], digits=CHECKPOINT_DIGITS)
            if number is not None and number <= last and number not in named:
                try:
                    remove_tree(pin)
                except OSError as error:
                    log.warning("pin %s could not be removed: %s", pin, error)

    def _collect_payloads(self, last: int, floor: dict[str, int]) -> None:
        for key in self._payload_keys(last):
            try:
                if not replayable(self._reach_of(key), floor):
                    self._store.delete(key)
            except (RecordCorruptError, StorageError) as error:  # noqa: PERF203  # one bad payload keeps no other
                log.warning("payload %s stays: %s", key, error)

    def _payload_keys(self, last: int) -> Iterator[str]:
        for info in self._store.list(self._keys.payloads):
            name = info.key.removeprefix(self._keys.payloads)[:CHECKPOINT_DIGITS]
            number = node_number(name, digits=CHECKPOINT_DIGITS)
            if number is not None and number <= last:
                yield info.key

    def _reach_of(self, key: str) -> dict[str, int]:
        if key not in self._reach:
            checkpoint = Checkpoint.from_bytes(self._store.read(key), source=key)
            self._reach[key] = {
                query: max((entry.batch for entry in part.entries), default=-1)
                for query, part in checkpoint.queries.items()
            }
        return self._reach[key]
