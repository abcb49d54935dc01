"""Batches without any entry: legal where progress is tracked asynchronously, a loss everywhere else.

Asynchronous progress tracking writes the entry of a batch only now and then, into both logs or into none, and Spark
then takes the previous entry of the offset log that exists. It refuses queries with state. So a log is read that way
only where no state is known. Without it Spark reads the entry of the batch before, and fails when that is not there.

Invariant: which of both a query runs with, no file says. Batches that were left out at several places tell; a single
gap right below the newest batch may as well be an entry that was lost, and the answer is UNKNOWN.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from airflow_provider_ha.checkpoints.verify.logs import Logs
from airflow_provider_ha.checkpoints.verify.statefulness import Statefulness


class Tracking(Enum):
    """How the progress before a batch was tracked."""

    EVERY_BATCH = "every batch"
    ASYNCHRONOUS = "asynchronous"
    UNKNOWN = "unknown"


def tracking(logs: Logs, batch: int, kind: Statefulness) -> Tracking:
    """Return how the progress before *batch* was tracked, as far as the logs tell."""
    entries = logs.entries
    if kind is Statefulness.STATEFUL or batch <= 0:
        return Tracking.EVERY_BATCH
    if entries.leaves_out(beside=batch):
        return Tracking.ASYNCHRONOUS
    if batch - 1 in logs.offset_log.present:
        return Tracking.EVERY_BATCH
    if entries.planned[:1] == (batch,):
        return Tracking.UNKNOWN  # what was before the oldest entry may have been purged
    return Tracking.UNKNOWN if batch - 1 not in entries.committed and entries.left_out else Tracking.EVERY_BATCH


def previous(logs: Logs, batch: int, kind: Statefulness) -> int | None:
    """Return the batch whose entry Spark reads before that of *batch*; ``None`` for none.

    :param kind: Whether the query keeps state: then it is the batch before, whether or not it is there.
    """
    return logs.entries.previous(batch, sparse=kind is not Statefulness.STATEFUL)


def left_out(logs: Logs, kind: Statefulness) -> tuple[tuple[int, int], ...]:
    """Return the (first, last) of every run of batches that are taken for left out, ascending."""
    return () if kind is Statefulness.STATEFUL else logs.entries.left_out


def ranges_text(ranges: Iterable[tuple[int, int]]) -> str:
    """Return *ranges* as people write them: ``1, 3-4``."""
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
