"""Which runs of a job are kept: a decision, without any I/O.

Invariants: the newest run stays at any request, and the one before it. A run that is not over, that is not cleaned up,
or that something refers to stays; so does one of which it is not proven that all its processes are dead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta

from airflow_provider_ha.config import Retention
from airflow_provider_ha.jobs.model import RunResult


def expendable(
    numbers: Sequence[int],
    results: Mapping[int, RunResult],
    retention: Retention,
    *,
    now: datetime,
    in_use: AbstractSet[int] = frozenset(),
) -> list[int]:
    """Return the runs that may go once the death of their processes is proven, oldest first.

    :param numbers: All runs, ascending.
    :param results: Of those that have one.
    :param in_use: Runs that something refers to.
    """
    eldest = now - timedelta(days=retention.days)
    old = numbers[: -max(retention.runs, 2)]  # guard: the-newest-runs-go
    return [number for number in old if number not in in_use and _over(results.get(number), eldest)]


def _over(result: RunResult | None, eldest: datetime) -> bool:
    return result is not None and result.cleanup == "CLEAN" and result.at < eldest
