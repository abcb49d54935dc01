"""How much input a restore reads again, per source, from the recorded boundaries alone.

File sources record the files of each batch, Kafka records how far each partition was read. Other sources record
something that only they understand: then the amount is not known, and is never guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import StringConstraints, TypeAdapter, ValidationError

from airflow_provider_ha.checkpoints.format.metadata_log import OffsetsEntry, parse_offsets
from airflow_provider_ha.checkpoints.model import BatchEntry, SourceInput
from airflow_provider_ha.errors import CheckpointCorruptError


# {"topic": {"0": 17}}: what Kafka's source writes, and no other that we know.
_KAFKA: TypeAdapter[dict[str, dict[Annotated[str, StringConstraints(pattern=r"^[0-9]+$")], int]]] = TypeAdapter(
    dict[str, dict[Annotated[str, StringConstraints(pattern=r"^[0-9]+$")], int]]
)


def inputs_of(cut: BatchEntry | None, replay: Sequence[BatchEntry]) -> tuple[SourceInput, ...]:
    """Return what the sources have to give again for *replay*, in the order of the sources; nothing for no replay.

    :param cut: What is recorded of the batch before the first one; ``None`` when nothing is.
    :param replay: The batches that are executed again, ascending.
    """
    last = _parsed(replay[-1]) if replay else None
    if last is None:
        return ()
    first = _parsed(cut) if cut is not None else None
    return tuple(_input(last, first, position, replay) for position in range(len(last.offsets)))


def kafka_partitions(offset: str | None) -> dict[tuple[str, str], int] | None:
    """Return (topic, partition) -> offset of a Kafka source; ``None`` for what is not one."""
    try:
        topics = _KAFKA.validate_json(offset or "null")
    except ValidationError:
        return None
    return {(topic, number): reached for topic, of in topics.items() for number, reached in of.items()} or None


def _input(last: OffsetsEntry, first: OffsetsEntry | None, position: int, replay: Sequence[BatchEntry]) -> SourceInput:
    name = last.sources[position]
    if last.log_offset(position) is not None:
        files = sum(len(entry.sources.get(name, entry.sources.get(str(position), ()))) for entry in replay)
        return SourceInput(source=name, unit="files", amount=files)
    end = kafka_partitions(last.offsets[position])
    if end is None:
        return SourceInput(source=name)
    # Sources are told apart by name where they have one, and by position where they have not.
    before = {} if first is None or name not in first.sources else kafka_partitions(_offset(first, name)) or {}
    read = sum(max(0, reached - before.get(partition, 0)) for partition, reached in end.items())
    return SourceInput(source=name, unit="rows", amount=read)


def _offset(entry: OffsetsEntry, name: str) -> str | None:
    return entry.offsets[entry.sources.index(name)]


def _parsed(entry: BatchEntry) -> OffsetsEntry | None:
    try:
        return parse_offsets(entry.batch, entry.offsets)
    except CheckpointCorruptError:
        return None  # the replay itself says what is wrong with it; here only the figure is missing
