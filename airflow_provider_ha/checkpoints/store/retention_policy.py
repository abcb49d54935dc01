"""Retention of checkpoints, pins, payloads and scheduled savepoints: decisions, without any I/O.

Invariants: the newest checkpoint stays at any request (contract 7), and so does the newest savepoint of a schedule;
objects with a reader's lease stay. A payload also has the record of its batches, so it outlives its pointer while an
older checkpoint or savepoint would have to replay them.

Flink's subsume rules (C2) apply to claimed savepoints only: any other savepoint belongs to its user or schedule, is
stored elsewhere, and neither counts against *keep* nor is ever subsumed. A stop checkpoint counts and is subsumed like
any other: it has no planned batch, but its successor starts from it and is newer.
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
    """Limits of a schedule's savepoints. ``None`` is unlimited.

    :param schedule: The schedule. Savepoints of other schedules and users are never touched.
    """

    schedule: str
    count: int | None = None
    max_age: timedelta | None = None


def superfluous(pointers: Sequence[CheckpointPointer], keep: int, leased: AbstractSet[int]) -> list[CheckpointPointer]:
    """Return the checkpoints to be removed, oldest first.

    :param pointers: Newest first.
    :param keep: Number to keep; at least the newest stays.
    :param leased: Numbers of checkpoints with readers: they stay beyond *keep*.
    """
    # guard: retain-none
    return [pointer for pointer in reversed(pointers[max(keep, 1) :]) if pointer.number not in leased]


def outlived(newer: Sequence[CheckpointPointer], keep: int) -> bool:
    """Return whether a run's claim is no longer needed: it ranks as the oldest checkpoint of that run.

    :param newer: Checkpoints of that run and of later ones, newest first.
    """
    return len(newer) >= max(keep, 1)  # guard: claimed-goes-too-early


def superfluous_savepoints(
    pointers: Iterable[SavepointPointer], retention: SavepointRetention, *, now: datetime, leased: AbstractSet[str]
) -> list[SavepointPointer]:
    """Return the savepoints beyond a schedule's limits, oldest first; never the newest.

    :param pointers: Newest first, of any owner. Unreadable pointers are not included, and not judged.
    :param leased: Ids of savepoints with readers: they stay beyond both limits.
    """
    # A claimed savepoint belongs to the job: it neither counts nor is removed here.
    # guard: schedules-remove-what-is-claimed
    own = [pointer for pointer in pointers if pointer.schedule == retention.schedule and pointer.claimed_by is None]
    return [  # guard: last-savepoint-of-a-schedule-goes
        pointer
        for rank, pointer in reversed(list(enumerate(own)))
        if rank > 0 and _beyond(retention, rank, now - pointer.created_at) and pointer.savepoint_id not in leased
    ]


def _beyond(retention: SavepointRetention, rank: int, age: timedelta) -> bool:
    too_many = retention.count is not None and rank >= retention.count
    return too_many or (retention.max_age is not None and age > retention.max_age)


def max_age_of(days: float | None) -> timedelta | None:
    """Return the maximum age of a savepoint.

    :raises ConfigurationError: The number of days is out of range.
    """
    if days is None:
        return None
    if not 0 < days <= MOST_DAYS:  # rejects NaN too
        raise ConfigurationError(
            f"a savepoint cannot be kept for {days} days",
            next_step=f"Use more than 0 and up to {MOST_DAYS}, or omit it to keep savepoints of any age",
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
    """Return whether a restore could need a payload whose entries reach *highest* (batch by query).

    The batch of the lowest cut itself is never replayed, but still needed: where an older epoch recorded another batch
    of that number, its later batches belong to an abandoned timeline. Without that record they would be replayed.
    """
    # guard: evidence-of-a-turn-is-removed
    return any(batch >= floor[query] for query, batch in highest.items() if query in floor)


def oldest_below(savepoints: Iterable[SavepointPointer], floor: Mapping[str, int]) -> SavepointPointer | None:
    """Return the oldest savepoint that keeps payloads unneeded by checkpoints; ``None`` without one."""

    def below(cut: Mapping[str, int]) -> bool:
        return any(batch < floor.get(query, batch) for query, batch in cut.items())

    keeping = (pointer for pointer in savepoints if below(pointer.cut))
    return min(keeping, key=lambda pointer: pointer.created_at, default=None)
