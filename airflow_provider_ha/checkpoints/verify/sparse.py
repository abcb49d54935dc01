"""Batches without any entry: legal with asynchronous progress tracking, a loss otherwise.

Asynchronous progress tracking records only some batches, in both logs or in neither, and Spark then uses the previous
existing entry of the offset log. It refuses queries with state, so a log is interpreted that way only if no state is
known. Without it Spark reads the entry of the preceding batch, and fails if it is missing.

Invariant: no file records which of both a query uses. Gaps at several places prove asynchronous tracking; a single gap
right below the newest batch may also be a lost entry, and the answer is UNKNOWN.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from airflow_provider_ha.checkpoints.verify.logs import Logs
from airflow_provider_ha.checkpoints.verify.statefulness import Statefulness


class Tracking(Enum):
    """Tracking mode of the progress before a batch."""

    EVERY_BATCH = "every batch"
    ASYNCHRONOUS = "asynchronous"
    UNKNOWN = "unknown"


def tracking(logs: Logs, batch: int, kind: Statefulness) -> Tracking:
    """Return the tracking mode before *batch*, as far as the logs show it."""
    entries = logs.entries
    if kind is Statefulness.STATEFUL or batch <= 0:
        return Tracking.EVERY_BATCH
    if entries.leaves_out(beside=batch):
        return Tracking.ASYNCHRONOUS
    if batch - 1 in logs.offset_log.present:
        return Tracking.EVERY_BATCH
    if entries.planned[:1] == (batch,):
        return Tracking.UNKNOWN  # entries before the oldest one may have been purged
    return Tracking.UNKNOWN if batch - 1 not in entries.committed and entries.left_out else Tracking.EVERY_BATCH


def previous(logs: Logs, batch: int, kind: Statefulness) -> int | None:
    """Return the batch whose entry Spark reads before that of *batch*; ``None`` for none.

    :param kind: Whether the query keeps state: then it is the preceding batch, even if its entry is missing.
    """
    return logs.entries.previous(batch, sparse=kind is not Statefulness.STATEFUL)


def left_out(logs: Logs, kind: Statefulness) -> tuple[tuple[int, int], ...]:
    """Return (first, last) of every run of deliberately omitted batches, ascending."""
    return () if kind is Statefulness.STATEFUL else logs.entries.left_out


def ranges_text(ranges: Iterable[tuple[int, int]]) -> str:
    """Return *ranges* in readable form: ``1, 3-4``."""
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
