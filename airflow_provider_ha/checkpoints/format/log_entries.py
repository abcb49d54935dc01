"""Batches with entries in the logs, and the previous entry that Spark reads for a batch.

A query reads the entry of the batch before; with asynchronous progress tracking, which skips batches, the newest
existing entry of the offset log. That tracking purges each log by its own content, so the commit log may reach
further back (``AsyncProgressTrackingMicroBatchExecution``, the same from 3.4 to 4.2).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class LogEntries:
    """Entries of both logs.

    :param planned: Batches in the offset log, ascending.
    :param committed: Batches in the commit log.
    :param known: Batches that count as entries of the offset log, ascending: committed batches are included unless they
        are older than the whole offset log.
    :param left_out: The (first, last) of each run of batches missing in both logs, ascending.
    """

    planned: tuple[int, ...]
    committed: frozenset[int]
    known: tuple[int, ...]
    left_out: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, planned: Iterable[int], committed: Iterable[int]) -> LogEntries:
        """Return the entries of both logs."""
        entries, done = sorted(planned), frozenset(committed)
        oldest = entries[0] if entries else 0
        known = sorted({*entries, *(batch for batch in done if batch > oldest)})
        everything = sorted({*entries, *done})
        gaps = ((one + 1, other - 1) for one, other in pairwise(everything) if other > one + 1)
        return cls(tuple(entries), done, tuple(known), tuple(gaps))

    def leaves_out(self, *, beside: int) -> bool:
        """Return whether batches are missing elsewhere than right below *beside*: one gap may be a lost entry."""
        return any(last != beside - 1 for _, last in self.left_out)

    def previous(self, batch: int, *, sparse: bool) -> int | None:
        """Return the batch whose entry Spark reads next to that of *batch*; ``None`` for none.

        :param sparse: Whether batches may have been left out: only in a query without state.
        """
        if batch == 0:
            return None
        at = bisect_left(self.known, batch)
        if sparse and at:
            return self.known[at - 1]
        # Nothing older is there: it was purged, or never written.
        return None if sparse and self.leaves_out(beside=batch) else batch - 1
