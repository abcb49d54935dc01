"""List of all sink types. A new type is a separate module and an entry here."""

from __future__ import annotations

from airflow_provider_ha.checkpoints.connectors.delta import DeltaSink
from airflow_provider_ha.checkpoints.connectors.file_sink import FileSinks
from airflow_provider_ha.checkpoints.connectors.foreach_batch import ForeachBatchSink
from airflow_provider_ha.checkpoints.connectors.iceberg import IcebergSink
from airflow_provider_ha.checkpoints.connectors.kafka_sink import KafkaSink
from airflow_provider_ha.checkpoints.connectors.other_sink import OtherSink
from airflow_provider_ha.checkpoints.connectors.places import Reach
from airflow_provider_ha.checkpoints.connectors.sink_connector import SinkConnector
from airflow_provider_ha.checkpoints.connectors.sink_type import SKIPS, QueryMemory, SinkType
from airflow_provider_ha.checkpoints.connectors.unread_table import UnreadTable
from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.trees.tree import Tree


SINK_TYPES: tuple[SinkType, ...] = (
    FileSinks(),
    ForeachBatchSink(),
    DeltaSink(),
    IcebergSink(),
    UnreadTable(),
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


def sink_named(said: str | None, reach: Reach | None = None) -> QuerySink:
    """Return the sink that the user names: its output directory, or its format if it has no directory.

    :param said: A path or URI, ``"foreachBatch"``, a format such as ``"kafka"``, or ``None``.
    :param reach: Access to the file system of the output; by default from the environment.
    :raises ConfigurationError: A format that keeps a log is named without its directory, or it cannot be read here.
    """
    if said is None:
        return QuerySink(kind=SinkKind.OTHER)
    found = (each.named(said, reach or Reach()) for each in SINK_TYPES)
    return next(sink for sink in found if sink is not None)


def sink_connector(sink: QuerySink, reach: Reach | None = None) -> SinkConnector | None:
    """Return the connector of a query's output; ``None`` for a type without a record of batches.

    :param reach: Access to the file system of the output; by default from the environment.
    """
    return type_of(sink).connector(sink, reach or Reach())


def sink_record(sink: QuerySink, reach: Reach) -> Tree | None:
    """Return an output's record of batches; ``None`` for an output that has no record or is not named yet."""
    connector = sink_connector(sink, reach)
    return connector.record() if connector is not None and sink.path is not None else None


def query_memory(sink: QuerySink, reach: Reach) -> QueryMemory | None:
    """Return the output that remembers the query by its id; ``None`` without one, or when it cannot be read."""
    return type_of(sink).memory(sink, reach)
