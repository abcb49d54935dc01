"""Unfinished drain: its fork, and the batch that it may have given to the sinks.

A finished drain is named in its run's result. An interrupted drain is known by its fork alone, which stays until the
driver of a later run has begun (``retention.working_directories``).

Invariant: a batch counts as the drain's only if it was planned in the drain's fork and nowhere else. The same number of
an ordinary batch means other rows: set aside, they would be lost.

A drained state is always an end: the watermark never goes back, and every later row would be late.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from airflow_provider_ha.checkpoints.format.layout import progress
from airflow_provider_ha.checkpoints.format.metadata_log import parse_offsets
from airflow_provider_ha.checkpoints.model import BatchEntry
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.working.drain import MAXIMUM_WATERMARK
from airflow_provider_ha.checkpoints.working.work_area import WorkArea
from airflow_provider_ha.errors import CheckpointCorruptError
from airflow_provider_ha.storage.keys import epoch_of


_DRAIN = ".drain"


class Drained(Protocol):
    """Output of a drain beyond the sharp checkpoint before it: finished (``jobs.model.DrainedQuery``) or not."""

    @property
    def batch(self) -> int:
        """The drain's batch."""

    @property
    def sink_path(self) -> str | None:
        """Directory of the file sink."""

    @property
    def sink_entry_sha256(self) -> str | None:
        """Digest of the sink's log entry for that batch."""

    @property
    def wrote(self) -> bool:
        """Whether the sink may have received rows."""


@dataclass(frozen=True, slots=True)
class UnfinishedDrain:
    """Possible output of an unfinished drain (:class:`Drained`).

    :param wrote: Always true: a sink without a log does not show the rows it received.
    """

    batch: int
    sink_path: str | None = None
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
    forks = [f"{place}{slash}{name}" for name in area.list(f"{place}{slash}") if is_drain(name)]
    # Not every storage reports the creation time of a directory; the epoch serves instead, which only grows.
    made = {key: (area.tree(key).changed() or 0, epoch_of(key)) for key in forks if area.contains(key)}
    return max(made, key=made.__getitem__, default=None)


def unfinished_batch(directory: Tree, fork: Tree, recorded: Collection[int]) -> int | None:
    """Return the batch that only the drain can have given to a query's sink; ``None`` without one.

    :param directory: The query in the last working directory of the job.
    :param fork: The query in the fork of the drain.
    :param recorded: Batches recorded as ordinary ones.
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
