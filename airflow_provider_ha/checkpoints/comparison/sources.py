"""How far the sources of a query were read on both sides: files, Kafka's partitions, or an offset as it is recorded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_provider_ha.checkpoints.comparison.side import Side
from airflow_provider_ha.checkpoints.connectors.kafka_offsets import parse_kafka_offset
from airflow_provider_ha.checkpoints.format.metadata_log import OffsetsEntry


@dataclass(frozen=True, slots=True)
class Offsets:
    """What one side's batch read of a source.

    :param start: Where it began, as recorded; ``None`` for the begin of the source.
    :param end: Where it ended; ``None`` when the source had nothing yet.
    """

    start: str | None
    end: str | None


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """A partition of Kafka that both sides have read to another offset; ``None`` where a side does not know it."""

    topic: str
    partition: int
    a: int | None
    b: int | None


@dataclass(frozen=True, slots=True)
class SourceComparison:
    """One source.

    :param source: Its name, or its position where it has none.
    :param a: ``None`` when side A has no such source.
    :param partitions: Those that differ.
    :param only_in_a: Files that only A has read.
    :param only_in_b: Files that only B has read.
    """

    source: str
    a: Offsets | None
    b: Offsets | None
    partitions: tuple[PartitionChange, ...] = ()
    only_in_a: tuple[str, ...] = ()
    only_in_b: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether both read the same of it."""
        return self.a == self.b and not (self.only_in_a or self.only_in_b)  # guard: files-read-do-not-count


def compare_sources(a: Side, b: Side) -> tuple[SourceComparison, ...]:
    """Return every source of either side, in the order in which A, then B has them."""
    return tuple(_source(name, a, b) for name in dict.fromkeys((*a.offsets.sources, *b.offsets.sources)))


def _source(name: str, a: Side, b: Side) -> SourceComparison:
    ours, theirs = _offsets(name, a), _offsets(name, b)
    files_a, files_b = a.inputs.get(name, frozenset()), b.inputs.get(name, frozenset())
    return SourceComparison(
        source=name,
        a=ours,
        b=theirs,
        partitions=tuple(_partitions(ours, theirs)),
        only_in_a=tuple(sorted(files_a - files_b)),
        only_in_b=tuple(sorted(files_b - files_a)),
    )


def _offsets(name: str, side: Side) -> Offsets | None:
    if name not in side.offsets.sources:
        return None
    return Offsets(start=None if side.before is None else _end(name, side.before), end=_end(name, side.offsets))


def _end(name: str, entry: OffsetsEntry) -> str | None:
    return entry.offsets[entry.sources.index(name)] if name in entry.sources else None


def _partitions(a: Offsets | None, b: Offsets | None) -> Iterable[PartitionChange]:
    ours = parse_kafka_offset(a.end if a else None) or {}
    theirs = parse_kafka_offset(b.end if b else None) or {}
    keys = sorted({*ours, *theirs})
    for topic, number in keys:
        reached = ours.get((topic, number)), theirs.get((topic, number))
        if reached[0] != reached[1]:
            yield PartitionChange(topic, number, *reached)
