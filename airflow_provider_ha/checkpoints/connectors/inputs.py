"""How much input a restore reads again, per source, and how much of it is gone: from records and queries.

File sources record the files of each batch, Kafka records how far each partition was read, and rate and sockets how far
they have counted. Other sources record something that only they understand: then the amount is not known, and is never
guessed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from airflow_provider_ha.checkpoints.connectors.kafka_offsets import (
    Partition,
    PartitionOffsets,
    parse_kafka_offset,
    partitions_after,
    rows_between,
)
from airflow_provider_ha.checkpoints.format.metadata_log import OffsetsEntry, parse_offsets
from airflow_provider_ha.checkpoints.model import BatchEntry, SourceInput
from airflow_provider_ha.errors import CheckpointCorruptError


LOCAL = frozenset({"", "file"})
"""Schemes of what lies on a file system of this host."""


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """Facts about the sources beside the records.

    :param initial: Source -> the offset that it began with, of those that keep it (Kafka, rate); ``None`` when it was
        not read.
    :param kafka: Partition -> what the brokers have; ``None`` when they did not answer.
    :param missing: Batch -> its input files that are gone.
    :param asked: Schemes of the files that were looked for.
    """

    initial: Mapping[str, str] | None = None
    kafka: Mapping[Partition, PartitionOffsets] | None = None
    missing: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    asked: frozenset[str] = frozenset()


def inputs_of(
    cut: BatchEntry | None, replay: Sequence[BatchEntry], known: SourceFacts | None = None
) -> tuple[SourceInput, ...]:
    """Return what the sources have to provide again for *replay*, in the order of the sources.

    Without a replay, only sources are returned of which something else is known: Kafka's, and those that forget.

    :param cut: What is recorded of the batch before the first one; ``None`` when nothing is.
    :param replay: The batches that are executed again, ascending.
    """
    known = known or SourceFacts()
    first = _parsed(cut) if cut is not None else None
    last = _parsed(replay[-1]) if replay else first
    if last is None:
        return ()
    found = (_Source(last, first, position, replay, known).told() for position in range(len(last.offsets)))
    return tuple(each for each in found if replay or each.partitions or forgets(each))


def forgets(source: SourceInput) -> bool:
    """Whether a source cannot provide its rows again: a socket, or one that kept them in the driver's memory."""
    return source.unit == "rows" and not source.partitions and source.gone is not None and source.gone == source.amount


def kafka_topics(entries: Sequence[BatchEntry], initial: Mapping[str, str]) -> frozenset[str]:
    """Return the Kafka topics that are recorded in any of *entries*, or that a source began with."""
    parsed = [entry for each in entries if (entry := _parsed(each)) is not None]
    offsets = [*initial.values(), *(offset for entry in parsed for offset in entry.offsets)]
    return frozenset(topic for offset in offsets for topic, _ in parse_kafka_offset(offset) or {})


@dataclass(frozen=True, slots=True)
class _Source:
    """One source of a query, at the end of what is read again."""

    last: OffsetsEntry
    first: OffsetsEntry | None
    position: int
    replay: Sequence[BatchEntry]
    known: SourceFacts

    @property
    def name(self) -> str:
        return self.last.sources[self.position]

    def told(self) -> SourceInput:
        end = self.last.offsets[self.position]
        if self.last.log_offset(self.position) is not None:
            return self._files()
        if (partitions := parse_kafka_offset(end)) is not None:
            return self._kafka(partitions)
        if end is not None and end.isdecimal() and self.known.initial is not None:
            return self._counted(int(end))
        return SourceInput(source=self.name)

    def _files(self) -> SourceInput:
        lines = [
            (entry.batch, line)
            for entry in self.replay
            for line in entry.sources.get(self.name, entry.sources.get(str(self.position), ()))
        ]
        gone = {path for batch in {batch for batch, _ in lines} for path in self.known.missing.get(batch, ())}
        asked = all(_scheme(line) in self.known.asked for _, line in lines)
        return SourceInput(source=self.name, unit="files", amount=len(lines), gone=len(gone) if asked else None)

    def _kafka(self, end: Mapping[Partition, int]) -> SourceInput:
        start = (parse_kafka_offset(self._before()) or {}) if self.replay else end
        amount = rows_between(start, end)
        if self.known.kafka is None:
            return SourceInput(source=self.name, unit="rows", amount=amount)
        topics = {topic for topic, _ in end}
        held = {partition: offsets for partition, offsets in self.known.kafka.items() if partition[0] in topics}
        partitions = partitions_after(start, end, held)
        gone = sum(each.gone for each in partitions)
        return SourceInput(source=self.name, unit="rows", amount=amount, gone=gone, partitions=partitions)

    def _counted(self, end: int) -> SourceInput:
        before = self._before()
        start = int(before) if before is not None and before.isdecimal() else 0
        amount = max(0, end - start) if self.replay else 0
        # A generator notes when it began, and makes the same rows again. What keeps no such note has only memory.
        if self.name in (self.known.initial or {}):
            return SourceInput(source=self.name, unit="seconds", amount=amount, gone=0)
        return SourceInput(source=self.name, unit="rows", amount=amount, gone=amount)

    def _before(self) -> str | None:
        """Return the source's offset at the cut; by its name where it has one, and by position where it has not."""
        if self.first is not None and self.name in self.first.sources:
            return self.first.offsets[self.first.sources.index(self.name)]
        return (self.known.initial or {}).get(self.name)


def _scheme(line: str) -> str:
    try:
        return urlsplit(str(json.loads(line)["path"])).scheme
    except (ValueError, KeyError, TypeError):
        return ""


def _parsed(entry: BatchEntry) -> OffsetsEntry | None:
    try:
        return parse_offsets(entry.batch, entry.offsets)
    except CheckpointCorruptError:
        return None  # the replay itself says what is wrong with it; here only the figure is missing
