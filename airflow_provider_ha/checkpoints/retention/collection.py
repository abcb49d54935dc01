"""One pass over the payloads of a job: removal of those useless for restores, archiving of those to keep for long.

Invariant: an archive is written and read back before its first payload is removed, so a crash leaves both, and the next
pass removes the archived payloads. The leadership is proven before removals: storage has no fencing.

The batches of an epoch ascend, so its first needed payload ends the search. A pass reads one payload per epoch, and
each archive's head, once.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice

from airflow_provider_ha.checkpoints.model import Checkpoint
from airflow_provider_ha.checkpoints.retention.history import PayloadHistory, PayloadName
from airflow_provider_ha.checkpoints.retention.payload_archives import ArchiveName, chunks, reach_of, stripped
from airflow_provider_ha.checkpoints.retention.policy import replayable
from airflow_provider_ha.clock import Clock
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.errors import ObjectMissingError, RecordCorruptError, StorageUnavailableError


log = logging.getLogger(__name__)
LEFTOVER_AGE = timedelta(hours=24)  # for blobs: longer than a process takes between an archive's data and its head
_NAMES_AT_A_TIME = 1000
_REMOVALS_PER_PROOF = 100
_UNAVAILABLE = 2  # unreadable payloads per pass: one bad payload blocks no other; two mean that storage is unavailable

Item = PayloadName | ArchiveName


@dataclass(frozen=True, slots=True)
class Bounds:
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
    archives: dict[ArchiveName, None] = field(default_factory=dict)

    def discard(self, item: Item) -> None:
        self.payloads.pop(item, None) if isinstance(item, PayloadName) else self.archives.pop(item, None)

    def holds(self, item: Item) -> bool:
        return item in (self.payloads if isinstance(item, PayloadName) else self.archives)

    @property
    def count(self) -> int:
        """Number of payloads, archived or not."""
        return len(self.payloads) + sum(archive.count for archive in self.archives)


class Collection:
    """The passes over one job's payloads, with a cache of their reach, so that each is read once.

    :ivar bounds: To be set before a pass begins or continues.
    :ivar kept: Number of payloads that stayed below the last number, after a pass.
    """

    def __init__(self, history: PayloadHistory, clock: Clock) -> None:
        self.bounds = Bounds(0, {})
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

    def _head(self, archive: ArchiveName) -> dict[str, int] | None:
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
