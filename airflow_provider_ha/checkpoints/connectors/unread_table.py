"""Tables that remember the batches of a query in a form that is not read here: their batches are unknown.

Such a table skips a batch whose number it has, as Delta does. So a restore plan does not treat it as a sink that
receives every batch again: it reports that the facts are unknown, and a user accepts that by name.
"""

from __future__ import annotations

from airflow_provider_ha.checkpoints.connectors.sink_connector import Findings, SinkCase
from airflow_provider_ha.checkpoints.connectors.sink_type import SinkType
from airflow_provider_ha.checkpoints.model import QuerySink


_FORMATS = frozenset({"hudi", "org.apache.hudi"})  # HoodieStreamingSink: "skipping already completed batch"


class UnreadTable(SinkType):
    """Hudi tables."""

    table = "Hudi table"

    def takes(self, source: str) -> bool:
        """Match the format, in any case."""
        return source.lower() in _FORMATS

    def again(self, sink: QuerySink) -> str:  # noqa: ARG002  # the same for all tables
        """Return that skipping is unknown: it may skip existing batches, which are not read here."""
        return "it is unknown whether its table skips a batch that it has"

    def judge(self, sink: QuerySink, case: SinkCase, findings: Findings) -> dict[int, str]:  # noqa: ARG002  # no finding here
        """Add no finding: the unknown batches are a separate finding."""
        return {}
