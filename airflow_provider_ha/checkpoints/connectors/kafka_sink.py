"""Kafka as a sink: it executes every batch it receives, and cannot report a query's batches."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ha.checkpoints.connectors.other_sink import OtherSink
from airflow_provider_ha.checkpoints.connectors.sink_type import SinkType
from airflow_provider_ha.checkpoints.model import QuerySink


class KafkaSink(OtherSink):
    """Topics. Their possible content is judged by the checkpoint."""

    def takes(self, source: str) -> bool:
        """Match the format, in any case."""
        return source.lower() == "kafka"

    def owns(self, sink: QuerySink) -> bool:
        """Match by the format."""
        return SinkType.owns(self, sink)

    def identity(self, options: Mapping[str, str]) -> str | None:
        """Return the topic, without the brokers: they differ after a disaster."""
        return options.get("topic")
