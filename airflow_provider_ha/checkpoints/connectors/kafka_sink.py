"""Kafka as a sink: it executes every batch that it is given, and cannot be asked what it has of a query."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ha.checkpoints.connectors.other_sink import OtherSink
from airflow_provider_ha.checkpoints.connectors.sink_type import SinkType
from airflow_provider_ha.checkpoints.model import QuerySink


class KafkaSink(OtherSink):
    """Topics. What they may have is judged by the checkpoint."""

    def takes(self, source: str) -> bool:
        """The format, in any case."""
        return source.lower() == "kafka"

    def owns(self, sink: QuerySink) -> bool:
        """By the format."""
        return SinkType.owns(self, sink)

    def identity(self, options: Mapping[str, str]) -> str | None:
        """Return the topic. The brokers are not part of it: after a disaster they are others."""
        return options.get("topic")
