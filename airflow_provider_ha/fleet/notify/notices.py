"""Decide which conditions of a cluster's jobs become events. Pure.

Debounced: a condition has to last before it is reported, and any change starts a new wait. A lasting condition is
reported again, because the DAG run that had to act may have failed; after its end, the next occurrence is a new
condition. A granted leadership is reported once, and not at all if it existed before the watching began, and so are
ready standby drivers; a leadership that ends a reported outage is also a recovery.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_ha.api.documents.cluster_events import cluster_event


Event = dict[str, Any]
Watched = tuple[str, str]  # a job, and a watched aspect, with one condition at a time
CLUSTER: Watched = ("", "leader of the cluster")

LEADER = "leader"  # aspect of a job: its leadership. Of its health, each kind is an aspect
NO_LEADER = "no_leader"
QUARANTINED = "quarantined"
GRANTED = "leadership_granted"
RECOVERED = "recovered"
NOT_INSPECTED = "not_inspected"
BUDGET_EXHAUSTED = "restart_budget_exhausted"
RUN_FAILED = "run_failed"
FAILING = "failing"
CHECKPOINT_FAILING = "checkpoint_failing"
CHECKPOINT_OLD = "checkpoint_old"
STALLED = "stalled"
INPUT_LOST = "input_lost"
STANDBY_MISSING = "standby_missing"
STANDBY_READY = "standby_ready"
DRILL_FAILED = "drill_failed"
RECOVERY_POINT = "recovery_point_exceeded"
RECOVERY_TIME = "recovery_time_exceeded"

LEADERSHIP_KINDS = (NO_LEADER, QUARANTINED, GRANTED, RECOVERED, NOT_INSPECTED)
_OF_CHECKPOINTS = (CHECKPOINT_FAILING, CHECKPOINT_OLD)
_OF_STANDBYS = (STANDBY_MISSING, STANDBY_READY)
HEALTH_KINDS = (BUDGET_EXHAUSTED, RUN_FAILED, FAILING, *_OF_CHECKPOINTS, STALLED, INPUT_LOST, *_OF_STANDBYS)
DRILL_KINDS = (DRILL_FAILED, RECOVERY_POINT, RECOVERY_TIME)
KINDS = (*LEADERSHIP_KINDS, *HEALTH_KINDS, *DRILL_KINDS)
_GOOD = (GRANTED, STANDBY_READY)  # reported once, and not if it was so before the watching began


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Condition of a job.

    :param kind: Kind from ``KINDS``, or empty without an event.
    :param key: Values that stay equal while the condition lasts: run, attempt, epoch.
    :param lasting: Seconds that it has to last.
    :param facts: Facts of the event.
    :param recorded: Whether it also holds while the job has no leader: records show it, not the leader.
    """

    kind: str = ""
    key: tuple[object, ...] = ()
    lasting: float = 0.0
    facts: Event | None = None
    recorded: bool = False


_UNLED = (NO_LEADER, QUARANTINED)  # the job has no leader, and needs one
# A process that is no driver holds the lock for a moment: it ends a run, or cleans up. An outage continues.
INTERIM = Condition(key=("interim",))
UNKNOWN = Condition(key=("unknown",))  # a job that was not looked at yet


@dataclass(slots=True)
class _Lasting:
    """A condition since it began.

    :param lost: Since when the job is without a leader that lasts, also under its earlier attempts; ``None`` when it is
        not.
    :param missing: Start of the wait for the first report, over all attempts; the release, if the job was in
        quarantine.
    :param outage: Whether it was reported.
    :param told: Time of the last report of a missing leader; ``None`` without a report, or if a person had to act
        since.
    """

    condition: Condition
    since: float
    reported: float | None = None
    lost: float | None = None
    missing: float | None = None
    outage: bool = False
    told: float | None = None


class Notices:
    """The events that were reported about each job.

    :param repeat_after: Seconds after which a job without a leader is reported again.
    :param remind_after: Seconds after which any other lasting condition is reported again.
    :param by_outage: Whether a missing leader is debounced and repeated over all attempts, for people: a job that is
        led for a moment after each loss is reported every *repeat_after*, as a job that is never led. A DAG that
        recovers acts on one attempt, and needs a report per attempt.
    """

    def __init__(self, repeat_after: float, remind_after: float = float("inf"), *, by_outage: bool = False) -> None:
        self._repeat_after = repeat_after
        self._remind_after = remind_after
        self._by_outage = by_outage
        self._watched: dict[Watched, _Lasting] | None = None

    def take(self, seen: Mapping[Watched, Condition], now: float) -> list[Event]:
        """Return the events that are due.

        :param seen: All jobs of the cluster, with all watched aspects.
        :param now: Seconds, on a monotonic clock.
        """
        first, before = self._watched is None, self._watched or {}
        self._watched = {each: _carried(before.get(each), condition, now) for each, condition in seen.items()}
        if first:
            for lasting in self._watched.values():
                began_before = lasting.condition.kind in _GOOD or lasting.condition == UNKNOWN
                lasting.reported = now if began_before else None
        due = [(job_id, lasting) for (job_id, _), lasting in self._watched.items() if self._due(lasting) <= now]
        return [event for job_id, lasting in due for event in self._tell(job_id, lasting, now)]

    @property
    def alerts(self) -> frozenset[tuple[str, str]]:
        """The reported conditions that last: job, empty for the cluster, and kind."""
        return frozenset(
            (job_id, lasting.condition.kind)
            for (job_id, _), lasting in (self._watched or {}).items()
            if lasting.condition.kind not in ("", *_GOOD) and (lasting.reported is not None or lasting.outage)
        )

    def next_due(self, now: float) -> float:
        """Return the seconds until something that is known already is due."""
        return max(
            0.0, min((self._due(lasting) - now for lasting in (self._watched or {}).values()), default=float("inf"))
        )

    def _due(self, lasting: _Lasting) -> float:
        condition = lasting.condition
        if not condition.kind or (lasting.reported is not None and condition.kind in _GOOD):
            return float("inf")
        if self._is_of_outage(condition):
            since = lasting.missing if lasting.missing is not None else lasting.since
            again = lasting.told + self._repeat_after if lasting.told is not None else float("-inf")
            return max(since + condition.lasting, again)
        again = self._repeat_after if condition.kind == NO_LEADER else self._remind_after
        return lasting.since + condition.lasting if lasting.reported is None else lasting.reported + again

    def _is_of_outage(self, condition: Condition) -> bool:
        return self._by_outage and condition.kind == NO_LEADER

    def _tell(self, job_id: str, lasting: _Lasting, now: float) -> Iterator[Event]:
        lasting.reported = now
        condition, facts = lasting.condition, lasting.condition.facts or {}
        lost = lasting.lost if self._is_of_outage(condition) else None
        lasted = round(now - (lasting.since if lost is None else lost), 3)
        yield cluster_event(condition.kind, job_id, facts, lasted).to_json()
        if condition.kind in _UNLED:
            lasting.outage, lasting.told = True, now if condition.kind == NO_LEADER else None
        elif condition.kind == GRANTED:  # it has lasted
            if lasting.outage and lasting.lost is not None:
                took = round(lasting.since - lasting.lost, 3)
                yield cluster_event(RECOVERED, job_id, {**facts, "took": took}, lasted).to_json()
            lasting.lost, lasting.missing, lasting.outage = None, None, False


def _carried(before: _Lasting | None, condition: Condition, now: float) -> _Lasting:
    if before is None:
        return _lost(_Lasting(condition, now), now)
    if (before.condition.kind, before.condition.key) == (condition.kind, condition.key):
        return replace(before, condition=condition)
    was_there = before.condition == UNKNOWN and before.reported is not None
    if was_there and condition.kind == GRANTED:
        return _Lasting(condition, now, reported=now)  # it may have led before the watching began
    anew = replace(before, condition=condition, since=now, reported=None)
    if condition.kind in _UNLED:  # an attempt after another, or a quarantine: the outage goes on
        return _lost(anew, now)
    if condition.kind == GRANTED or condition == INTERIM:
        return anew
    return _Lasting(condition, now)  # ended


def _lost(lasting: _Lasting, now: float) -> _Lasting:
    """Return a condition with the begin of its outage, if it is one."""
    kind = lasting.condition.kind
    if kind not in _UNLED:
        return lasting
    lost = now if lasting.lost is None else lasting.lost
    if kind == QUARANTINED:  # a person ends it, and the job then has its time to be led
        return replace(lasting, lost=lost, missing=None)
    return replace(lasting, lost=lost, missing=now if lasting.missing is None else lasting.missing)
