"""Plan a batch that reads nothing: the same offsets as the last committed one.

Invariant: written only into a copy that is thrown away. Spark executes exactly this batch, with ``Trigger.Once``: every
stateful operator loads the state after N, gets no rows, and writes it as that of N + 1. The watermark stays that of
N, so that nothing is emitted which N had not emitted.
"""

from __future__ import annotations

from pathlib import Path

from airflow_provider_ha.checkpoints.format.layout import OFFSETS, progress
from airflow_provider_ha.checkpoints.trees.files import read
from airflow_provider_ha.checkpoints.trees.links import write_aside
from airflow_provider_ha.errors import CheckpointCorruptError, CheckpointMissingError


def plan_empty_batch(directory: Path) -> int:
    """Plan the batch after the last committed one, without input, and return its number.

    :param directory: Checkpoint directory of one query, a copy of a sharp cut.
    :raises CheckpointMissingError: Nothing was ever committed.
    :raises CheckpointCorruptError: A batch is in flight.
    """
    at = progress(directory)
    if at.committed < 0:
        raise CheckpointMissingError(f"{directory} has no committed batch, so none can follow it")
    if at.planned != at.committed:
        reason = f"it is planned while {at.committed} is the last committed batch: the cut is not sharp"
        raise CheckpointCorruptError(f"{OFFSETS}/{at.planned}", reason)
    write_aside(directory / OFFSETS / str(at.planned + 1), read(directory, f"{OFFSETS}/{at.planned}"))
    return at.planned + 1
