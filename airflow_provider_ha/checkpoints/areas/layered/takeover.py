"""Takeover of a query directory without renames: its fence, and the selection of inherited files.

Invariant: a log entry is created once. If L is committed the old driver must plan L + 1, otherwise it must commit L:
whichever process creates that entry first decides whether the old driver continues. If the old driver was faster, the
next entry is tried. With the record in the slot, no entry can follow in this directory, even when a frozen process
wakes up.

Logs with more than one planned but uncommitted batch have no such entry: they are refused.

Invariant: files that the old driver planned or wrote beyond the cut are omitted, even if written later: log entries
above L and C, source log entries above the offset of L, state above the version that C wrote. State of format 1 is
loaded by its number alone, so a named file is a file that Spark reads. Naming too many older files is harmless: Spark
removes no file here. Files that are known to be unneeded are omitted (``needs_record``).

No base names files with absolute paths: they are rewritten for their new place.

The collector scans all surviving objects repeatedly as their number grows. A takeover of a checkpoint of 10,000 files
creates half a million objects, keeps them all until it ends, and has no cycles among them: a third of its processor
time went into the collector (`benchmarks/checkpoint_takeover.py`).
"""

from __future__ import annotations

import gc
import logging
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from airflow_provider_ha.checkpoints.spark.checkpoint_layout import (
    COMMITS,
    METADATA,
    OFFSETS,
    SOURCES,
    STATE,
    FenceRecord,
    Progress,
    log_end,
)
from airflow_provider_ha.checkpoints.spark.closure import source_log
from airflow_provider_ha.checkpoints.spark.metadata_log import COMPACT, read_offsets
from airflow_provider_ha.checkpoints.spark.operators import checked_by, is_relocated
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.errors import CheckpointCorruptError, ObjectExistsError, StorageUnavailableError
from airflow_provider_ha.storage.object_store import ObjectStore


VERSION_FILE = re.compile(r"([0-9]+)(_[^.]+)?\.(zip|changelog|delta|snapshot)")
"""Name of a file with a single version of a state."""
_WRITTEN_AT = re.compile(r"([0-9]+)(_.*)?")
_IN_STATE = 2  # state/<operator>/...


@dataclass(frozen=True, slots=True)
class InheritedCut:
    """The inherited part of a query directory.

    :param planned: L; -1 for no batch.
    :param committed: C; -1 for no batch.
    :param logged: Directory of a source's log, as ``sources/0`` -> the highest entry of the cut.
    """

    planned: int
    committed: int
    logged: Mapping[str, int] = field(default_factory=dict)


def cut_of(directory: Tree, planned: int, committed: int) -> InheritedCut:
    """Return the cut of a fenced query directory.

    :raises CheckpointCorruptError: The entry of its last planned batch is damaged or missing.
    """
    if planned < 0:
        return InheritedCut(planned, committed)
    offsets = read_offsets(directory, planned)
    ends = ((source_log(directory, offsets, at), offsets.log_offset(at)) for at in range(len(offsets.offsets)))
    return InheritedCut(planned, committed, {place: end for place, end in ends if end is not None})


def belongs(name: str, cut: InheritedCut) -> bool:
    """Whether a file of a query directory is inherited at a cut. Pure.

    :param name: Relative to the query directory.
    """
    parts = checked_by(name).split("/")
    if any(part.startswith((".", "_ha_")) for part in name.split("/")):
        return False
    if parts[0] == METADATA:
        return len(parts) == 1
    if parts[0] in (OFFSETS, COMMITS):
        # guard: bases-name-later-batches
        return _number(parts[-1]) <= (cut.planned if parts[0] == OFFSETS else cut.committed)
    if parts[0] == SOURCES:
        return cut.planned >= 0 and _in_source_log(parts, cut)
    return parts[0] == STATE and cut.committed >= 0 and _in_state(parts, checked_by(name), cut.committed)


def is_own(name: str) -> bool:
    """Whether a file must be rewritten for its new place, and is inherited by no base."""
    return is_relocated(checked_by(name))


def _in_source_log(parts: list[str], cut: InheritedCut) -> bool:
    last = cut.logged.get("/".join(parts[:-1]))
    number = _number(parts[-1].removesuffix(COMPACT))
    return last is None or number <= last


def _in_state(parts: list[str], path: str, committed: int) -> bool:
    if is_relocated(path) or "_stateSchema" in parts[_IN_STATE:]:
        written = _WRITTEN_AT.fullmatch(parts[-1])
        return written is None or int(written[1]) <= committed
    version = VERSION_FILE.fullmatch(parts[-1])
    return version is None or int(version[1]) <= committed + 1


def _number(text: str) -> float:
    """Return the number of an entry; infinite for other names, which belong to no cut."""
    return int(text) if text.isascii() and text.isdigit() else float("inf")


class _Pauses:
    """Counter of current pauses: the collector belongs to the process, operations to their threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 0
        self._was_on = False

    def begin(self) -> None:
        with self._lock:
            if self._number == 0:
                self._was_on = gc.isenabled()
                gc.disable()
            self._number += 1

    def end(self) -> None:
        with self._lock:
            self._number -= 1
            if self._number == 0 and self._was_on:
                gc.enable()


_PAUSES = _Pauses()


@contextmanager
def paused_gc() -> Iterator[None]:
    """Pause the collector until the block ends, in all threads; objects without cycles are still freed.

    A collector that was disabled before stays disabled.
    """
    _PAUSES.begin()
    try:
        yield
    finally:
        _PAUSES.end()


log = logging.getLogger(__name__)
ATTEMPTS = 100  # each lost one means that the old driver finished half a batch


@dataclass(frozen=True, slots=True)
class OccupiedSlot:
    """Outcome of a fence.

    :param entry: Name of the entry with the record.
    :param attempts: Number of attempts: the old driver won all but the last.
    """

    at: Progress
    entry: str
    attempts: int = 1


def next_entry(at: Progress) -> str:
    """Return the entry that a query with progress *at* needs next. Pure.

    :raises CheckpointCorruptError: There is no single next entry.
    """
    if at.planned == at.committed:  # guard: slots-behind-a-planned-batch
        return f"{OFFSETS}/{at.planned + 1}"
    if at.planned == at.committed + 1:
        return f"{COMMITS}/{at.planned}"
    if at.committed > at.planned:
        raise CheckpointCorruptError(f"{COMMITS}/{at.committed}", "it is committed, but was never planned")
    raise CheckpointCorruptError(
        f"{OFFSETS}/{at.planned}",
        f"it is planned while {at.committed} is the last committed batch: such a log cannot be fenced",
        next_step="Prove that the old driver is dead, then restore the job from its latest checkpoint",
    )


def occupy(files: ObjectStore, key: str, directory: Tree, record: FenceRecord) -> OccupiedSlot:
    """Fence one query directory; repeatable, also after a crash at any step and by another leader.

    :raises CheckpointCorruptError: Its log cannot be fenced.
    :raises StorageUnavailableError: The outcome is unknown.
    """
    for attempt in range(1, ATTEMPTS + 1):
        at, taken = look(directory)
        if taken is not None:
            return OccupiedSlot(at, taken, attempt)
        try:
            entry = next_entry(at)
        except CheckpointCorruptError:
            if look(directory)[0] == at:
                raise
            continue  # the driver continued between two listings
        writer = f"{record.epoch}/{record.submission}/{record.writer}"
        try:
            files.create(f"{key}/{entry}", record.to_bytes(), writer=writer)
        except ObjectExistsError:
            log.info("the driver wrote %s of %s before the fence; trying the next entry", entry, directory)
            continue
        after, taken = look(directory)
        if taken is not None and after == at:
            return OccupiedSlot(at, taken, attempt)
    raise StorageUnavailableError(
        f"{directory} could not be fenced: its driver wrote each of {ATTEMPTS} entries first",
        next_step="End its driver, or try again",
    )


def look(directory: Tree) -> tuple[Progress, str | None]:
    """Return the progress of a query, and the entry with the record of a fence; ``None`` without one.

    Only the logs are listed: the directory also has the state files, by the thousands. The offsets are listed first. If
    the driver continues between the two listings, a record in the commits is not in the slot of this progress.
    """
    fresh = directory.fresh(OFFSETS, COMMITS)
    offsets, commits = log_end(fresh / OFFSETS), log_end(fresh / COMMITS)
    at = Progress(offsets.batch, commits.batch)
    if offsets.fence is not None:
        return at, f"{OFFSETS}/{offsets.fence}"
    if commits.fence is not None and commits.fence == at.planned:  # guard: fences-of-later-batches
        return at, f"{COMMITS}/{commits.fence}"
    return at, None
