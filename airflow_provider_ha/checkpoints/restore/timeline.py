"""Merge of the records of several epochs into one history.

Invariant: a batch of the history is the last version given to the sinks. A later epoch that was recovered or replayed
has the same entry for the same batch; after a rewind and new planning the entry differs, and then all later records of
older epochs belong to an abandoned timeline. The entries do not always show that: a run that started anew may have
reached fewer batches than are recorded for the runs before it (:mod:`run_starts`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from airflow_provider_ha.checkpoints.model import BatchEntry


def merge(
    recordings: Mapping[int, Iterable[BatchEntry]], turns: Mapping[int, int] | None = None
) -> dict[int, BatchEntry]:
    """Return the merged history as entries by batch, ascending; it may have gaps.

    :param recordings: Records of a query by epoch.
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
