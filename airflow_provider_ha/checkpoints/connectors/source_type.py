"""What a type of source is: how much a restore reads of it again, and how much of that is gone.

The defaults are those of a source that records something that only it understands: the amount is not known, and is
never guessed. ``sources`` has the list of all types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_ha.checkpoints.connectors.kafka_offsets import Partition, PartitionOffsets
from airflow_provider_ha.checkpoints.connectors.sink_connector import Findings
from airflow_provider_ha.checkpoints.model import SourceInput


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


@dataclass(frozen=True, slots=True)
class Reading:
    """What is recorded of one source, from the cut to the end of what is read again.

    :param name: Its name, or its position where it has none.
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


class SourceType:
    """One type of source."""

    def takes(self, reading: Reading) -> bool:
        """Whether what is recorded is a source's of this type."""
        raise NotImplementedError

    def input(self, reading: Reading) -> SourceInput:
        """Return how much is read again, and how much of it is gone."""
        return SourceInput(source=reading.name)

    def judges(self, source: SourceInput) -> bool:  # noqa: ARG002  # of those that know something
        """Whether an input is one that :meth:`judge` has to see, also where nothing is read again."""
        return False

    def judge(self, source: SourceInput, findings: Findings) -> None:
        """Note what keeps a restore from being SAFE. Pure."""
