"""Batches without any entry: legal where progress is tracked asynchronously, a loss everywhere else.

Asynchronous progress tracking writes the entry of a batch only now and then, into both logs or into none, and Spark
then takes the previous entry that exists. It refuses queries with state. So a log is read that way only where no state
is known, and a batch that one of the logs has is never taken for one that was left out.
"""

from __future__ import annotations

from itertools import pairwise

from airflow_provider_ha.checkpoints.format.layout import previous_batch
from airflow_provider_ha.checkpoints.verification.logs import Logs
from airflow_provider_ha.checkpoints.verification.statefulness import Statefulness


def previous(logs: Logs, batch: int, kind: Statefulness) -> int | None:
    """Return the batch whose entry Spark reads before that of *batch*; ``None`` for the first one.

    :param kind: Whether the query keeps state: then it is the batch before, whether or not it is there.
    """
    return previous_batch(logs.batches, batch, sparse=kind is not Statefulness.STATEFUL)


def left_out(logs: Logs, kind: Statefulness) -> list[tuple[int, int]]:
    """Return the (first, last) of every run of batches that are taken for left out, ascending."""
    if kind is Statefulness.STATEFUL:
        return []
    return [(before + 1, after - 1) for before, after in pairwise(logs.batches) if after > before + 1]


def ranges_text(ranges: list[tuple[int, int]]) -> str:
    """Return *ranges* as people write them: ``1, 3-4``."""
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
