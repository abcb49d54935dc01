"""Which checkpoints, pins, payloads and scheduled savepoints are no longer needed: decisions, without any I/O.

Invariants: the newest checkpoint stays at any request (contract 7), and so does the newest savepoint of
a schedule; what a reader holds a lease on stays. A payload also holds the record of its batches, so it outlives its
pointer while an older checkpoint or savepoint would have to replay them.

Of Flink's subsume rules (C2) the half about savepoints arises for claimed ones only: any other savepoint is its user's,
or that of the schedule that made it, lies elsewhere, and neither counts against *keep* nor is ever subsumed. A stop
checkpoint counts and is subsumed like any other: it is sharp, but its successor begins from it and is newer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_provider_ha.checkpoints.model import CheckpointPointer, SavepointPointer
from airflow_provider_ha.errors import ConfigurationError


# A larger number cannot mean days. The limit also keeps values from a template or JSON in the range of a timedelta.
MOST_DAYS = 36_500


@dataclass(frozen=True, slots=True)
class SavepointRetention:
    """How long a schedule keeps its savepoints. Each limit is ``None`` for none.

    :param schedule: Whose savepoints. Those of another schedule or of a user are never touched.
    :param count: How many stay.
    :param max_age: How old they may become.
    """

    schedule: str
    count: int | None = None
    max_age: timedelta | None = None


def superfluous(pointers: Sequence[CheckpointPointer], keep: int, leased: AbstractSet[int]) -> list[CheckpointPointer]:
    """Return the checkpoints to be removed, oldest first.

    :param pointers: Newest first.
    :param keep: How many stay; the newest one always does.
    :param leased: Numbers of those that are being read: they stay beyond *keep*.
    """
    # guard: retain-none
    return [pointer for pointer in reversed(pointers[max(keep, 1) :]) if pointer.number not in leased]


def outlived(newer: Sequence[CheckpointPointer], keep: int) -> bool:
    """Whether what a run has claimed is not needed any more: it stands where the oldest checkpoint of that run would.

    :param newer: Checkpoints of that run and of later ones, newest first.
    :param keep: How many checkpoints stay.
    """
    return len(newer) >= max(keep, 1)  # guard: claimed-goes-too-early


def superfluous_savepoints(
    pointers: Iterable[SavepointPointer], retention: SavepointRetention, *, now: datetime, leased: AbstractSet[str]
) -> list[SavepointPointer]:
    """Return the savepoints that a schedule no longer keeps, oldest first; its newest one it always does.

    :param pointers: Newest first, of any owner. A pointer that could not be read is not in it, and is not judged.
    :param leased: Ids of those that are being read: they stay beyond both limits.
    """
    # What a run has claimed is the job's: it neither counts nor goes here.
    # guard: schedules-remove-what-is-claimed
    own = [pointer for pointer in pointers if pointer.schedule == retention.schedule and pointer.claimed_by is None]
    return [  # guard: last-savepoint-of-a-schedule-goes
        pointer
        for rank, pointer in reversed(list(enumerate(own)))
        if rank > 0 and _beyond(retention, rank, now - pointer.created_at) and pointer.savepoint_id not in leased
    ]


def _beyond(retention: SavepointRetention, rank: int, age: timedelta) -> bool:
    too_many = retention.count is not None and rank >= retention.count  # guard: one-savepoint-more-stays
    # guard: savepoints-outlive-their-age
    return too_many or (retention.max_age is not None and age > retention.max_age)


def max_age_of(days: float | None) -> timedelta | None:
    """Return how old a savepoint may become.

    :raises ConfigurationError: The number of days is out of range.
    """
    if days is None:
        return None
    # guard: any-age-is-an-age
    if not 0 < days <= MOST_DAYS:  # not a number is not either
        raise ConfigurationError(
            f"a savepoint cannot be kept for {days} days",
            next_step=f"Use more than 0 and up to {MOST_DAYS}, or leave it out to keep them at any age",
        )
    return timedelta(days=days)


def floors(cuts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return query -> lowest N of all cuts that can still be restored: nothing up to it is ever replayed."""
    lowest: dict[str, int] = {}
    for cut in cuts:
        for query, batch in cut.items():
            lowest[query] = min(batch, lowest.get(query, batch))
    return lowest


def replayable(highest: Mapping[str, int], floor: Mapping[str, int]) -> bool:
    """Whether a restore could need a payload whose entries reach *highest* (query -> batch).

    The batch of the lowest cut itself is never replayed, but needed all the same: where an older epoch recorded another
    batch of that number, its later ones belong to a timeline that was given up (``timeline``). Without that record they
    would be replayed.
    """
    # guard: evidence-of-a-turn-is-removed
    return any(batch >= floor[query] for query, batch in highest.items() if query in floor)


def oldest_below(savepoints: Iterable[SavepointPointer], floor: Mapping[str, int]) -> SavepointPointer | None:
    """Return the oldest savepoint that keeps payloads which no checkpoint needs; ``None`` when there is none.

    :param floor: That of the checkpoints.
    """

    def below(cut: Mapping[str, int]) -> bool:
        return any(batch < floor.get(query, batch) for query, batch in cut.items())

    keeping = (pointer for pointer in savepoints if below(pointer.cut))
    return min(keeping, key=lambda pointer: pointer.created_at, default=None)
