"""Keeps Spark's record of each batch before Spark purges it.

With ten batches retained and 50 ms per batch an entry lives half a second; the payload of a checkpoint is written every
few seconds. So the directories are read several times a second, and the entries kept here until a payload holds them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeAlias

from airflow_provider_ha.checkpoints.model import BatchEntry
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.working.batch_log import record


Lengths: TypeAlias = Mapping[str, tuple[int | None, ...]]
Measure: TypeAlias = Callable[[BatchEntry, Callable[[Lengths], None]], None]
"""Finds out the lengths of the input files of a batch, and calls back with them. Never waits for them."""


class BatchRecorder:
    """Entries of a query that are not yet in a payload.

    :param directory: The query's checkpoint location.
    :param known: Batches of its past, which the directory of a new epoch no longer shows.
    :param measure: Receives every planned batch that reads files.
    """

    def __init__(self, directory: Tree, known: Iterable[BatchEntry] = (), measure: Measure = lambda *_: None) -> None:
        self._directory = directory
        self._entries = {entry.batch: entry for entry in known}
        self._measure = measure
        self._lengths: dict[int, Lengths] = {}
        self._complete_up_to = -1  # every entry up to here was read with its commit

    def poll(self) -> None:
        """Read new entries; a batch that was only planned so far is read again."""
        for entry in record(self._directory.fresh(), after=self._complete_up_to):
            before = self._entries.get(entry.batch)
            if before is None or before.commits is None or before.offsets != entry.offsets:
                self._entries[entry.batch] = entry.measured_as(before)
                if before is None and any(entry.sources.values()):
                    self._measure(entry, partial(self._note_lengths, entry.batch))
            if entry.commits is not None and entry.batch > self._complete_up_to:
                self._complete_up_to = entry.batch

    def entries(self) -> tuple[BatchEntry, ...]:
        """Return the entries that are not yet in a payload, ascending."""
        return tuple(self._measured(self._entries[batch]) for batch in sorted(self._entries))

    def _note_lengths(self, batch: int, lengths: Lengths) -> None:
        if batch in self._entries:  # batches in a payload need none
            self._lengths[batch] = lengths

    def _measured(self, entry: BatchEntry) -> BatchEntry:
        lengths = self._lengths.get(entry.batch)
        return entry.model_copy(update={"lengths": dict(lengths)}) if lengths else entry

    def published(self, entries: tuple[BatchEntry, ...]) -> None:
        """Forget *entries*, which a payload now holds; an entry without its commit stays until read with it."""
        for entry in entries:
            if entry.commits is not None or entry.batch < self._complete_up_to:
                self._entries.pop(entry.batch, None)
                self._lengths.pop(entry.batch, None)
