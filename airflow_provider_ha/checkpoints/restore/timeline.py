"""One history out of the records of several epochs.

Invariant: a batch of the history is what the sinks were given last. A later epoch that was recovered or replayed has
the same entry for the same batch; one that was rewound and planned afresh has another one, and then everything that
older epochs recorded from there on belongs to a timeline that was given up. The entries do not always show that: a run
that began anew may have come to none of the batches that are recorded of the runs before it (:mod:`run_starts`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from airflow_provider_ha.checkpoints.model import BatchEntry


def merge(
    recordings: Mapping[int, Iterable[BatchEntry]], turns: Mapping[int, int] | None = None
) -> dict[int, BatchEntry]:
    """Return batch -> entry of the one history, ascending; it may have gaps.

    :param recordings: Epoch -> what it recorded of one query.
    :param turns: Epoch -> first batch that its run has planned anew, where that is known.
    """
    history: dict[int, BatchEntry] = {}
    for epoch in sorted(recordings):
        newer = {entry.batch: entry for entry in recordings[epoch]}
        # guard: runs-that-began-anew-keep-the-older-timeline
        found = [turn for turn in (_first_difference(history, newer), (turns or {}).get(epoch)) if turn is not None]
        if found:
            history = {batch: entry for batch, entry in history.items() if batch < min(found)}
        # The newer entry of an equal batch may know its commit, which a planned one does not.
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
    # Between the last batch that both agree on and the first difference, it is unknown where the newer one turned.
    return agreed[-1] + 1 if agreed else min(newer)
