"""Which batches have an entry in the logs, and which entry Spark reads beside that of a batch.

A query reads the entry of the batch before; with asynchronous progress tracking, which leaves batches out, the newest
one of the offset log that there is. That tracking purges each log by what it holds itself, so the commit log may reach
further back (``AsyncProgressTrackingMicroBatchExecution``, the same from 3.4 to 4.2).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class LogEntries:
    """The entries of both logs.

    :param planned: Batches that have one in the offset log, ascending.
    :param committed: Batches that have one in the commit log.
    :param known: Batches that count as entries of the offset log, ascending: those that were committed belong to them,
        unless they are older than all that it still has.
    :param left_out: The (first, last) of every run of batches that neither log has, ascending.
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
        known = sorted({*entries, *(batch for batch in done if batch > oldest)})  # guard: both-logs-are-purged-together
        everything = sorted({*entries, *done})
        gaps = ((one + 1, other - 1) for one, other in pairwise(everything) if other > one + 1)
        return cls(tuple(entries), done, tuple(known), tuple(gaps))

    def leaves_out(self, *, beside: int) -> bool:
        """Whether batches were left out elsewhere than right below *beside*: one gap may be an entry that was lost."""
        return any(last != beside - 1 for _, last in self.left_out)  # guard: one-gap-is-asynchronous

    def previous(self, batch: int, *, sparse: bool) -> int | None:
        """Return the batch whose entry Spark reads beside that of *batch*; ``None`` for none.

        :param sparse: Whether batches may have been left out: only in a query without state.
        """
        if batch == 0:
            return None
        at = bisect_left(self.known, batch)
        if sparse and at:
            return self.known[at - 1]
        # Nothing older is there: it was purged, or never written.
        return None if sparse and self.leaves_out(beside=batch) else batch - 1
