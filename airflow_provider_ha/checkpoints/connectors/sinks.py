"""The connectors of sinks, by kind.

A kind without one (``foreachBatch``, and others) executes every batch that it is given and keeps no record of them;
what such a sink may have is judged from the checkpoint alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from airflow_provider_ha.checkpoints.connectors.file_sink import FileSink
from airflow_provider_ha.checkpoints.connectors.sink_connector import SinkConnector
from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind


CONNECTORS: Mapping[SinkKind, Callable[[str | None], SinkConnector]] = MappingProxyType({SinkKind.FILE: FileSink})
"""Kind -> makes the connector of an output, by its path; the path is ``None`` while the script has not named it."""


def sink_connector(sink: QuerySink) -> SinkConnector | None:
    """Return the connector of where a query writes; ``None`` for a kind that keeps no record of batches."""
    connect = CONNECTORS.get(sink.kind)
    return connect(sink.path) if connect is not None else None
