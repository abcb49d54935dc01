"""Interface of a type of source: the amount that a restore reads again, and the lost part.

The defaults are for sources whose offsets only they understand: neither the amount nor the availability of the rows is
known, and neither is guessed. ``sources`` lists all types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from airflow_provider_ha.checkpoints.connectors.kafka_offsets import Partition, PartitionOffsets
from airflow_provider_ha.checkpoints.connectors.sink_connector import Findings
from airflow_provider_ha.checkpoints.model import SourceInput


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
    :param topics: Topic ids at the time the rows were read, by topic.
    :param tables: History of the table by source, for recorded locations.
    :param missing: Missing input files by batch.
    :param asked: Schemes of the checked files.
    """

    initial: Mapping[str, str] | None = None
    kafka: Mapping[Partition, PartitionOffsets] | None = None
    missing: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    asked: frozenset[str] = frozenset()
    topics: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, TableHistory] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reading:
    """Records of a source, from the cut to the end of the replay.

    :param name: Its name, or its position without a name.
    :param before: Its offset at the cut; ``None`` without a record.
    :param end: Its offset after the last replayed batch, or else at the cut.
    :param has_log: Whether its offset is a position in a log that the checkpoint keeps for it.
    :param lines: Batch and log line of the replayed entries.
    :param is_replayed: Whether any batch is read again.
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

    def takes(self, reading: Reading) -> bool:
        """Return whether the records belong to a source of this type."""
        raise NotImplementedError

    def input(self, reading: Reading) -> SourceInput:
        """Return the amount that is read again, and the lost part; zero for a source without reads."""
        return (
            SourceInput(source=reading.name) if reading.has_read else SourceInput(source=reading.name, amount=0, gone=0)
        )

    def judges(self, source: SourceInput) -> bool:
        """Return whether :meth:`judge` must see an input, even without a replay."""
        return source.unit is None and source.gone is None

    def judge(self, source: SourceInput, findings: Findings) -> None:
        """Note findings that keep a restore from being SAFE. Pure."""
        if self.judges(source):  # guard: sources-that-cannot-be-asked-have-their-rows
            findings.add_unknown(
                f"source {source.source} is of a type that cannot be queried from here, or its place is not "
                "recorded: it alone knows whether it still has the rows after the cut",
                "check whether it still has them: tables expire their snapshots, and streams their rows",
            )
