"""Tables that remember the batches of a query in a way that is not read here: what they have is unknown.

Such a table skips a batch whose number it has, as Delta does. So no restore plan takes it for one that is given
every batch again: it says that the facts are unknown, and a user accepts that by name.
"""

from __future__ import annotations

from airflow_provider_ha.checkpoints.connectors.sink_connector import Findings, SinkCase
from airflow_provider_ha.checkpoints.connectors.sink_type import SinkType
from airflow_provider_ha.checkpoints.model import QuerySink


_FORMATS = frozenset({"hudi", "org.apache.hudi"})  # HoodieStreamingSink: "skipping already completed batch"


class UnreadTable(SinkType):
    """Tables of Hudi."""

    table = "Hudi table"

    def takes(self, source: str) -> bool:
        """The format, in any case."""
        return source.lower() in _FORMATS

    def again(self, sink: QuerySink) -> str:  # noqa: ARG002  # all are alike
        """It may skip what it has; that is not read here."""
        return "it is not known whether its table skips a batch that it has"

    def judge(self, sink: QuerySink, case: SinkCase, findings: Findings) -> dict[int, str]:  # noqa: ARG002  # all of it
        """Judge nothing: what it has is unknown, which is a finding by itself."""
        return {}
