"""List of all source types. A new type is a separate module and an entry here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_provider_ha.checkpoints.connectors.counted_source import CountedSource
from airflow_provider_ha.checkpoints.connectors.input_files import FileSource
from airflow_provider_ha.checkpoints.connectors.kafka_offsets import parse_kafka_offset
from airflow_provider_ha.checkpoints.connectors.kafka_source import KafkaSource
from airflow_provider_ha.checkpoints.connectors.sink_connector import Findings
from airflow_provider_ha.checkpoints.connectors.source_type import Reading, SourceFacts, SourceType
from airflow_provider_ha.checkpoints.connectors.table_source import TABLE_SOURCES, TableSource, table_source
from airflow_provider_ha.checkpoints.format.metadata_log import OffsetsEntry, parse_offsets
from airflow_provider_ha.checkpoints.model import BatchEntry, SourceInput
from airflow_provider_ha.errors import CheckpointCorruptError


SOURCE_TYPES: tuple[SourceType, ...] = (FileSource(), KafkaSource(), *TABLE_SOURCES, CountedSource())
"""The first type that takes the records applies; only the source itself understands other records."""
_ANY = SourceType()


def inputs_of(
    cut: BatchEntry | None, replay: Sequence[BatchEntry], known: SourceFacts | None = None
) -> tuple[SourceInput, ...]:
    """Return the rows that the sources must provide again for *replay*, in the order of the sources.

    Without a replay, only sources whose rows after the cut may be gone are returned: all but files.

    :param cut: Records of the batch before the first one; ``None`` without records.
    :param replay: The batches that are executed again, ascending.
    """
    known = known or SourceFacts()
    first = _parsed(cut) if cut is not None else None
    last = _parsed(replay[-1]) if replay else first
    if last is None:
        return ()
    readings = (_reading(last, first, position, replay, known) for position in range(len(last.offsets)))
    found = (_input(reading) for reading in readings)
    return tuple(each for each in found if replay or any(kind.judges(each) for kind in (*SOURCE_TYPES, _ANY)))


def judge_inputs(inputs: Sequence[SourceInput], findings: Findings) -> None:
    """Add the findings of all sources. Pure."""
    for source in inputs:
        kind = next((each for each in SOURCE_TYPES if each.judges(source)), _ANY)
        kind.judge(source, findings)


def kafka_topics(entries: Sequence[BatchEntry], initial: Mapping[str, str]) -> frozenset[str]:
    """Return the Kafka topics in any of *entries*, or in a source's initial offset."""
    parsed = [entry for each in entries if (entry := _parsed(each)) is not None]
    offsets = [*initial.values(), *(offset for entry in parsed for offset in entry.offsets)]
    return frozenset(topic for offset in offsets for topic, _ in parse_kafka_offset(offset) or {})


def read_tables(entries: Sequence[BatchEntry]) -> dict[str, TableSource]:
    """Return the table type by source, for the table sources in *entries*."""
    parsed = [entry for each in entries if (entry := _parsed(each)) is not None]
    offsets = [pair for entry in parsed for pair in zip(entry.sources, entry.offsets, strict=True)]
    return {source: kind for source, offset in offsets if (kind := table_source(offset)) is not None}


def _input(reading: Reading) -> SourceInput:
    kind = next((each for each in SOURCE_TYPES if each.takes(reading)), _ANY)
    return kind.input(reading)


def _reading(
    last: OffsetsEntry, first: OffsetsEntry | None, position: int, replay: Sequence[BatchEntry], known: SourceFacts
) -> Reading:
    name = last.sources[position]
    # By its name, or by position without a name.
    is_first = first is not None and name in first.sources
    before = first.offsets[first.sources.index(name)] if first is not None and is_first else None
    return Reading(
        name=name,
        before=before if is_first else (known.initial or {}).get(name),
        end=last.offsets[position],
        has_log=last.log_offset(position) is not None,
        lines=tuple(
            (entry.batch, line)
            for entry in replay
            for line in entry.sources.get(name, entry.sources.get(str(position), ()))
        ),
        is_replayed=bool(replay),
        facts=known,
    )


def _parsed(entry: BatchEntry) -> OffsetsEntry | None:
    try:
        return parse_offsets(entry.batch, entry.offsets)
    except CheckpointCorruptError:
        return None  # the replay itself reports the problem; only the figure is missing here
