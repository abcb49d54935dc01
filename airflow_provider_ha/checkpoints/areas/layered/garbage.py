"""Search for files of a job's working directories that are no longer needed, and their removal.

A file stays while the base of a directory that is not over names it, or such a directory needs it itself: for one of
its last batches, or for a retained cut. A directory that is over needs no file. RocksDB tables named by a base are
garbage too when these batches and cuts do not use them: a takeover also names tables that are too young to judge.

Invariants: bases are read before files are listed, so a file of a later directory is no candidate. A read error ends
the search, because the needs are unknown then. So does damage of a current or retained directory; in another incomplete
directory, no file is judged. The record of a takeover, and the mark that its directory is over, stay until no process
of the old driver can be expected to wake up.

Invariant: the right to remove is proven before the first file and again after a fixed number. A process that was frozen
between a proof and a removal removes existing garbage, and garbage stays garbage: a later base names files of
directories that are not over, and these need none of the garbage.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum

from airflow_provider_ha.checkpoints.areas.layered.base_file import FILE, BaseEntry
from airflow_provider_ha.checkpoints.areas.layered.layered_tree import (
    MARKER,
    NEEDS,
    REMOVED,
    Bases,
    LayeredReader,
    LayeredTree,
)
from airflow_provider_ha.checkpoints.areas.layered.needs import (
    KEPT_BATCHES,
    KnownNeeds,
    NeededFiles,
    is_table,
    needs_of,
)
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import COMMITS, OFFSETS, fence_at, numbers, queries
from airflow_provider_ha.checkpoints.spark.operators import checked_by
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.errors import CheckpointCorruptError, CheckpointError, StorageUnavailableError
from airflow_provider_ha.storage.keys import query_directory_of
from airflow_provider_ha.storage.object_store import ObjectInfo, ObjectStore


log = logging.getLogger(__name__)
Cuts = Mapping[str, Mapping[str, AbstractSet[int]]]
"""Key of a working directory -> query -> batches at which it is retained."""

GRACE = timedelta(hours=24)
"""Minimum age of a file: longer than any upload, and than a task freezes between two uploads."""
SLOT_GRACE = timedelta(days=30)
"""Time from the end of a directory to the removal of its fence. A driver that wakes up later still has no lease."""


class GarbageReason(str, Enum):
    """Reason why a file is garbage."""

    PURGED = "purged"  # Spark would have removed it
    OVER = "over"  # its directory is over, and no base names the file
    UNFINISHED = "unfinished"  # its writer died before it was complete


@dataclass(frozen=True, slots=True)
class Garbage:
    """A file that is not needed.

    :param key: Relative to the storage root.
    """

    key: str
    size: int
    why: GarbageReason


@dataclass(slots=True)
class GarbageSearch:
    """The search in the working directories of one job.

    :param live: Prefix of the job's working directories, with a final slash.
    :param current: Key of the current working directory, which is never over; ``None`` for none.
    :param now: The storage's time, in milliseconds since 1970.
    :param kept: Number of batches to keep per query, in addition to the last one.
    :ivar known: Key of a query directory of the current one -> its known needs for a takeover, after the last step.
    :ivar garbage: The outcome, in the order of removal: complete after the last step.
    """

    files: ObjectStore
    live: str
    cuts: Cuts
    current: str | None
    now: int
    kept: int = KEPT_BATCHES
    grace: timedelta = GRACE
    known: dict[str, KnownNeeds] = field(default_factory=dict)
    garbage: list[Garbage] = field(default_factory=list)
    directories: int = 0
    seen: int = 0
    size: int = 0
    _needed: set[str] = field(default_factory=set)  # keys of files
    _purged: dict[str, int] = field(default_factory=dict)  # own files, before the names in other bases are known

    def steps(self) -> Iterator[None]:
        """Search, and yield after each closure.

        :raises CheckpointCorruptError: The needs of a directory are unknown.
        :raises CheckpointMissingError: A needed batch is missing.
        """
        keys = [f"{self.live}{name}" for name in self.files.names(self.live)]
        self.directories = len(keys)
        marks = {key: self.files.info(f"{key}/{REMOVED}") for key in keys}
        over = {key: mark for key, mark in marks.items() if mark is not None and not self._is_held(key)}
        self._require_cuts(keys)
        bases = Bases(self.files)
        trees = {key: LayeredTree(LayeredReader(self.files, bases, query_directory_of), f"{key}/") for key in keys}
        # guard: files-are-listed-before-bases
        for key in keys:
            if key not in over:
                self._read_bases(key, bases)
                yield
        for key in keys:
            if key not in over:
                yield from self._look_into(key, trees[key])
        for key, mark in over.items():
            self._judge_over(key, trees[key], mark)
            yield
        self._judge_live()
        for key in keys:
            self._judge_unfinished(key)
            yield

    def _is_held(self, key: str) -> bool:
        return key == self.current or any(self.cuts.get(key, {}).values())  # guard: retained-cuts-are-over

    def _require_cuts(self, keys: list[str]) -> None:
        for key in {*self.cuts, *filter(None, [self.current])}.difference(keys):
            raise CheckpointCorruptError(key, "it is retained or current, but missing")

    def _read_bases(self, key: str, bases: Bases) -> None:
        for query in self.files.names(f"{key}/"):
            if not query.startswith((".", "_")):
                bases.of(f"{key}/{query}")

    def _count(self, sizes: list[int]) -> None:
        self.seen += len(sizes)
        self.size += sum(sizes)

    def _look_into(self, key: str, tree: LayeredTree) -> Iterator[None]:
        """Note the needs of a directory that is not over, and its own files that Spark would have purged."""
        entries = tree.entries()
        own = {name for name, entry in entries.items() if entry.place == f"{key}/{name}"}
        self._count([entries[name].length for name in own])
        needless: set[str] = set()
        for query in queries(tree):
            needs = None
            try:
                for complete in needs_of(tree / query, self.cuts.get(key, {}).get(query, frozenset()), kept=self.kept):
                    needs = complete
                    yield
            except CheckpointError as error:
                if self._is_held(key):  # guard: damaged-checkpoints-are-left-to-the-collector
                    raise
                # Its creator died before it was complete, and it never became current.
                log.info("no file of %s/%s is judged: %s", key, query, error)
                continue
            if needs is not None:
                needless.update(f"{query}/{name}" for name in self._needless(needs, query, entries))
                if key == self.current:
                    self.known[f"{key}/{query}"] = KnownNeeds.of(needs, now=self.now, grace=self.grace)
        self._purged.update((entries[name].place, entries[name].length) for name in needless & own)
        # Spark lists the names in a base, and opens old versions among them when it looks for files to purge. It opens
        # tables only through the names in a version.
        spared = {name for name in needless if is_table(name)}
        # guard: files-of-bases-go
        self._needed.update(entry.place for name, entry in entries.items() if name not in own and name not in spared)

    def _needless(self, needs: NeededFiles, query: str, entries: Mapping[str, BaseEntry]) -> Iterator[str]:
        """Yield the old files of a query, own or inherited, that Spark would have purged."""
        prefix = f"{query}/"
        limit = needs.judged_before(self.now, self.grace)
        for name, entry in entries.items():
            inner = name.removeprefix(prefix)
            if name.startswith(prefix) and entry.mtime < limit and needs.would_purge(inner):
                yield inner

    def _judge_live(self) -> None:
        left = sorted(self._purged.keys() - self._needed, key=_logs_first)
        self.garbage += [Garbage(key, self._purged[key], GarbageReason.PURGED) for key in left]

    def _judge_over(self, key: str, tree: LayeredTree, mark: ObjectInfo) -> None:
        """Judge the files of a directory that has been over for the minimum age of a file."""
        own = list(self.files.list(f"{key}/"))
        self._count([file.size for file in own])
        limit = self.now - _milliseconds(self.grace)
        if mark.mtime >= limit:
            return
        marks = {f"{key}/{MARKER}", f"{key}/{REMOVED}", *_slots(key, tree)}
        rest = [file for file in own if file.key not in marks]
        garbage = [file for file in rest if file.mtime < limit and file.key not in self._needed]
        self.garbage += [
            Garbage(file.key, file.size, GarbageReason.OVER)
            for file in sorted(garbage, key=lambda file: _logs_first(file.key))
        ]
        if len(garbage) == len(rest) and mark.mtime < self.now - _milliseconds(SLOT_GRACE):
            # The mark goes last: without it, the remains of a crash would count as a working directory again.
            left = sorted((file for file in own if file.key in marks), key=lambda file: file.key == mark.key)
            self.garbage += [Garbage(file.key, file.size, GarbageReason.OVER) for file in left]

    def _judge_unfinished(self, key: str) -> None:
        limit = self.now - _milliseconds(self.grace)
        left = (file for file in self.files.prepared(f"{key}/") if file.mtime < limit)
        self.garbage += [Garbage(file.key, file.size, GarbageReason.UNFINISHED) for file in left]


def _slots(key: str, tree: LayeredTree) -> Iterator[str]:
    """Yield the keys of the records of takeovers in a directory."""
    for query in queries(tree):
        for log in (OFFSETS, COMMITS):
            last = numbers(tree, f"{query}/{log}")[-1:]
            if last and fence_at(tree, f"{query}/{log}/{last[0]}") is not None:  # guard: the-fence-goes-with-the-files
                yield f"{key}/{query}/{log}/{last[0]}"


def _logs_first(key: str) -> tuple[int, int, str]:
    """Order removals as Spark does: logs before state, old entries first. A base goes last."""
    place, _, own = checked_by(key).rpartition("/")
    stem = own.partition(".")[0]
    is_log = place.rpartition("/")[2] in (OFFSETS, COMMITS)
    rank = 0 if is_log else 2 if own == FILE else 1
    return (rank, int(stem) if stem.isascii() and stem.isdigit() else 0, key)


def _milliseconds(time: timedelta) -> int:
    return time // timedelta(milliseconds=1)


REMOVALS_PER_PROOF = 50


def remove(files: ObjectStore, garbage: Iterable[Garbage], prove: Callable[[], None]) -> Iterator[Garbage]:
    """Remove files in order, and yield each removed one.

    :param prove: Raises when this process may no longer remove files of the job.
    :raises LeadershipError: The right is lost.
    :raises StorageUnavailableError: The outcome of a removal is unknown; the next pass continues.
    """
    for position, item in enumerate(garbage):
        if position % REMOVALS_PER_PROOF == 0:  # guard: files-go-without-a-proof
            prove()
        files.delete(item.key)
        yield item


def note_needs(files: ObjectStore, known: Mapping[str, KnownNeeds], prove: Callable[[], None]) -> None:
    """Record the needs of the current directory: the next takeover omits all other files.

    A late write by a frozen process was true earlier, so it omits fewer files.

    :param known: Key of a query directory -> its known needs.
    :param prove: Raises when this process may no longer write for the job.
    :raises LeadershipError: The right is lost.
    :raises StorageUnavailableError: The outcome of a write is unknown; the next pass writes again.
    """
    for directory, needs in known.items():
        prove()
        files.write(f"{directory}/{NEEDS}", needs.to_bytes())


def time_of(files: ObjectStore) -> int:
    """Return the storage's time in milliseconds since 1970: ages compare its times, never two clocks.

    It writes and removes a probe.

    :raises StorageUnavailableError: The probe could not be written.
    """
    key = f"probe/{new_id()}-time"
    files.write(key, b"")
    try:
        probe = files.info(key)
    finally:
        files.delete(key)
    if probe is None:
        raise StorageUnavailableError(
            f"storage {files.uri} does not return a fresh object",
            next_step="Use a store that is consistent",
        )
    return probe.mtime
