"""Fence of a query directory without renames: the new owner takes the entry that the old driver needs next.

Invariant: a log entry is created once. If L is committed the old driver must plan L + 1, otherwise it must commit L:
whichever process creates that entry first decides whether the old driver continues. If the old driver was faster, the
next entry is tried. With the record in the slot, no entry can follow in this directory, even when a frozen process
wakes up.

Logs with more than one planned but uncommitted batch have no such entry: they are refused.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from airflow_provider_ha.checkpoints.format.fence_record import FenceRecord, fence_at
from airflow_provider_ha.checkpoints.format.layout import COMMITS, OFFSETS, Progress, progress
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.errors import CheckpointCorruptError, ObjectExistsError, StorageUnavailableError
from airflow_provider_ha.storage.file_store import FileStore


log = logging.getLogger(__name__)
ATTEMPTS = 100  # each lost one means that the old driver finished half a batch


@dataclass(frozen=True, slots=True)
class Slot:
    """Outcome of a fence.

    :param at: Final progress of the query.
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


def occupy(files: FileStore, key: str, directory: Tree, record: FenceRecord) -> Slot:
    """Fence one query directory; repeatable, also after a crash at any step and by another leader.

    :param files: Holds it.
    :param key: Key of the query directory.
    :param directory: The same directory, for reads.
    :param record: Content of the slot.
    :raises CheckpointCorruptError: Its log cannot be fenced.
    :raises StorageUnavailableError: The outcome is unknown.
    """
    for attempt in range(1, ATTEMPTS + 1):
        at, taken = look(directory)
        if taken is not None:
            return Slot(at, taken, attempt)
        entry = next_entry(at)
        writer = f"{record.epoch}/{record.submission}/{record.writer}"
        try:
            files.create(f"{key}/{entry}", record.to_bytes(), writer=writer)
        except ObjectExistsError:
            log.info("the driver wrote %s of %s before the fence; trying the next entry", entry, directory)
            continue
        after, taken = look(directory)
        if taken is not None and after == at:
            return Slot(at, taken, attempt)
    raise StorageUnavailableError(
        f"{directory} could not be fenced: its driver wrote each of {ATTEMPTS} entries first",
        next_step="End its driver, or try again",
    )


def look(directory: Tree) -> tuple[Progress, str | None]:
    """Return the progress of a query, and the entry with the record of a fence; ``None`` without one.

    The record is read after the progress, so an entry written in between is seen.
    """
    fresh = directory.fresh()
    at = progress(fresh)
    for log_of, entry in ((OFFSETS, at.planned + 1), (COMMITS, at.planned)):
        # Only the log is listed: the directory also has the state files, by the thousands.
        if fence_at((fresh / log_of).fresh(), str(entry)) is not None:
            return at, f"{log_of}/{entry}"
    return at, None
