"""The fence of a query directory without renames: its new owner takes the entry that the old driver needs next.

Invariant: an entry of a log is made once. Where L is committed the old driver has to plan L + 1, else it has to commit
L: who takes that entry first decides whether the old driver goes on. When it was faster, it is looked at again. With
the record in the slot, nothing can follow in this directory, whenever a frozen process wakes up.

Logs in which more than one batch is planned and not committed have no such entry: they are refused.
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
    """The outcome of a fence.

    :param at: Where the query stands from now on.
    :param entry: Name of the entry that holds the record.
    :param attempts: How often the old driver was faster, and one.
    """

    at: Progress
    entry: str
    attempts: int = 1


def next_entry(at: Progress) -> str:
    """Return the entry that a query which stands at *at* needs next. Pure.

    :raises CheckpointCorruptError: There is no single one.
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
    :param directory: The same, to be read.
    :param record: Goes into the slot.
    :raises CheckpointCorruptError: Its log cannot be fenced.
    :raises StorageUnavailableError: Whether it is fenced is not known.
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
            log.info("%s of %s was written by its driver before the fence; it is looked at again", entry, directory)
            continue
        after, taken = look(directory)
        if taken is not None and after == at:
            return Slot(at, taken, attempt)
    raise StorageUnavailableError(
        f"{directory} could not be fenced: its driver wrote each of {ATTEMPTS} entries first",
        next_step="End its driver, or try again",
    )


def look(directory: Tree) -> tuple[Progress, str | None]:
    """Return where a query stands, and the entry that holds the record of a fence; ``None`` when there is none.

    The record is looked for after the progress was: what stands between the two is met again.
    """
    fresh = directory.fresh()
    at = progress(fresh)
    for log_of, entry in ((OFFSETS, at.planned + 1), (COMMITS, at.planned)):
        # The log alone is listed: beside it lie the files of the state, thousands of them.
        if fence_at((fresh / log_of).fresh(), str(entry)) is not None:
            return at, f"{log_of}/{entry}"
    return at, None
