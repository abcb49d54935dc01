"""Timeline of a job's runs: their starts, and the merge of their records into one history.

A run continues from a cut and executes the recorded batches after it again: up to there it shares its batches with the
runs before it. Afterwards it plans new batches, under numbers that earlier runs may have used. So a cut of an earlier
run beyond that point is no longer a state of the outputs, and its records are never executed again.

Invariant: a run with unknown batches counts as having planned some, if a driver has led it.

Invariant: a batch of the history is the last version given to the sinks. A later epoch that was recovered or replayed
has the same entry for the same batch; after a rewind and new planning the entry differs, and then all later records of
older epochs belong to an abandoned timeline. The entries do not always show that: a run that started anew may have
reached fewer batches than are recorded for the runs before it (:mod:`run_starts`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from airflow_provider_ha.checkpoints.model import BatchEntry


def merge(
    recordings: Mapping[int, Iterable[BatchEntry]], turns: Mapping[int, int] | None = None
) -> dict[int, BatchEntry]:
    """Return the merged history as entries by batch, ascending; it may have gaps.

    :param turns: First batch that a run has planned anew, by epoch, if known.
    """
    history: dict[int, BatchEntry] = {}
    for epoch in sorted(recordings):
        newer = {entry.batch: entry for entry in recordings[epoch]}
        found = [turn for turn in (_first_difference(history, newer), (turns or {}).get(epoch)) if turn is not None]
        if found:
            history = {batch: entry for batch, entry in history.items() if batch < min(found)}
        # The newer entry of an equal batch may record its commit, which a planned one does not.
        history.update({batch: entry.measured_as(history.get(batch)) for batch, entry in newer.items()})
    return dict(sorted(history.items()))


def following(history: Mapping[int, BatchEntry], batch: int) -> tuple[BatchEntry, ...]:
    """Return the entries after *batch* up to the first gap."""
    entries = []
    while batch + 1 in history:
        batch += 1
        entries.append(history[batch])
    return tuple(entries)


def _first_difference(older: Mapping[int, BatchEntry], newer: Mapping[int, BatchEntry]) -> int | None:
    shared = sorted(older.keys() & newer.keys())
    different = [batch for batch in shared if older[batch].offsets != newer[batch].offsets]
    if not different:
        return None
    agreed = [batch for batch in shared if batch < different[0]]
    # Between the last batch that both share and the first difference, the turn of the newer one is unknown.
    return agreed[-1] + 1 if agreed else min(newer)


_NONE = -1  # the common batch of a query that began anew


@dataclass(frozen=True, slots=True)
class RunStart:
    """Start of a run.

    :param common: Highest batch in common with the runs before it, by query; a missing query started from nothing.
    :param led: Whether a driver is known to have led it.
    """

    common: Mapping[str, int] = field(default_factory=dict)
    led: bool = True

    def of(self, query: str) -> int:
        """Return the highest batch of a query in common with the runs before it; -1 for none."""
        return self.common.get(query, _NONE)


RunStarts = Mapping[int, RunStart]
"""Run -> its start. A run that is not listed continued the run before it."""


@dataclass(frozen=True, slots=True)
class KnownRuns:
    """Known runs of recorded batches.

    :param whole: Run with completely known batches; ``None`` without one.
    """

    of_epoch: Mapping[int, int] = field(default_factory=dict)
    starts: RunStarts = field(default_factory=dict)
    whole: int | None = None

    def turns(self, query: str, planned: Mapping[int, int]) -> Mapping[int, int]:
        """Return epoch -> first batch that its run has planned anew, for the first epoch of a run that shows one.

        :param planned: Epoch -> highest batch known to be planned; -1 for none.
        """
        found: dict[int, int] = {}
        seen = set()
        for epoch in sorted(planned):
            run = self.of_epoch.get(epoch)
            if run is None or run in seen or run not in self.starts:
                continue
            if planned[epoch] > (common := self.starts[run].of(query)):
                found[epoch] = common + 1
                seen.add(run)
        return found

    def kept(self, planned: Mapping[int, int], turns: Mapping[int, int], *, run: int) -> Mapping[int, int]:
        """Return *planned* without the batches that a run up to *run* abandoned with its start.

        The submitter of that run has accepted the sinks' copies of these batches.
        """
        found: dict[int, int] = {}
        for epoch in sorted(planned):
            if epoch in turns and self.of_epoch[epoch] <= run:
                found = {each: min(batch, turns[epoch] - 1) for each, batch in found.items()}
            found[epoch] = planned[epoch]
        return found

    def left_by(self, query: str, planned: Mapping[int, int], *, cut: int, run: int) -> int | None:
        """Return the first later run that may have planned batches up to a cut anew; ``None`` for none.

        :param planned: Epoch -> highest batch known to be planned; -1 for none.
        """
        for number, start in sorted(self.starts.items()):
            common = start.of(query)
            if number <= run or common >= cut:
                continue
            shown = max((planned[each] for each in planned if self.of_epoch.get(each) == number), default=_NONE)
            # guard: runs-without-a-trace-have-planned-nothing
            if shown > common or (start.led and number != self.whole):
                return number
        return None
