"""Which checkpoints, pins and payloads are no longer needed: decisions, without any I/O.

Invariants: the newest checkpoint stays, whatever is asked for (contract 7); what somebody reads stays. A payload also
holds the record of its batches, so it outlives its pointer while an older checkpoint or savepoint would have to replay
them.

Of Flink's subsume rules (C2) the half about savepoints arises for claimed ones only: any other savepoint is the user's,
lies elsewhere, and neither counts against *keep* nor is ever subsumed. A stop checkpoint counts and is subsumed like
any other: it is sharp, but its successor begins from it and is newer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from airflow_provider_ha.checkpoints.model import CheckpointPointer


def superfluous(pointers: Sequence[CheckpointPointer], keep: int, leased: AbstractSet[int]) -> list[CheckpointPointer]:
    """Return the checkpoints to be removed, oldest first.

    :param pointers: Newest first.
    :param keep: How many stay; the newest one always does.
    :param leased: Numbers of those that somebody reads: they stay beyond *keep*.
    """
    return [pointer for pointer in reversed(pointers[max(keep, 1) :]) if pointer.number not in leased]


def outlived(newer: Sequence[CheckpointPointer], keep: int) -> bool:
    """Whether what a run has claimed is not needed any more: it stands where the oldest checkpoint of that run would.

    :param newer: Checkpoints of that run and of later ones, newest first.
    :param keep: How many checkpoints stay.
    """
    return len(newer) >= max(keep, 1)


def floors(cuts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return query -> lowest N of all cuts that can still be restored: nothing up to it is ever replayed."""
    lowest: dict[str, int] = {}
    for cut in cuts:
        for query, batch in cut.items():
            lowest[query] = min(batch, lowest.get(query, batch))
    return lowest


def replayable(highest: Mapping[str, int], floor: Mapping[str, int]) -> bool:
    """Whether a restore could need a payload whose entries reach *highest* (query -> batch)."""
    return any(batch > floor[query] for query, batch in highest.items() if query in floor)
