"""Drain of a terminated job: its last batch without input, and drains that were not finished.

Invariant of a drain: written only into a fork, after a sharp cut (offsets equal commits). The watermark never goes
back, so the drained state is an end; restores use the checkpoint before it. The batch must run with ``Trigger.Once``:
``AvailableNow`` would read new files as late rows and drop them (spark-facts section 4).

Invariant of an empty batch: written only into a temporary copy. Spark executes exactly this batch, with
``Trigger.Once``: every stateful operator loads the state after N, gets no rows, and writes it as that of N + 1. The
watermark stays that of N, so that nothing new is emitted.

A finished drain is named in its run's result. An interrupted drain is known by its fork alone, which stays until the
driver of a later run has begun (``store.working_directories``).

Invariant: a batch counts as the drain's only if it was planned in the drain's fork and nowhere else. The same number of
an ordinary batch means other rows: set aside, they would be lost.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from airflow_provider_ha.checkpoints.areas.work_area import WorkArea
from airflow_provider_ha.checkpoints.model import BatchEntry
from airflow_provider_ha.checkpoints.spark.atomic import write_aside
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import OFFSETS, progress
from airflow_provider_ha.checkpoints.spark.files import read, read_text
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.metadata_log import parse_offsets
from airflow_provider_ha.checkpoints.spark.tree import Tree, WritableTree
from airflow_provider_ha.clock import Clock, SystemClock
from airflow_provider_ha.errors import CheckpointCorruptError, CheckpointMissingError
from airflow_provider_ha.storage.keys import epoch_of


# 9999-12-31 in milliseconds: above every event time, and within the range of Spark's timestamps.
MAXIMUM_WATERMARK = 253402300799000


def write_drain_entry(directory: WritableTree, *, clock: Clock | None = None) -> int:
    """Plan the drain's batch in a fork and return its number.

    :param directory: Checkpoint directory of one query, a fork of a sharp cut.
    :raises CheckpointMissingError: The query has no committed batch to drain.
    :raises CheckpointCorruptError: A batch is in flight, or the last entry cannot be read.
    """
    batch = _sharp(directory)
    text = read_text(directory, f"{OFFSETS}/{batch}")
    metadata = dict(parse_offsets(batch, text).metadata)
    metadata["batchWatermarkMs"] = MAXIMUM_WATERMARK
    metadata["batchTimestampMs"] = int((clock or SystemClock()).now().timestamp() * 1000)
    version, _, *offsets = text.split("\n")
    drained = "\n".join([version, json.dumps(metadata, separators=(",", ":")), *offsets])
    directory.write(f"{OFFSETS}/{batch + 1}", drained.encode())
    return batch + 1


def plan_empty_batch(directory: Path) -> int:
    """Plan the batch after the last committed one, without input, and return its number.

    :param directory: Checkpoint directory of one query, a copy of a sharp cut.
    :raises CheckpointMissingError: The query has no committed batch.
    :raises CheckpointCorruptError: A batch is in flight.
    """
    batch = _sharp(LocalTree(directory))
    write_aside(directory / OFFSETS / str(batch + 1), read(LocalTree(directory), f"{OFFSETS}/{batch}"))
    return batch + 1


def _sharp(directory: Tree) -> int:
    """Return the last batch of a sharp cut."""
    at = progress(directory)
    if at.committed < 0:
        raise CheckpointMissingError(f"{directory} has no committed batch, so none can follow it")
    if at.planned != at.committed:
        reason = f"it is planned while {at.committed} is the last committed batch: the cut is not sharp"
        raise CheckpointCorruptError(f"{OFFSETS}/{at.planned}", reason)
    return at.planned


_DRAIN = ".drain"


class DrainOutput(Protocol):
    """Output of a drain beyond the sharp checkpoint before it: finished (``jobs.model.DrainedQuery``) or not."""

    @property
    def batch(self) -> int:
        """The drain's batch."""

    @property
    def sink_entry_sha256(self) -> str | None:
        """Digest of the sink's log entry for that batch."""

    @property
    def wrote(self) -> bool:
        """Whether the sink may have received rows."""


@dataclass(frozen=True, slots=True)
class UnfinishedDrain:
    """Possible output of an unfinished drain (:class:`DrainOutput`).

    :param wrote: Always true: a sink without a log does not show the rows it received.
    """

    batch: int
    sink_entry_sha256: str | None = None
    wrote: bool = True


def drain_key(working: str) -> str:
    """Return the key of the fork in which a stop drains the working directory *working*, by its first key."""
    return f"{working}{_DRAIN}"


def is_drain(key: str) -> bool:
    """Whether a key names such a fork."""
    return key.endswith(_DRAIN)


def newest_drain(area: WorkArea, working: str) -> str | None:
    """Return the key of the newest drain fork among the working directories of a job; ``None`` for none.

    Not only the fork of *working*: the epoch that should have cleaned up after a drain may have died before it could.

    :param working: Key of any working directory of the job.
    """
    place, slash, _ = working.rpartition("/")
    forks = [f"{place}{slash}{name}" for name in area.list(f"{place}{slash}", only=is_drain)]
    # Not every storage reports the creation time of a directory; the epoch serves instead, which only grows.
    made = {key: (area.tree(key).changed() or 0, epoch_of(key)) for key in forks if area.contains(key)}
    return max(made, key=made.__getitem__, default=None)


def unfinished_batch(directory: Tree, fork: Tree, recorded: Collection[int]) -> int | None:
    """Return the batch that only the drain can have given to a query's sink; ``None`` without one.

    :param directory: The query in the last working directory of the job.
    :param fork: The query in the fork of the drain.
    """
    last, drained = progress(directory).planned, progress(fork).planned
    return drained if drained == last + 1 and drained not in recorded else None


def is_drained(entry: BatchEntry) -> bool:
    """Whether a recorded batch belongs to a drain or follows one. An unreadable entry is no evidence."""
    try:
        watermark = parse_offsets(entry.batch, entry.offsets).metadata.get("batchWatermarkMs")
    except CheckpointCorruptError:
        return False
    return isinstance(watermark, int) and watermark >= MAXIMUM_WATERMARK
