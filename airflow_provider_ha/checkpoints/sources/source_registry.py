"""List of all source types (a new type is a separate module and an entry here), and OpenLineage dataset names.

Only recorded facts are used: a name that would be a guess is omitted. Names never contain credentials.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from airflow_provider_ha.checkpoints.model import BatchEntry, QuerySink
from airflow_provider_ha.checkpoints.plan_model import SourceInput
from airflow_provider_ha.checkpoints.sinks.sink_type import RestoreFindings
from airflow_provider_ha.checkpoints.sources.input_files import FileSource, input_files
from airflow_provider_ha.checkpoints.sources.kafka_offsets import parse_kafka_offset
from airflow_provider_ha.checkpoints.sources.source_type import (
    CountedSource,
    KafkaSource,
    SourceFacts,
    SourceReading,
    SourceType,
)
from airflow_provider_ha.checkpoints.sources.table_source import TABLE_SOURCES, TableSource, table_source
from airflow_provider_ha.checkpoints.spark.metadata_log import OffsetsEntry, parse_offsets
from airflow_provider_ha.checkpoints.spark.object_tree import SCHEMES
from airflow_provider_ha.checkpoints.spark.places import HDFS, LOCAL
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
    kinds = ((next((each for each in SOURCE_TYPES if each.takes(reading)), _ANY), reading) for reading in readings)
    found = (kind.input(reading) for kind, reading in kinds)
    return tuple(each for each in found if replay or any(kind.judges(each) for kind in (*SOURCE_TYPES, _ANY)))


def judge_inputs(inputs: Sequence[SourceInput], findings: RestoreFindings) -> None:
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


def _reading(
    last: OffsetsEntry, first: OffsetsEntry | None, position: int, replay: Sequence[BatchEntry], known: SourceFacts
) -> SourceReading:
    name = last.sources[position]
    # By its name, or by position without a name.
    is_first = first is not None and name in first.sources
    before = first.offsets[first.sources.index(name)] if first is not None and is_first else None
    return SourceReading(
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


_KAFKA_PORT = 9092


@dataclass(frozen=True, slots=True, order=True)
class DatasetName:
    """The name of a dataset.

    :param namespace: Its system: ``kafka://broker:9092``, ``s3://bucket``, ``file``.
    :param name: Its name there: a topic, a key, an absolute path.
    """

    namespace: str
    name: str


def read_by(entries: Iterable[BatchEntry], brokers: str | None) -> tuple[DatasetName, ...]:
    """Return the inputs of recorded batches: topics, and directories of files. Pure.

    :param brokers: ``host:port,host:port`` of the query; without it, topics have no namespace and are omitted.
    """
    known = list(entries)
    topics = kafka_topics(known, {})
    found = {topic_name(brokers, topic) for topic in topics} if brokers else set()
    paths = {file.path for entry in known for file in input_files(entry)}
    found |= {name for path in paths if (name := place_name(_directory(path))) is not None}
    return tuple(sorted(found))


def written_by(sink: QuerySink) -> tuple[DatasetName, ...]:
    """Return the output of a recorded sink: the directory of a file sink or of a table. Pure."""
    place = sink.table or sink.path
    name = place_name(place) if place else None
    return () if name is None else (name,)


def topic_name(brokers: str, topic: str) -> DatasetName:
    """Return the name of a topic; OpenLineage uses the first broker. Pure."""
    first = brokers.partition(",")[0].strip().rpartition("@")[2]
    host, _, port = first.rpartition("://")[2].partition(":")
    return DatasetName(f"kafka://{host}:{port or _KAFKA_PORT}", topic)


def place_name(place: str) -> DatasetName | None:
    """Return the name of a path, or of a ``file:``, ``s3:`` or ``hdfs:`` URI; ``None`` for any other. Pure.

    :param place: As :func:`~airflow_provider_ha.checkpoints.spark.places.output_place` returns it, or as Spark's
        file source records a file.
    """
    parts = urlsplit(place)
    if parts.scheme in LOCAL:
        path = unquote(parts.path) if parts.scheme else place
        return DatasetName("file", path) if path.startswith("/") else None
    said, _, path = place.partition("://")[2].partition("/")  # Hadoop treats "?" and "#" as parts of a name
    authority = said.rpartition("@")[2]
    if parts.scheme in SCHEMES:
        return DatasetName(f"s3://{authority}", path.strip("/") or "/")
    if parts.scheme == HDFS:
        return DatasetName(f"{HDFS}://{authority}", f"/{path}")
    return None


def _directory(path: str) -> str:
    """Return the directory of a file, above partition directories (``day=1``)."""
    directory = posixpath.dirname(path if urlsplit(path).scheme in LOCAL else unquote(path))
    while "=" in posixpath.basename(directory):
        directory = posixpath.dirname(directory)
    return directory
