"""Records of batches in the payloads of a job. Keeps only the records: a job may have thousands of payloads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from airflow_provider_ha.checkpoints.model import BatchEntry, Checkpoint, CheckpointKind


@dataclass(frozen=True, slots=True)
class NewestPayload:
    """The newest payload, in brief.

    :param cuts: Query -> batch of its cut.
    """

    number: int
    run: int
    epoch: int
    reason: CheckpointKind
    cuts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PayloadRecords:
    """Records in the payloads.

    :param entries: Entry by query, epoch and batch.
    :param cuts: Batch of the highest cut by query and epoch.
    :param runs: Run by epoch.
    :param newest: ``None`` without a payload.
    """

    entries: Mapping[str, Mapping[int, Mapping[int, BatchEntry]]]
    cuts: Mapping[str, Mapping[int, int]]
    runs: Mapping[int, int]
    newest: NewestPayload | None


@dataclass(slots=True)
class _OfQuery:
    """Epoch -> batch -> number of the payload that records it, and its entry; epoch -> batch of its highest cut."""

    entries: dict[int, dict[int, tuple[int, BatchEntry]]] = field(default_factory=dict)
    cuts: dict[int, int] = field(default_factory=dict)

    def add(self, payload: Checkpoint, query: str) -> None:
        cut = payload.queries[query]
        self.cuts[payload.epoch] = max(cut.batch, self.cuts.get(payload.epoch, cut.batch))
        entries = self.entries.setdefault(payload.epoch, {})
        for entry in cut.entries:
            if entry.batch not in entries or entries[entry.batch][0] <= payload.number:
                entries[entry.batch] = payload.number, entry

    def by_batch(self) -> dict[int, dict[int, BatchEntry]]:
        return {
            epoch: {batch: entry for batch, (_, entry) in entries.items()} for epoch, entries in self.entries.items()
        }


def read_payloads(payloads: Iterable[Checkpoint], queries: Iterable[str]) -> PayloadRecords:
    """Return the records of *queries* in *payloads*.

    A later checkpoint of an epoch records more about a batch than an earlier one.
    """
    found = {query: _OfQuery() for query in queries}
    newest: NewestPayload | None = None
    runs: dict[int, int] = {}
    for payload in payloads:
        runs[payload.epoch] = payload.run
        if newest is None or (payload.number, payload.epoch) >= (newest.number, newest.epoch):
            newest = NewestPayload(payload.number, payload.run, payload.epoch, payload.reason, _cuts(payload))
        for query in found.keys() & payload.queries.keys():
            found[query].add(payload, query)
    return PayloadRecords(
        {query: known.by_batch() for query, known in found.items()},
        {query: known.cuts for query, known in found.items()},
        runs,
        newest,
    )


def _cuts(payload: Checkpoint) -> dict[str, int]:
    return {query: cut.batch for query, cut in payload.queries.items()}
