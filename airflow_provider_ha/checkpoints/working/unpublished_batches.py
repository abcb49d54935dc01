"""Records of batches that a lost epoch had not published, carried into the next epoch's directory.

Invariant: every batch of a run since its newest checkpoint is recorded in the newest working directory. A fork takes
only the last two batches, so without these records a restore to a checkpoint from before a loss would find a gap
between the last payload of the lost epoch and the first one of the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from airflow_provider_ha.checkpoints.format.layout import progress, queries
from airflow_provider_ha.checkpoints.model import BatchEntry
from airflow_provider_ha.checkpoints.trees.files import FileGoneError, read
from airflow_provider_ha.checkpoints.trees.tree import Tree, WritableTree
from airflow_provider_ha.checkpoints.working.batch_log import readable
from airflow_provider_ha.records import Record


FILE = ".carried.json"  # hidden: no query can have this name


class UnpublishedBatches(Record):
    """The carried records of a working directory.

    :param queries: Query -> entries, ascending.
    """

    kind: ClassVar[str] = "carried-batches"

    queries: dict[str, tuple[BatchEntry, ...]] = {}


def carry(fenced: Tree, target: WritableTree, published: Mapping[str, int]) -> None:
    """Write the records of *fenced* into *target*, which was forked from it.

    :param published: Query -> last batch in a payload of this run.
    """
    before = read_carried(fenced)
    found = {}
    for query in queries(target):
        last, first = progress(target / query).planned, published.get(query, 0)
        entries = {entry.batch: entry for entry in before.get(query, ())}
        for entry in readable(fenced / query, after=first - 1):
            # The fork does not contain the lower end of its oldest batch; the earlier record does.
            if entry.batch not in entries or entries[entry.batch].commits is None:
                entries[entry.batch] = entry.measured_as(entries.get(entry.batch))
        found[query] = tuple(entries[batch] for batch in sorted(entries) if first <= batch <= last)
    target.write(FILE, UnpublishedBatches(queries=found).to_bytes())


def read_carried(directory: Tree) -> Mapping[str, tuple[BatchEntry, ...]]:
    """Return query -> carried entries of a working directory; empty for one that is not a fork.

    :raises RecordCorruptError: The file is damaged.
    :raises StorageUnavailableError: The file system does not answer.
    """
    try:
        data = read(directory, FILE)
    except FileGoneError:
        return {}
    return UnpublishedBatches.from_bytes(data, source=f"{directory}/{FILE}").queries
