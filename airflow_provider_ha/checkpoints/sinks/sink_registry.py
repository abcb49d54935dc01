"""List of all sink types (a new type gets an entry here), and default query names."""

from __future__ import annotations

import hashlib
import re

from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.sinks.file_sink import FileSinks
from airflow_provider_ha.checkpoints.sinks.sink_type import SKIPS, QueryMemory, SinkConnector, SinkType
from airflow_provider_ha.checkpoints.sinks.table_sinks import DELTA, DeltaSink, IcebergSink
from airflow_provider_ha.checkpoints.sinks.unread_sinks import ForeachBatchSink, KafkaSink, OtherSink, OtherTableSink
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.checkpoints.spark.tree import Tree


_LONGEST = 60  # characters of the output in a name, before its digest


def name_after(identity: str) -> str:
    """Return the name of a query that writes to an output.

    :param identity: What distinguishes the output from all others (``SinkType.identity``).
    """
    last = re.sub(r"[^A-Za-z0-9._-]+", "-", identity.rstrip("/").rpartition("/")[2]).strip("-._") or "output"
    return f"{last[:_LONGEST].rstrip('-._')}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


def name_by_sink(sink: QuerySink) -> str | None:
    """Return the default name for a sink's query; ``None`` if the record does not show how the script names the sink.

    A script may name a table of Iceberg by its path or by its name; topics are not recorded.
    """
    table = sink.table if sink.format is not None and sink.format.lower() == DELTA else None
    identity = sink.path or table
    return name_after(identity) if identity else None


SINK_TYPES: tuple[SinkType, ...] = (
    FileSinks(),
    ForeachBatchSink(),
    DeltaSink(),
    IcebergSink(),
    OtherTableSink(),
    KafkaSink(),
    OtherSink(),
)
"""The first type that takes a format, or owns a recorded sink, applies; the last one takes all."""


def type_of_format(source: str) -> SinkType:
    """Return the sink type of a writer of the format *source*."""
    return next(each for each in SINK_TYPES if each.takes(source))


def type_of(sink: QuerySink) -> SinkType:
    """Return the type of a recorded sink."""
    return next(each for each in SINK_TYPES if each.owns(sink))


def what_comes_again(shown: str | None) -> str:
    """Return the effect of a repeated batch on a sink, as the end of a sentence about its query.

    :param shown: The sink as in a job's status: the location of an output that records its batches, or a format.
    """
    if shown is not None and "/" in shown:
        return SKIPS
    sink = QuerySink(kind=SinkKind.OTHER, format=shown)
    return (type_of_format(shown) if shown is not None else type_of(sink)).again(sink)


def sink_named(said: str | None, reach: StorageAccess | None = None) -> QuerySink:
    """Return the sink that the user names: its output directory, or its format if it has no directory.

    :param said: A path or URI, ``"foreachBatch"``, a format such as ``"kafka"``, or ``None``.
    :param reach: Access to the file system of the output; by default from the environment.
    :raises ConfigurationError: A format that keeps a log is named without its directory, or it cannot be read here.
    """
    if said is None:
        return QuerySink(kind=SinkKind.OTHER)
    found = (each.named(said, reach or StorageAccess()) for each in SINK_TYPES)
    return next(sink for sink in found if sink is not None)


def sink_connector(sink: QuerySink, reach: StorageAccess | None = None) -> SinkConnector | None:
    """Return the connector of a query's output; ``None`` for a type without a record of batches.

    :param reach: Access to the file system of the output; by default from the environment.
    """
    return type_of(sink).connector(sink, reach or StorageAccess())


def sink_record(sink: QuerySink, reach: StorageAccess) -> Tree | None:
    """Return an output's record of batches; ``None`` for an output that has no record or is not named yet."""
    connector = sink_connector(sink, reach)
    return connector.record() if connector is not None and sink.path is not None else None


def query_memory(sink: QuerySink, reach: StorageAccess) -> QueryMemory | None:
    """Return the output that remembers the query by its id; ``None`` without one, or when it cannot be read."""
    return type_of(sink).memory(sink, reach)
