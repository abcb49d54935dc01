"""Inputs and outputs of a query, as OpenLineage names datasets (https://openlineage.io/docs/spec/naming).

Only recorded facts are used: a name that would be a guess is omitted. Names never contain credentials.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from airflow_provider_ha.checkpoints.connectors.places import HDFS, LOCAL
from airflow_provider_ha.checkpoints.connectors.sources import kafka_topics
from airflow_provider_ha.checkpoints.model import BatchEntry, QuerySink
from airflow_provider_ha.checkpoints.trees.object_tree import SCHEMES


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
    found |= {name for path in _files(known) if (name := place_name(_directory(path))) is not None}
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

    :param place: As :func:`~airflow_provider_ha.checkpoints.connectors.places.output_place` returns it, or as Spark's
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


def _files(entries: Iterable[BatchEntry]) -> Iterator[str]:
    for entry in entries:
        for lines in entry.sources.values():
            for line in lines:
                try:
                    path = json.loads(line)["path"]
                except (ValueError, KeyError, TypeError):
                    continue
                if isinstance(path, str):
                    yield path


def _directory(path: str) -> str:
    """Return the directory of a file, above partition directories (``day=1``)."""
    directory = posixpath.dirname(path if urlsplit(path).scheme in LOCAL else unquote(path))
    while "=" in posixpath.basename(directory):
        directory = posixpath.dirname(directory)
    return directory
