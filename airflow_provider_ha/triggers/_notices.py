"""Decides which observations of a cluster's jobs become events. Pure: observations and times go in, events come out.

Debounced: a condition has to last before it is reported, and any change of it begins a new wait. A missing leader is
reported again while it lasts, because the DAG run that was to act on it may have failed. A granted leadership is
reported once, and not at all when it existed before the watching began.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_ha.views.events import cluster_event


Event = dict[str, Any]

NO_LEADER = "no_leader"
GRANTED = "leadership_granted"
KINDS = (NO_LEADER, GRANTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """The condition of one job.

    :param kind: ``NO_LEADER``, ``GRANTED``, or empty for nothing that is worth an event.
    :param key: What has to stay the same for the condition to last: run, attempt, epoch.
    :param lasting: Seconds that it has to last.
    :param facts: What the event says.
    """

    kind: str = ""
    key: tuple[object, ...] = ()
    lasting: float = 0.0
    facts: Event | None = None


@dataclass(slots=True)
class _Lasting:
    condition: Condition
    since: float
    reported: float | None = None


class Notices:
    """The events that were reported about each job.

    :param repeat_after: Seconds after which a job that still has no leader is reported again.
    """

    def __init__(self, repeat_after: float) -> None:
        self._repeat_after = repeat_after
        self._jobs: dict[str, _Lasting] | None = None

    def take(self, seen: Mapping[str, Condition], now: float) -> list[Event]:
        """Return the events that are due.

        :param seen: Every job of the cluster.
        :param now: Seconds, on a clock that never goes back.
        """
        first, before = self._jobs is None, self._jobs or {}
        self._jobs = {job_id: _carried(before.get(job_id), condition, now) for job_id, condition in seen.items()}
        if first:
            for lasting in self._jobs.values():
                # guard: grants-since-the-beginning
                lasting.reported = now if lasting.condition.kind == GRANTED else None
        return [self._tell(job_id, lasting, now) for job_id, lasting in self._jobs.items() if self._due(lasting) <= now]

    def next_due(self, now: float) -> float:
        """Return the seconds until something that is known already is due."""
        return max(
            0.0, min((self._due(lasting) - now for lasting in (self._jobs or {}).values()), default=float("inf"))
        )

    def _due(self, lasting: _Lasting) -> float:
        condition = lasting.condition
        if not condition.kind or (lasting.reported is not None and condition.kind == GRANTED):
            return float("inf")
        # guard: notices-debounced
        return lasting.since + condition.lasting if lasting.reported is None else lasting.reported + self._repeat_after

    @staticmethod
    def _tell(job_id: str, lasting: _Lasting, now: float) -> Event:
        lasting.reported = now
        lasted = round(now - lasting.since, 3)
        condition = lasting.condition
        return cluster_event(condition.kind, job_id, condition.facts or {}, lasted).to_json()


def _carried(before: _Lasting | None, condition: Condition, now: float) -> _Lasting:
    if before is None or (before.condition.kind, before.condition.key) != (condition.kind, condition.key):
        return _Lasting(condition, now)
    return _Lasting(condition, before.since, before.reported)
