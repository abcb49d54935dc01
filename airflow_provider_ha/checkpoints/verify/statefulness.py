"""Detection whether the query of a checkpoint keeps state, as far as its files show it.

The conf pinned in the offset log is the same for every query, and so are the commits of checkpoint format 1. Evidence
is: a state directory; state ids in a commit; commits of format 2 without ids (a query without state); a batch without
input behind an advanced watermark, which Spark plans only for a waiting stateful operator; and batches omitted at
several places, as asynchronous progress tracking does.

Invariant: no guesses. Without evidence, the answer is UNKNOWN.
"""

from __future__ import annotations

from enum import Enum

from airflow_provider_ha.checkpoints.format.layout import STATE
from airflow_provider_ha.checkpoints.format.metadata_log import OffsetsEntry
from airflow_provider_ha.checkpoints.trees.files import names
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.verify.logs import Logs
from airflow_provider_ha.checkpoints.working.drain import MAXIMUM_WATERMARK


# Version 3 occurs with either state format: without ids it proves nothing.
_COMMITS_WITH_IDS = 2


class Statefulness(Enum):
    """Knowledge about the state of a query."""

    STATEFUL = "stateful"
    STATELESS = "stateless"
    UNKNOWN = "unknown"


def statefulness(directory: Tree, logs: Logs) -> Statefulness:
    """Return whether the query of the checkpoint in *directory* keeps state.

    :raises StorageUnavailableError: The state directory could not be listed.
    """
    if has_state_directory(directory):
        return Statefulness.STATEFUL
    pairs = ((logs.offsets.get(batch - 1), entry) for batch, entry in logs.offsets.items())
    waited = any(before is not None and _waits(before, after) for before, after in pairs)
    if waited or any(entry.state_ids for entry in logs.commits.values()):
        return Statefulness.STATEFUL
    if logs.entries.leaves_out(beside=logs.progress.planned):
        # Asynchronous progress tracking refuses queries with state.
        return Statefulness.STATELESS
    newest = logs.commits.get(logs.progress.committed)
    if newest is not None and newest.version == _COMMITS_WITH_IDS:
        return Statefulness.STATELESS
    return Statefulness.UNKNOWN


def has_state_directory(directory: Tree) -> bool:
    """Whether the checkpoint has a state directory, even an empty one: a query without state has none.

    :raises StorageUnavailableError: The directory could not be read.
    """
    return bool(names(directory / STATE)) or (directory / STATE).is_directory()


def _waits(before: OffsetsEntry, after: OffsetsEntry) -> bool:
    """Whether the second batch has no input and was planned for its watermark alone; a drain is planned for all."""
    old, new = _watermark(before), _watermark(after)
    return before.offsets == after.offsets and old < new < MAXIMUM_WATERMARK


def _watermark(entry: OffsetsEntry) -> int:
    value = entry.metadata.get("batchWatermarkMs")
    return value if isinstance(value, int) else 0
