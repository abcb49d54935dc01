"""Removal of payloads and pins without pointers and use for restores; archiving of payloads kept for long.

Invariant: only payloads known to be useless are removed. While a pointer cannot be read, its cut is unknown and all
payloads stay; an unreadable payload stays too (contract 6). Numbers above the counter belong to a checkpoint in
progress. Entries of the list of deletions are left to their processor: they may be leased.

A collection is one pass over all payloads; it can be interrupted after each step and continues with the next call,
under the current bounds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TypeVar

from airflow_provider_ha.checkpoints.model import CheckpointPointer, SavepointPointer
from airflow_provider_ha.checkpoints.retention.collection import Bounds, Collection
from airflow_provider_ha.checkpoints.retention.history import PayloadHistory
from airflow_provider_ha.checkpoints.retention.listing import Listing, read_listing
from airflow_provider_ha.checkpoints.retention.policy import floors, oldest_below
from airflow_provider_ha.clock import Clock
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.counter import read_counter
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.node_names import is_checkpoint, is_plain, node_number
from airflow_provider_ha.coordination.paths import CHECKPOINT_DIGITS, JobPaths
from airflow_provider_ha.errors import RecordCorruptError, StorageUnavailableError
from airflow_provider_ha.pointers.store import PointerStore
from airflow_provider_ha.pointers.to_delete import thing_of, waiting
from airflow_provider_ha.records import Record
from airflow_provider_ha.storage.directories import Directories
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.store import ObjectStore


log = logging.getLogger(__name__)
P = TypeVar("P", bound=Record)
MANY = 10_000  # payloads that one savepoint keeps: a day at a checkpoint every ten seconds


class PayloadCollector:
    """Collector of a job. For one thread at a time.

    :param directories: Directories of the cluster, including pins.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        store: ObjectStore,
        paths: JobPaths,
        keys: JobKeys,
        directories: Directories,
        *,
        clock: Clock,
    ) -> None:
        self._coordinator = coordinator
        self._paths = paths
        self._directories = directories
        self._pins = keys.pins
        self._collection = Collection(PayloadHistory(store, keys), clock)
        self._steps: Iterator[None] | None = None
        self._holder: SavepointPointer | None = None
        self._warned: tuple[str, int] = ("", 0)

    def collect(self, leadership: Leadership, go_on: Callable[[], bool]) -> bool:
        """Remove unneeded payloads and pins, and archive; failed removals are retried by the next call.

        :param go_on: Called after each step; when it returns false, the next call continues from there.
        :returns: Whether the pass is complete.
        :raises LeadershipError: This process may no longer write for the job.
        :raises StorageUnavailableError: Storage could not be read; the next call begins a new pass.
        """
        count, named, bounds = self._look()
        if self._steps is None:
            self._collect_pins(count, named)
        else:
            leadership.prove()  # the last proof was before the interruption
        steps, self._steps = self._steps or self._collection.steps(leadership), None  # an error ends a pass
        if bounds is None:
            return True
        self._collection.bounds = bounds
        for _ in steps:
            if not go_on():
                self._steps = steps
                return False
        self._warn(self._collection.kept)
        return True

    def floor(self) -> dict[str, int] | None:
        """Return the lowest batch of all restorable cuts by query; ``None`` when a cut cannot be read."""
        bounds = self._look()[2]
        return None if bounds is None else bounds.floor

    def _look(self) -> tuple[int, set[int], Bounds | None]:
        """Return the counter, the referenced numbers, and the bounds of a removal: ``None`` when they are unknown."""
        count = read_counter(self._coordinator, self._paths.checkpoint_id_counter)
        checkpoints = self._listing(self._paths.checkpoints, CheckpointPointer, is_checkpoint)
        savepoints = self._listing(self._paths.savepoints, SavepointPointer, is_plain)
        named = {pointer.number for pointer in checkpoints.pointers}
        named |= {int(pointer.name) for pointer in checkpoints.unreadable}
        # After the pointers: a pointer marked between the two reads is in the first answer or in this one.
        named |= self._doomed()  # guard: collector-ignores-the-list
        # guard: payloads-go-although-a-pointer-cannot-be-read
        if checkpoints.unreadable or savepoints.unreadable or not checkpoints.pointers:
            return count, named, None
        # guard: savepoints-need-no-payloads
        cuts = [pointer.cut for pointer in checkpoints] + [pointer.cut for pointer in savepoints]
        self._holder = oldest_below(savepoints.pointers, floors(pointer.cut for pointer in checkpoints))
        return count, named, Bounds(min(count, min(named) - 1), floors(cuts))

    def _warn(self, kept: int) -> None:
        """Warn about the savepoint that keeps very many payloads, again for each further batch of them."""
        holder = self._holder.savepoint_id if self._holder is not None else ""
        if kept >= MANY and holder and (holder, kept // MANY) != self._warned:
            self._warned = holder, kept // MANY
            log.warning(
                "savepoint %s of job %s keeps the records of %d checkpoints after it, which an exact replay from it "
                "needs; dispose of it when you no longer need it",
                holder,
                self._paths.job_id,
                kept,
            )

    def _listing(self, parent: str, record_type: type[P], is_ours: Callable[[str], bool]) -> Listing[P]:
        return read_listing(PointerStore(self._coordinator, parent, record_type, is_ours=is_ours), newest=lambda _: 0)

    def _doomed(self) -> set[int]:
        entries = waiting(self._coordinator, self._paths.cluster, self._paths.job_id)
        numbers = (node_number(thing_of(entry).removeprefix("checkpoint-")) for entry in entries)
        return {number for number in numbers if number is not None}

    def _collect_pins(self, last: int, named: set[int]) -> None:
        try:
            names = self._directories.list(self._pins)  # also of the remains of a pin whose creator died
        except (RecordCorruptError, StorageUnavailableError) as error:
            log.warning("pins of job %s could not be listed: %s", self._paths.job_id, error)
            return
        for name in names:
            number = node_number(name[:CHECKPOINT_DIGITS], digits=CHECKPOINT_DIGITS)
            # guard: collector-takes-what-is-being-made
            if number is not None and number <= last and number not in named:
                try:
                    self._directories.remove(f"{self._pins}{name}")
                except StorageUnavailableError as error:
                    log.warning("pin %s could not be removed: %s", name, error)
