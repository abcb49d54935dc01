"""Removal of payloads and pins useless for restores, and archiving of payloads kept for long.

Invariant: only payloads known to be useless are removed. While a pointer cannot be read, its cut is unknown and all
payloads stay; an unreadable payload stays too (contract 6). Numbers above the counter belong to a checkpoint in
progress. Entries of the list of deletions are left to their processor: they may be leased.

A collection is one pass over all payloads; it can be interrupted after each step and continues with the next call,
under the current bounds.

Invariant: an archive is written and read back before its first payload is removed, so a crash leaves both, and the next
pass removes the archived payloads. The leadership is proven before removals: storage has no fencing.

The batches of an epoch ascend, so its first needed payload ends the search. A pass reads one payload per epoch, and
each archive's head, once.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from typing import TypeVar

from airflow_provider_ha.checkpoints.model import Checkpoint, CheckpointPointer, SavepointPointer
from airflow_provider_ha.checkpoints.store.payload_history import (
    PayloadArchiveName,
    PayloadHistory,
    PayloadName,
    chunks,
    reach_of,
    stripped,
)
from airflow_provider_ha.checkpoints.store.pointer_store import PointerListing, PointerStore, read_listing
from airflow_provider_ha.checkpoints.store.removal import thing_of, waiting
from airflow_provider_ha.checkpoints.store.retention_policy import floors, oldest_below, replayable
from airflow_provider_ha.clock import Clock
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.node_names import is_checkpoint, is_plain, node_number
from airflow_provider_ha.coordination.paths import CHECKPOINT_DIGITS, JobPaths
from airflow_provider_ha.coordination.znode_records import read_counter
from airflow_provider_ha.errors import ObjectMissingError, RecordCorruptError, StorageUnavailableError
from airflow_provider_ha.records import Record
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.object_store import Directories, ObjectStore


log = logging.getLogger(__name__)
LEFTOVER_AGE = timedelta(hours=24)  # for blobs: longer than a process takes between an archive's data and its head
_NAMES_AT_A_TIME = 1000
_REMOVALS_PER_PROOF = 100
_UNAVAILABLE = 2  # unreadable payloads per pass: one bad payload blocks no other; two mean that storage is unavailable

Item = PayloadName | PayloadArchiveName


@dataclass(frozen=True, slots=True)
class RemovalBounds:
    """Bounds of removable payloads.

    :param last: Highest number that is unreferenced and not in progress.
    :param floor: Lowest batch of all restorable cuts, by query.
    """

    last: int
    floor: dict[str, int]


@dataclass(slots=True)
class _Found:
    """Existing payloads and archives; ordered, with fast removal."""

    payloads: dict[PayloadName, None] = field(default_factory=dict)
    archives: dict[PayloadArchiveName, None] = field(default_factory=dict)

    def discard(self, item: Item) -> None:
        self.payloads.pop(item, None) if isinstance(item, PayloadName) else self.archives.pop(item, None)

    def holds(self, item: Item) -> bool:
        return item in (self.payloads if isinstance(item, PayloadName) else self.archives)

    @property
    def count(self) -> int:
        """Number of payloads, archived or not."""
        return len(self.payloads) + sum(archive.count for archive in self.archives)


class PayloadCollection:
    """The passes over one job's payloads, with a cache of their reach, so that each is read once.

    :ivar bounds: To be set before a pass begins or continues.
    :ivar kept: Number of payloads that stayed below the last number, after a pass.
    """

    def __init__(self, history: PayloadHistory, clock: Clock) -> None:
        self.bounds = RemovalBounds(0, {})
        self.kept = 0
        self._history = history
        self._clock = clock
        self._reach: dict[Item, dict[str, int]] = {}
        self._unavailable = 0

    def steps(self, leadership: Leadership) -> Iterator[None]:
        """Yield after each step of a pass; a step is a request or a thousand names.

        :raises LeadershipError: This process may no longer write for the job; removals stopped then.
        :raises StorageUnavailableError: Storage could not be read or written; existing archives stay.
        """
        found, self._unavailable = _Found(), 0
        yield from self._name(found)
        self._reach = {item: reach for item, reach in self._reach.items() if found.holds(item)}
        yield from self._settle(leadership, found)
        yield from self._remove_needless(leadership, found)
        yield from self._archive(leadership, found)
        self.kept = found.count
        yield from self._remove_leftovers(leadership)

    def _name(self, found: _Found) -> Iterator[None]:
        payloads = self._history.payloads()
        while names := list(islice(payloads, _NAMES_AT_A_TIME)):
            found.payloads.update((payload, None) for payload in names if payload.number <= self.bounds.last)
            yield
        found.archives.update((archive, None) for archive in self._history.archives())
        yield

    def _settle(self, leadership: Leadership, found: _Found) -> Iterator[None]:
        """Remove payloads that are in an archive: its writer died before it could."""
        payloads = list(found.payloads)
        for archive in found.archives:
            first = bisect_left(payloads, archive.first, key=_number)
            inside = payloads[first : bisect_right(payloads, archive.last, key=_number)]
            twins = {payload: twin for payload in inside if (twin := self._read(payload)) is not None}
            yield
            if not twins:
                continue
            try:
                held = {(each.number, each.epoch): each for each in self._history.content(archive)}
            except (RecordCorruptError, ObjectMissingError) as error:
                log.warning("the payloads of archive %s stay: %s", archive.text, error)
                continue
            yield
            same = [each for each, twin in twins.items() if stripped(twin) == held.get((each.number, each.epoch))]
            yield from self._remove(leadership, found, same)

    def _remove_needless(self, leadership: Leadership, found: _Found) -> Iterator[None]:
        needless: list[Item] = []
        ended: set[int] = set()  # epochs with a needed payload: all later payloads are needed too
        items: list[Item] = [*found.archives, *found.payloads]
        for item in items:
            if isinstance(item, PayloadName) and item.epoch in ended:
                continue
            reach = self._reach_of(item)
            yield
            if reach is None:
                continue
            if not replayable(reach, self.bounds.floor):
                needless.append(item)
            elif isinstance(item, PayloadName):
                ended.add(item.epoch)
        yield from self._remove(leadership, found, needless)

    def _remove(self, leadership: Leadership, found: _Found, items: Iterable[Item]) -> Iterator[None]:
        for position, item in enumerate(items):
            if position % _REMOVALS_PER_PROOF == 0:  # guard: collections-do-not-prove-the-leadership
                leadership.prove()
            if isinstance(item, PayloadName):
                self._history.delete(item)
            else:
                self._history.drop(item)
            found.discard(item)
            yield

    def _archive(self, leadership: Leadership, found: _Found) -> Iterator[None]:
        payloads = list(found.payloads)
        for part in chunks([payload.size for payload in payloads]):
            read: dict[PayloadName, Checkpoint] = {}
            for payload in payloads[part]:
                checkpoint = self._read(payload)
                if checkpoint is not None:
                    read[payload] = checkpoint
                yield
            if len(read) > 1:
                leadership.prove()
                found.archives[self._history.archive(list(read.values()))] = None
                yield
                yield from self._remove(leadership, found, read)

    def _remove_leftovers(self, leadership: Leadership) -> Iterator[None]:
        """Remove old data without a head: its writer died in between, or could not remove it."""
        leftovers = self._history.leftovers(before=self._clock.now() - LEFTOVER_AGE)
        yield
        for archive in leftovers:
            leadership.prove()
            self._history.drop(archive)
            yield

    def _reach_of(self, item: Item) -> dict[str, int] | None:
        """Return query -> highest recorded batch of *item*; ``None`` if unknown."""
        if item not in self._reach:
            if isinstance(item, PayloadName):
                payload = self._read(item)
                reach = None if payload is None else reach_of(payload)
            else:
                reach = self._head(item)
            if reach is None:
                return None
            self._reach[item] = reach
        return self._reach[item]

    def _head(self, archive: PayloadArchiveName) -> dict[str, int] | None:
        try:
            return self._history.head(archive).reach
        except (RecordCorruptError, ObjectMissingError) as error:
            log.warning("archive %s stays: %s", archive.text, error)
        return None

    def _read(self, payload: PayloadName) -> Checkpoint | None:
        try:
            return self._history.read(payload)
        except RecordCorruptError as error:
            log.warning("payload stays: %s", error)
        except ObjectMissingError:
            pass  # another leader has archived or removed it
        except StorageUnavailableError as error:
            self._unavailable += 1
            if self._unavailable > _UNAVAILABLE:
                raise
            log.warning("payload stays: %s", error)
        return None


def _number(payload: PayloadName) -> int:
    return payload.number


P = TypeVar("P", bound=Record)
MANY = 10_000  # payloads that one savepoint keeps: a day at a checkpoint every ten seconds


class PayloadCollector:
    """Collector of a job. For one thread at a time."""

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
        self._collection = PayloadCollection(PayloadHistory(store, keys), clock)
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

    def _look(self) -> tuple[int, set[int], RemovalBounds | None]:
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
        return count, named, RemovalBounds(min(count, min(named) - 1), floors(cuts))

    def _warn(self, kept: int) -> None:
        """Warn about the savepoint that keeps very many payloads, again for each further batch of them."""
        holder = self._holder.savepoint_id if self._holder is not None else ""
        if kept >= MANY and holder and (holder, kept // MANY) != self._warned:
            self._warned = holder, kept // MANY
            log.warning(
                "savepoint %s of job %s keeps the records of %d checkpoints after it, which an exact replay from it "
                "needs; delete it when you no longer need it",
                holder,
                self._paths.job_id,
                kept,
            )

    def _listing(self, parent: str, record_type: type[P], is_ours: Callable[[str], bool]) -> PointerListing[P]:
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
