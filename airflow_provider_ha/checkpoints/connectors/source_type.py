"""What a type of source is: how much a restore reads of it again, and how much of that is gone.

The defaults are those of a source that records something that only it understands: neither the amount nor whether it
still has its rows is known, and neither is guessed. ``sources`` has the list of all types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from airflow_provider_ha.checkpoints.connectors.kafka_offsets import Partition, PartitionOffsets
from airflow_provider_ha.checkpoints.connectors.sink_connector import Findings
from airflow_provider_ha.checkpoints.model import SourceInput


class TableHistory(Protocol):
    """What a table has that is read as a source."""

    def lost(self, start: Mapping[str, Any] | None, end: Mapping[str, Any]) -> str | None:
        """Return why rows after an offset may be gone; empty when all are there, and ``None`` when that is unknown.

        :param start: Where is gone on from; ``None`` for the beginning.
        :param end: Up to where was read.
        """


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """Facts about the sources beside the records.

    :param initial: Source -> the offset that it began with, of those that keep it (Kafka, rate); ``None`` when it was
        not read.
    :param kafka: Partition -> what the brokers have; ``None`` when they did not answer.
    :param topics: Topic -> the id that it had when its rows were read.
    :param tables: Source -> what its table has, of those whose place is recorded.
    :param missing: Batch -> its input files that are gone.
    :param asked: Schemes of the files that were looked for.
    """

    initial: Mapping[str, str] | None = None
    kafka: Mapping[Partition, PartitionOffsets] | None = None
    missing: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    asked: frozenset[str] = frozenset()
    topics: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, TableHistory] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reading:
    """What is recorded of one source, from the cut to the end of what is read again.

    :param name: Its name, or its position if unnamed.
    :param before: Its offset at the cut; ``None`` when nothing is recorded.
    :param end: Its offset after the last batch that is read again, or else at the cut.
    :param has_log: Whether its offset is a position in a log that the checkpoint keeps for it.
    :param lines: Batch, and a line of that log, of what is read again.
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
        """Whether it has an offset: with none (``-``), and with an empty one, it has given nothing yet."""
        return any(offset is not None and offset != "{}" for offset in (self.before, self.end))


class SourceType:
    """One type of source.

    :cvar label: What it is, for people.
    :cvar asked: Which facts a plan asks for.
    :cvar silence: What it means when there is no answer.
    """

    label: ClassVar[str] = "any other (Kinesis, a source written in Python)"
    asked: ClassVar[str] = "nothing: only the source itself understands its offsets"
    silence: ClassVar[str] = "`unknown`, unless it has read nothing yet"

    def takes(self, reading: Reading) -> bool:
        """Whether what is recorded is a source's of this type."""
        raise NotImplementedError

    def input(self, reading: Reading) -> SourceInput:
        """Return how much is read again, and how much of it is gone; nothing of a source that has read nothing yet."""
        return (
            SourceInput(source=reading.name) if reading.has_read else SourceInput(source=reading.name, amount=0, gone=0)
        )

    def judges(self, source: SourceInput) -> bool:
        """Whether an input is one that :meth:`judge` has to see, also where nothing is read again."""
        return source.unit is None and source.gone is None

    def judge(self, source: SourceInput, findings: Findings) -> None:
        """Note what keeps a restore from being SAFE. Pure."""
        if self.judges(source):  # guard: sources-that-cannot-be-asked-have-their-rows
            findings.add_unknown(
                f"source {source.source} is of a type that cannot be asked from here, or it is not recorded where it "
                "lies: it alone knows whether it still has the rows after the cut",
                "look whether it still has them: tables expire their snapshots, and streams their rows",
            )
