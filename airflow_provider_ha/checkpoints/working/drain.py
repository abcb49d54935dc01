"""Planning of the last batch of a terminated job: no input, and the watermark at its maximum.

Invariant of a drain: written only into a fork, after a sharp cut (offsets equal commits). The watermark never goes
back, so the drained state is an end; restores use the checkpoint before it. The batch must run with ``Trigger.Once``:
``AvailableNow`` would read new files as late rows and drop them (spark-facts section 4).

Invariant of an empty batch: written only into a temporary copy. Spark executes exactly this batch, with
``Trigger.Once``: every stateful operator loads the state after N, gets no rows, and writes it as that of N + 1. The
watermark stays that of N, so that nothing new is emitted.
"""

from __future__ import annotations

import json
from pathlib import Path

from airflow_provider_ha.checkpoints.format.layout import OFFSETS, progress
from airflow_provider_ha.checkpoints.format.metadata_log import parse_offsets
from airflow_provider_ha.checkpoints.trees.files import read, read_text
from airflow_provider_ha.checkpoints.trees.links import write_aside
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.checkpoints.trees.tree import WritableTree
from airflow_provider_ha.clock import Clock, SystemClock
from airflow_provider_ha.errors import CheckpointCorruptError, CheckpointMissingError


# 9999-12-31 in milliseconds: above every event time, and within the range of Spark's timestamps.
MAXIMUM_WATERMARK = 253402300799000


def write_drain_entry(directory: WritableTree, *, clock: Clock | None = None) -> int:
    """Plan the drain's batch in a fork and return its number.

    :param directory: Checkpoint directory of one query, a fork of a sharp cut.
    :param clock: Gives the batch its time.
    :raises CheckpointMissingError: The query has no committed batch to drain.
    :raises CheckpointCorruptError: A batch is in flight, or the last entry cannot be read.
    """
    at = progress(directory)
    if at.committed < 0:
        raise CheckpointMissingError(f"{directory} has no committed batch, so there is nothing to drain")
    if at.planned != at.committed:
        reason = f"it is planned while {at.committed} is the last committed batch: the cut is not sharp"
        raise CheckpointCorruptError(f"{OFFSETS}/{at.planned}", reason)
    text = read_text(directory, f"{OFFSETS}/{at.planned}")
    metadata = dict(parse_offsets(at.planned, text).metadata)
    metadata["batchWatermarkMs"] = MAXIMUM_WATERMARK
    metadata["batchTimestampMs"] = int((clock or SystemClock()).now().timestamp() * 1000)
    version, _, *offsets = text.split("\n")
    drained = "\n".join([version, json.dumps(metadata, separators=(",", ":")), *offsets])
    directory.write(f"{OFFSETS}/{at.planned + 1}", drained.encode())
    return at.planned + 1


def plan_empty_batch(directory: Path) -> int:
    """Plan the batch after the last committed one, without input, and return its number.

    :param directory: Checkpoint directory of one query, a copy of a sharp cut.
    :raises CheckpointMissingError: The query has no committed batch.
    :raises CheckpointCorruptError: A batch is in flight.
    """
    at = progress(LocalTree(directory))
    if at.committed < 0:
        raise CheckpointMissingError(f"{directory} has no committed batch, so none can follow it")
    if at.planned != at.committed:
        reason = f"it is planned while {at.committed} is the last committed batch: the cut is not sharp"
        raise CheckpointCorruptError(f"{OFFSETS}/{at.planned}", reason)
    write_aside(directory / OFFSETS / str(at.planned + 1), read(LocalTree(directory), f"{OFFSETS}/{at.planned}"))
    return at.planned + 1
