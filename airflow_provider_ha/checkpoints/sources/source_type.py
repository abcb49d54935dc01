"""Interface of a type of source, with defaults, and the types whose offsets are numbers: Kafka and counters.

The defaults are for sources whose offsets only they understand: neither the amount nor the availability of the rows is
known, and neither is guessed. ``sources`` lists all types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from airflow_provider_ha.checkpoints.plan_model import KafkaPartition, SourceInput, Verdict
from airflow_provider_ha.checkpoints.sinks.sink_type import RestoreFindings
from airflow_provider_ha.checkpoints.sources.kafka_offsets import (
    Partition,
    PartitionOffsets,
    parse_kafka_offset,
    partitions_after,
    rows_between,
)


class TableHistory(Protocol):
    """History of a source table."""

    def lost(self, start: Mapping[str, Any] | None, end: Mapping[str, Any]) -> str | None:
        """Return why rows after an offset may be gone; empty when all exist, and ``None`` if unknown.

        :param start: Offset to continue from; ``None`` for the beginning.
        :param end: End of the rows that were read.
        """


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """Facts about the sources in addition to the records.

    :param initial: Initial offset by source, for sources that keep it (Kafka, rate); ``None`` when it was not read.
    :param kafka: The brokers' offsets by partition; ``None`` when they did not answer.
    :param missing: Missing or replaced input files of replayed batches, by batch.
    :param asked: Schemes of the checked input files; ``None`` without a check.
    :param topics: Topic ids at the time the rows were read, by topic.
    :param tables: History of the table by source, for recorded locations.
    """

    initial: Mapping[str, str] | None = None
    kafka: Mapping[Partition, PartitionOffsets] | None = None
    missing: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    asked: frozenset[str] | None = None
    topics: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, TableHistory] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceReading:
    """Records of a source, from the cut to the end of the replay.

    :param name: Its name, or its position without a name.
    :param before: Its offset at the cut; ``None`` without a record.
    :param end: Its offset after the last replayed batch, or else at the cut.
    :param has_log: Whether its offset is a position in a log that the checkpoint keeps for it.
    :param lines: Batch and log line of the replayed entries.
    """

    name: str
    before: str | None
    end: str | None
    has_log: bool
    lines: tuple[tuple[int, str], ...]
    is_replayed: bool
    facts: SourceFacts

    @property
    def has_read(self) -> bool:
        """Return whether it has an offset: without one (``-``), or with an empty one, it has given no row yet."""
        return any(offset is not None and offset != "{}" for offset in (self.before, self.end))


class SourceType:
    """Type of source.

    :cvar label: Name for people.
    :cvar asked: Facts that a plan reads.
    :cvar silence: Meaning of a missing response.
    """

    label: ClassVar[str] = "any other (Kinesis, a source written in Python)"
    asked: ClassVar[str] = "nothing: only the source itself understands its offsets"
    silence: ClassVar[str] = "`unknown`, unless it has read nothing yet"

    def takes(self, reading: SourceReading) -> bool:
        """Return whether the records belong to a source of this type."""
        raise NotImplementedError

    def input(self, reading: SourceReading) -> SourceInput:
        """Return the amount that is read again, and the lost part; zero for a source without reads."""
        return (
            SourceInput(source=reading.name) if reading.has_read else SourceInput(source=reading.name, amount=0, gone=0)
        )

    def judges(self, source: SourceInput) -> bool:
        """Return whether :meth:`judge` must see an input, even without a replay."""
        return source.unit is None and source.gone is None

    def judge(self, source: SourceInput, findings: RestoreFindings) -> None:
        """Note findings that keep a restore from being SAFE. Pure."""
        if self.judges(source):  # guard: sources-that-cannot-be-asked-have-their-rows
            findings.add_unknown(
                f"source {source.source} is of a type that cannot be queried from here, or its place is not "
                "recorded: it alone knows whether it still has the rows after the cut",
                "check whether it still has them: tables expire their snapshots, and streams their rows",
            )


class CountedSource(SourceType):
    """A source whose offset is a number of seconds or rows."""

    label = "`rate`, sockets, memory"
    asked = "when it began, as the checkpoint has it: `rate` creates the same rows again"
    silence = "`LOSS_POSSIBLE`: what keeps no such note has its rows in memory only"

    def takes(self, reading: SourceReading) -> bool:
        """Match a number, with the first offsets; without these it could be any source's."""
        return reading.end is not None and reading.end.isdecimal() and reading.facts.initial is not None

    def input(self, reading: SourceReading) -> SourceInput:
        """Return how far it has counted since the cut."""
        start = int(reading.before) if reading.before is not None and reading.before.isdecimal() else 0
        amount = max(0, int(reading.end or 0) - start) if reading.is_replayed else 0
        # A generator notes its start, and generates the same rows again. A source without such a note has only memory.
        if reading.name in (reading.facts.initial or {}):
            return SourceInput(source=reading.name, unit="seconds", amount=amount, gone=0)
        return SourceInput(source=reading.name, unit="rows", amount=amount, gone=amount)

    def judges(self, source: SourceInput) -> bool:
        """Match a source that cannot provide its rows again: all its rows are gone."""
        return (
            source.unit == "rows" and not source.partitions and source.gone is not None and source.gone == source.amount
        )

    def judge(self, source: SourceInput, findings: RestoreFindings) -> None:
        """Note that its rows are gone."""
        findings.add(
            Verdict.LOSS_POSSIBLE,
            f"source {source.source} is a socket or lives in memory: it cannot give the rows after the cut again",
            "accept LOSS_POSSIBLE by name",
            "change the script to a source that keeps its rows: Kafka, or files",
        )


_NAMED = 3  # partitions named in a reason; the plan has all
_NEW_QUERY = "read the new topic with a new query, and start it fresh"
_WAYS = (
    "restore a newer cut, if there is one: it needs fewer of the old rows",
    "accept LOSS_POSSIBLE by name; unless the reader has failOnDataLoss=false, Spark fails instead of continuing",
)


class KafkaSource(SourceType):
    """Topics."""

    label = "Kafka"
    asked = (
        "the id of each topic, compared with the recorded id, and its partitions with their first and last offsets, at "
        "the offsets of the cut"
    )
    silence = (
        "`unknown`: brokers are not named or do not answer, the client is not installed, or brokers report no id "
        "although an id is recorded; without a recorded id, a recreated topic is recognised while it is shorter"
    )

    def takes(self, reading: SourceReading) -> bool:
        """Match offsets of partitions."""
        return parse_kafka_offset(reading.end) is not None

    def input(self, reading: SourceReading) -> SourceInput:
        """Return the rows between two offsets, with each partition once the brokers have answered."""
        end: Mapping[Partition, int] = parse_kafka_offset(reading.end) or {}
        start = (parse_kafka_offset(reading.before) or {}) if reading.is_replayed else end
        amount = rows_between(start, end)
        if reading.facts.kafka is None:
            return SourceInput(source=reading.name, unit="rows", amount=amount)
        topics = {topic for topic, _ in end}
        held = {partition: offsets for partition, offsets in reading.facts.kafka.items() if partition[0] in topics}
        partitions = partitions_after(start, end, held, reading.facts.topics)
        gone = sum(each.gone for each in partitions)
        return SourceInput(source=reading.name, unit="rows", amount=amount, gone=gone, partitions=partitions)

    def judges(self, source: SourceInput) -> bool:
        """Match sources with offsets from the brokers."""
        return bool(source.partitions)

    def judge(self, source: SourceInput, findings: RestoreFindings) -> None:
        """Note missing partitions, recreated topics, and rows removed by retention."""
        lost = [each for each in source.partitions if each.earliest is None]
        if lost:
            rows = sum(each.gone for each in lost)
            findings.add(
                Verdict.LOSS_POSSIBLE,
                f"source {source.source}: {_names(lost)} {_are(lost)} gone, with {rows} rows that were read after the "
                "cut and all unread rows",
                *_WAYS,
            )
        again = [each for each in source.partitions if each.replaced]
        if again:
            findings.add(
                Verdict.LOSS_POSSIBLE,
                f"source {source.source}: {_topics(again)} recreated under the same name since: the offsets that "
                "were read have other rows now, and earlier rows would be skipped",
                _NEW_QUERY,
                *_WAYS,
            )
        untold = [each for each in source.partitions if each.replaced is None]
        if untold:
            findings.add_unknown(
                f"source {source.source}: the brokers do not report the id of a topic that had one: {_names(untold)}",
                "query brokers that keep ids of topics (Kafka 2.8 and later)",
            )
        shorter = [
            each
            for each in source.partitions
            if each.latest is not None and each.latest < each.end and not each.replaced
        ]
        if shorter:
            findings.add(
                Verdict.LOSS_POSSIBLE,
                f"source {source.source}: {_names(shorter)} {_ends(shorter)} before the offsets that were read: "
                "recreated under its old name, so these offsets have other rows now",
                _NEW_QUERY,
                *_WAYS,
            )
        named = {*lost, *again, *shorter}
        expired = [each for each in source.partitions if each.gone and each not in named]
        if expired:
            rows = sum(each.gone for each in expired)
            findings.add(
                Verdict.LOSS_POSSIBLE,
                f"source {source.source}: {rows} rows after the cut were removed by retention, of {_names(expired)}",
                *_WAYS,
            )


def _topics(partitions: list[KafkaPartition]) -> str:
    topics = sorted({each.topic for each in partitions})
    return f"topic {topics[0]} was" if len(topics) == 1 else f"topics {', '.join(topics)} were"


def _names(partitions: list[KafkaPartition]) -> str:
    told = ", ".join(f"{each.topic}-{each.partition}" for each in partitions[:_NAMED])
    more = len(partitions) - _NAMED
    return f"{told} and {more} more" if more > 0 else told


def _are(partitions: list[KafkaPartition]) -> str:
    return "are" if len(partitions) > 1 else "is"


def _ends(partitions: list[KafkaPartition]) -> str:
    return "end" if len(partitions) > 1 else "ends"
